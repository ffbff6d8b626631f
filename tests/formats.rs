//! Formats that users meet: namespaces whose blocks cannot be a drive's, disks that hold something or are mounted, drives that changed places,
//! format or size between two boots. This program runs in the machine that has them. `cargo xtask guest` runs it.
//!
//! ```text
//!   here: images ──> first machine: drive list, refusals, an array in-band, one on a, b, c, d ──> here: images that were refused are as before
//!                ──> second machine: b, a, c with other blocks, half of d ──> the array serves all the same, without d
//! ```

#![allow(clippy::unwrap_used)]

mod support;

use serde_json::Value;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use support::machine::{Inside, Kernel, is_asked_for, is_inside, run_inside};
use support::nvme::{WITH_METADATA, ZONED};
use support::run::{SOON, command, run_for, until};
use support::scratch::Scratch;
use support::server::{Server, ask, assert_clean, refused, status, zoneweave};
use support::{number_from, text};

const IMAGE_BYTES: u64 = 512 << 20;
/// Blocks without metadata.
const PLAIN: &str = "logical_block_size=4096,physical_block_size=4096";
const SMALL: &str = "logical_block_size=512,physical_block_size=512";
/// Disks whose images hold something before the first machine.
const FULL: [&str; 4] = ["ext4", "swap", "lvm", "md"];
/// Disks that nothing may be written to, and whose images hold nothing.
const BLANK: [&str; 10] =
    ["zext", "zms8", "zpi", "zpi64", "z512m", "good1", "good2", "cext", "blank1", "blank2"];
/// Bytes that the array holds when the first machine ends.
const WRITTEN: u64 = 16 << 20;

/// Disks of the first machine, by serial number.
fn disks() -> Vec<(&'static str, String)> {
    let zoned = |name, format: &str| (name, format!("{format},{ZONED}"));
    let plain = |name| (name, PLAIN.to_owned());
    vec![
        plain("a"),
        plain("b"),
        plain("c"),
        plain("d"),
        plain("mounted"),
        zoned("z512", SMALL),
        zoned("z4096a", PLAIN),
        zoned("z4096b", PLAIN),
        zoned("zext", &format!("{PLAIN},ms=64,mset=1")),
        zoned("zms8", &format!("{PLAIN},ms=8,mset=0")),
        zoned("zpi", &format!("{PLAIN},ms=8,mset=0,pi=1")),
        zoned("zpi64", &format!("{WITH_METADATA},pi=1")),
        zoned("z512m", &format!("{SMALL},ms=64,mset=0")),
        zoned("good1", WITH_METADATA),
        zoned("good2", WITH_METADATA),
        ("cext", format!("{PLAIN},ms=8,mset=1")),
        plain("blank1"),
        plain("blank2"),
        ("ext4", SMALL.to_owned()),
        plain("swap"),
        plain("lvm"),
        plain("md"),
    ]
}

fn image(scratch: &Path, name: &str) -> PathBuf {
    scratch.join(format!("{name}.img"))
}

/// Makes the images of the first machine.
fn make_images(scratch: &Path) {
    for (name, _) in disks() {
        std::fs::File::create(image(scratch, name)).unwrap().set_len(IMAGE_BYTES).unwrap();
    }
    for name in ["mounted", "ext4"] {
        let at = image(scratch, name);
        run_for(SOON, command("mkfs.ext4").args(["-q", "-F", text(&at)])).expect("mkfs.ext4");
    }
    run_for(SOON, command("mkswap").arg(image(scratch, "swap"))).expect("mkswap");
    let mut label = vec![0; 4096];
    label[512..520].copy_from_slice(b"LABELONE");
    let lvm = std::fs::File::options().write(true).open(image(scratch, "lvm")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&lvm, &label, 0).unwrap();
    let members = ["md", "md1", "md2"].map(|name| image(scratch, name));
    for member in &members[1..] {
        std::fs::File::create(member).unwrap().set_len(IMAGE_BYTES).unwrap();
    }
    let dir = scratch.join("md");
    let fixed = ["md", "create", text(&dir), "--level", "5", "--raid-devices", "3"];
    ask(&[&fixed[..], &members.each_ref().map(|path| text(path))].concat()).expect("md create");
}

/// Contents of the images of disks that are to stay as they are.
fn contents(scratch: &Path) -> Vec<Vec<u8>> {
    FULL.iter().map(|name| std::fs::read(image(scratch, name)).unwrap()).collect()
}

/// Boots a machine with these disks, in this order.
fn boot(scratch: &Scratch, number: u32, disks: &[(&str, String)]) {
    let mut devices = Vec::new();
    for (index, (name, format)) in disks.iter().enumerate() {
        let file = image(scratch.path(), name);
        devices.extend([
            "-device".to_owned(),
            format!("nvme,serial={name},id=nvme{index},zoned.zasl=5"),
            "-drive".to_owned(),
            format!("file={},id=d{index},format=raw,if=none,cache=unsafe,discard=unmap", text(&file)),
            "-device".to_owned(),
            format!("nvme-ns,drive=d{index},bus=nvme{index},nsid=1,{format}"),
        ]);
    }
    let prepare = format!(
        "export ZONEWEAVE_BOOT={number}
         {}
         disk=$(grep -l mounted /sys/class/nvme/*/serial | cut -d/ -f5); mount -t ext4 /dev/${{disk}}n1 /m",
        support::nvme::wait_for(disks.len())
    );
    let name = "formats_are_told_with_their_remedies";
    let modules = "nvme ext4 crc32c_generic";
    let inside = Inside { name, kernel: Kernel::Current, devices, modules, programs: &[], prepare: &prepare };
    run_inside(scratch, inside);
}

#[test]
fn formats_are_told_with_their_remedies() {
    if is_inside() {
        match number_from("ZONEWEAVE_BOOT", 0) {
            1 => first(),
            _ => second(),
        }
        run_for(SOON, command("umount").arg("/m")).expect("umount");
    } else if is_asked_for(Kernel::Current, &["mkfs.ext4", "mkswap"]) {
        let scratch = Scratch::new("formats");
        make_images(scratch.path());
        let before = contents(scratch.path());
        boot(&scratch, 1, &disks());
        for (name, (before, after)) in FULL.iter().zip(before.iter().zip(contents(scratch.path()))) {
            assert!(*before == after, "{name} was written to");
        }
        for name in BLANK {
            let written = std::fs::metadata(image(scratch.path(), name)).unwrap().blocks();
            assert_eq!(written, 0, "{name} was written to");
        }
        println!("- {} disks that were refused hold what they held", FULL.len() + BLANK.len());
        let half = std::fs::File::options().write(true).open(image(scratch.path(), "d")).unwrap();
        half.set_len(IMAGE_BYTES / 2).unwrap();
        let plain = || PLAIN.to_owned();
        let disks =
            [("b", plain()), ("a", plain()), ("c", SMALL.to_owned()), ("d", plain()), ("mounted", plain())];
        boot(&scratch, 2, &disks);
    }
}

/// Disks that `drive list` reports, by serial number.
fn list() -> BTreeMap<String, Value> {
    let list: Value = serde_json::from_str(&ask(&["drive", "list", "--json"]).expect("drive list")).unwrap();
    let drives = list["drives"].as_array().unwrap().iter().filter(|drive| drive["serial"].is_string());
    drives.map(|drive| (drive["serial"].as_str().unwrap().to_owned(), drive.clone())).collect()
}

/// Nodes of the disks of a machine.
struct Nodes(BTreeMap<String, Value>);

impl Nodes {
    /// Path under which it is listed.
    fn listed(&self, name: &str) -> String {
        self.0[name]["path"].as_str().unwrap().to_owned()
    }

    fn block(&self, name: &str) -> String {
        self.listed(name).replace("/dev/ng", "/dev/nvme")
    }

    fn character(&self, name: &str) -> String {
        self.listed(name).replace("/dev/nvme", "/dev/ng")
    }
}

/// Compares what is listed with what has to be: state, and words of the rest.
fn expect_listed(nodes: &Nodes) {
    let plain = ask(&["drive", "list"]).expect("drive list");
    let to_metadata = |name: &str| format!("nvme format {} --lbaf=7 --ms=0 --pi=0", nodes.block(name));
    let in_band = "metadata lie in-band, which takes 1 block of 60, and two zones".to_owned();
    let mut wanted: Vec<(&str, &str, Vec<String>)> = Vec::new();
    for name in ["zext", "zms8", "zpi", "zpi64", "z512m"] {
        wanted.push((name, "unsuited", vec![to_metadata(name), "all that it holds is lost".to_owned()]));
    }
    for name in ["z512", "z4096a", "z4096b"] {
        wanted.push((name, "free", vec![in_band.clone(), to_metadata(name)]));
    }
    let without = format!("nvme format {} --lbaf=4 --ms=0 --pi=0", nodes.block("cext"));
    wanted.push(("cext", "unsuited", vec![without, "no block device".to_owned()]));
    wanted.push(("mounted", "in-use", vec!["mounted on /m".to_owned(), "free it first".to_owned()]));
    let holders =
        [("ext4", "ext2, ext3 or ext4"), ("swap", "swap space"), ("lvm", "LVM"), ("md", "of the md array")];
    for (name, holds) in holders {
        wanted.push((name, "holds", vec![holds.to_owned()]));
    }
    for name in ["good1", "good2", "blank1", "a"] {
        wanted.push((name, "free", vec![format!("create DIR --drives-path {}", nodes.listed(name))]));
    }
    for (name, state, words) in &wanted {
        let found = nodes.0.get(*name).unwrap_or_else(|| panic!("{name} is not listed:\n{plain}"));
        assert_eq!(found["state"], *state, "{found:#}");
        let path = nodes.listed(name);
        let lines: Vec<&str> =
            plain.lines().skip_while(|line| !line.starts_with(&format!("{path} "))).take(3).collect();
        for word in words {
            assert!(found.to_string().contains(word), "{name}: `{word}` is not in {found:#}");
            assert!(lines.iter().any(|line| line.contains(word)), "{name}: `{word}` is not in {lines:#?}");
        }
        println!("- {name}: {}, {}", found["state"], found["advice"]);
    }
}

/// Refusals of disks of which no array may be made, by code and reason.
fn expect_refused(nodes: &Nodes) {
    let create = |paths: &[String], more: &[&str], code: i32, why: &str| {
        let paths = paths.join(",");
        refused(&[&["create", "/tmp/other", "--drives-path", &paths][..], more].concat(), code, why);
    };
    let blank = |first: String| [first, nodes.block("blank1"), nodes.block("blank2")];
    let cut = ["--zone-size", "4MiB"];
    let forced = ["--zone-size", "4MiB", "--force"];
    for (name, why) in
        [("ext4", "ext2, ext3 or ext4"), ("swap", "swap space"), ("lvm", "LVM"), ("md", "md array")]
    {
        create(&blank(nodes.block(name)), &cut, 4, why);
        refused(&["drive", "qualify", &nodes.block(name), "--destroy"], 4, why);
    }
    create(&blank(nodes.block("mounted")), &cut, 5, "mounted");
    create(&blank(nodes.block("mounted")), &forced, 5, &nodes.block("mounted"));
    refused(&["drive", "qualify", &nodes.block("mounted"), "--destroy"], 5, "mounted");
    let format = |name: &str| format!("`nvme format {} --lbaf=", nodes.block(name));
    for name in ["zext", "zms8", "zpi", "zpi64", "z512m", "cext"] {
        create(
            &[nodes.character(name), nodes.character("good1"), nodes.character("good2")],
            &["--force"],
            2,
            &format(name),
        );
        let others = if name == "cext" { ["blank1", "blank2"] } else { ["z4096a", "z4096b"] };
        let others = others.map(|other| nodes.block(other));
        create(&[&[nodes.block(name)][..], &others].concat(), &["--force"], 2, &format(name));
        refused(&["drive", "qualify", &nodes.block(name), "--destroy"], 2, &format(name));
    }
    create(&["good1", "good2", "z4096a"].map(|name| nodes.listed(name)), &["--force"], 2, "take one kind");
    for name in ["blank1", "good1", "z4096a"] {
        let (path, alias) = (nodes.listed(name), format!("/tmp/alias-{name}"));
        std::os::unix::fs::symlink(&path, &alias).unwrap();
        let other = if name == "blank1" { "blank2" } else { name };
        create(&[path, alias, nodes.listed(other)], &["--force"], 2, "are the same drive");
    }
    create(&blank("/tmp".to_owned()), &cut, 2, "is a directory");
    create(&blank("/dev/nvme99n1".to_owned()), &cut, 6, "no such device");
    println!("- `create` and `qualify` refuse each by name, with the reason");
}

/// An array on namespaces without metadata, with blocks of 512 and of 4,096 bytes.
fn in_band(nodes: &Nodes) {
    let dir = Path::new("/tmp/inband");
    let paths = ["z512", "z4096a", "z4096b"].map(|name| nodes.listed(name)).join(",");
    ask(&["create", text(dir), "--drives-path", &paths]).expect("create");
    let server = Server::serve(dir);
    fill(&server);
    server.kill_9();
    let server = Server::serve(dir);
    compare(&server);
    server.stop();
    assert_clean(dir);
    ask(&["destroy", "--yes", text(dir)]).expect("destroy");
    println!("- an array in-band holds what was written, on blocks of 512 and of 4096 bytes");
}

fn contents_of(mib: u64) -> Vec<u8> {
    (0..1_u64 << 20).map(|byte| u8::try_from((byte / 4096 * 7 + mib * 13) % 251).unwrap()).collect()
}

fn fill(server: &Server) {
    let mut client = server.client();
    for mib in 0..WRITTEN >> 20 {
        client.write(mib << 20, &contents_of(mib)).unwrap();
    }
    client.flush().unwrap();
}

#[track_caller]
fn compare(server: &Server) {
    let mut client = server.client();
    for mib in 0..WRITTEN >> 20 {
        assert!(client.read(mib << 20, 1 << 20).unwrap() == contents_of(mib), "MiB {mib}");
    }
}

fn first() {
    let nodes = Nodes(list());
    expect_listed(&nodes);
    expect_refused(&nodes);
    let after = list();
    assert_eq!(nodes.0, after, "disks are as they were");
    in_band(&nodes);
    members(&nodes);
}

/// An array whose description lies on the mounted disk; what may not become a drive of it.
fn members(nodes: &Nodes) {
    let dir = Path::new("/m/array");
    let place = text(dir);
    let paths = ["a", "b", "c", "d"].map(|name| nodes.block(name)).join(",");
    ask(&["create", place, "--drives-path", &paths, "--zone-size", "4MiB"]).expect("create");
    let member = |more: &[&str], code| {
        let paths = ["a", "blank1", "blank2"].map(|name| nodes.block(name)).join(",");
        let fixed = ["create", "/tmp/other", "--zone-size", "4MiB", "--drives-path", &paths];
        refused(&[&fixed[..], more].concat(), code, &nodes.block("a"));
    };
    member(&[], 4);
    let server = Server::serve(dir);
    member(&["--force"], 5);
    fill(&server);
    ask(&["drive", "fail", place, "3"]).expect("fail");
    let others = [
        ("ext4", 4, "ext2, ext3 or ext4"),
        ("swap", 4, "swap space"),
        ("lvm", 4, "LVM"),
        ("md", 4, "md array"),
        ("mounted", 5, "mounted"),
        ("cext", 2, "nvme format"),
        ("zms8", 2, "nvme format"),
        ("b", 4, "a drive of Zoneweave"),
    ];
    for (name, code, why) in others {
        let path = nodes.block(name);
        refused(&["drive", "add-spare", place, &path], code, why);
        refused(&["drive", "replace", place, "3", "--with", &path], code, why);
    }
    println!("- `add-spare` and `replace` refuse what holds something, is used or of another format");
    run_for(SOON * 2, zoneweave().args(["drive", "re-add", place, "3", "--wait"])).expect("re-add");
    assert_eq!(status(dir)["state"], "clean");
    compare(&server);
    server.stop();
    // The kernel takes a moment to close what a server had open.
    let is_member = |name: &str| list()[name]["holds"].to_string().contains("a drive of Zoneweave");
    for name in ["a", "b", "c", "d"] {
        assert!(until(SOON, || is_member(name)), "{:#}", list()[name]);
    }
}

/// Two drives changed places, one has other blocks, and one has lost its second half.
fn second() {
    let dir = Path::new("/m/array");
    let nodes = Nodes(list());
    println!("- the second half of a drive is gone: {} {}", nodes.0["d"]["state"], nodes.0["d"]["advice"]);
    let served = ask(&["serve", text(dir)]);
    println!("- {}", served.stderr.lines().last().unwrap_or_default());
    assert_eq!(served.code(), Some(4), "{served}");
    assert!(served.stderr.contains("drive 3") && served.stderr.contains("--degraded"), "{served}");
    let server = Server::serve_degraded(dir);
    compare(&server);
    let now = status(dir);
    for (index, name) in ["a", "b", "c"].into_iter().enumerate() {
        let member = &now["members"][index];
        assert_eq!(
            (&member["state"], member["path"].as_str()),
            (&"active".into(), Some(&*nodes.block(name))),
            "{now:#}"
        );
    }
    server.stop();
    println!("- drives that changed places, and one with blocks of 512 bytes, are served all the same");
}
