//! Arrays on zoned block devices of the kernel, which keep no metadata: null_blk, shingled disks of scsi_debug, namespaces of QEMU.
//! This program runs in the machine that has them. `cargo xtask guest` runs it.
//!
//! ```text
//!   here: boots a machine with this program in it ──> there: qualify, create, serve, write, kill, lose a disk or zones, replace
//! ```

#![allow(clippy::unwrap_used)]

mod support;

use base::random::Random;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use support::machine::{Inside, Kernel, is_asked_for, is_inside, run_inside};
use support::run::{SOON, command, run_for, until};
use support::scratch::Scratch;
use support::server::{Server, ask, assert_clean, let_run, refused, status, zoneweave};
use support::writer::Oracle;
use support::{cache_shadow, nvme, random, text};

/// Disks of a machine: four for an array, and one to replace another.
const DISKS: usize = 5;

/// Kills after the first one, each of a server that was mounted after a kill; more follow while a disk is away.
const KILLS_MORE: u32 = 1;

/// Makes disks of null_blk from the lines of its configuration.
fn null_disks(count: usize, lines: &str) -> String {
    format!(
        "mount -t configfs none /sys/kernel/config
         for disk in $(seq {count}); do
             cd /sys/kernel/config/nullb; mkdir nullb$disk; cd nullb$disk
             echo 1 > memory_backed; echo 4096 > blocksize; echo 1 > zoned
             {lines}
             echo 1 > power
         done; cd /"
    )
}

fn on_machine(name: &str, devices: Vec<String>, modules: &str, programs: &[&str], prepare: &str) {
    let inside = Inside { name, kernel: Kernel::Current, devices, modules, programs, prepare };
    run_inside(&Scratch::new("zoned"), inside);
}

#[test]
fn an_array_on_zoned_disks_survives() {
    if is_inside() {
        let disks = (1..=DISKS).map(|index| format!("/dev/nullb{index}")).collect::<Vec<_>>();
        refused(&["create", "/tmp/other", "--drives-path", "/dev/nullb5,/dev/nullb0"], 2, "take one kind");
        live(&disks);
    } else if is_asked_for(Kernel::Current, &[]) {
        let prepare = null_disks(
            DISKS,
            "echo 1024 > size; echo 16 > zone_size; echo 12 > zone_capacity; echo 14 > zone_max_open; echo 14 > zone_max_active",
        );
        on_machine("an_array_on_zoned_disks_survives", Vec::new(), "null_blk", &[], &prepare);
    }
}

#[test]
fn a_cache_on_zoned_disks_survives() {
    if is_inside() {
        cache_shadow::live(
            Path::new("/tmp/cache"),
            &["/dev/nullb1", "/dev/nullb2", "/dev/nullb3"],
            "/dev/nullb4",
        );
    } else if is_asked_for(Kernel::Current, &[]) {
        let prepare = null_disks(
            DISKS,
            "echo 512 > size; echo 16 > zone_size; echo 12 > zone_capacity; echo 14 > zone_max_open; echo 14 > zone_max_active",
        );
        on_machine("a_cache_on_zoned_disks_survives", Vec::new(), "null_blk", &[], &prepare);
    }
}

/// Host-managed disks: conventional zones come first, three zones may be open.
#[test]
fn an_array_on_shingled_disks_survives() {
    if is_inside() {
        let found = std::fs::read_dir("/sys/class/block").unwrap().flatten();
        let names = found.map(|entry| entry.file_name().into_string().unwrap());
        let disks: BTreeSet<String> =
            names.filter(|name| name.starts_with("sd")).map(|name| format!("/dev/{name}")).collect();
        assert_eq!(disks.len(), DISKS);
        for disk in &disks {
            println!("- {disk}: {}", zones_at_first(disk));
        }
        live(&Vec::from_iter(disks));
    } else if is_asked_for(Kernel::Current, &["blkzone"]) {
        let options = format!(
            "add_host={DISKS}:per_host_store=1:dev_size_mb=272:zbc=managed:zone_size_mb=8:zone_max_open=3:zone_nr_conv=2\
             :sector_size=4096:ndelay=20000"
        );
        let prepare = format!(
            "for try in $(seq 100); do [ $(ls -d /sys/class/block/sd* 2> /dev/null | wc -l) = {DISKS} ] && break; sleep 0.1; done"
        );
        let modules = format!("sd_mod scsi_debug:{options}");
        on_machine("an_array_on_shingled_disks_survives", Vec::new(), &modules, &["blkzone"], &prepare);
    }
}

/// Namespaces with zones that are formatted without metadata.
#[test]
fn an_array_on_namespaces_without_metadata_survives() {
    if is_inside() {
        live(&Vec::from_iter((0..DISKS).map(|index| format!("/dev/nvme{index}n1"))));
    } else if is_asked_for(Kernel::Current, &[]) {
        let scratch = Scratch::new("plain");
        let format = format!("logical_block_size=4096,physical_block_size=4096,{}", nvme::ZONED);
        let drive = |index| nvme::drive(scratch.path(), index, 1 << 30, &format);
        let devices = (0..DISKS).flat_map(drive).collect();
        let prepare = nvme::wait_for(DISKS);
        on_machine("an_array_on_namespaces_without_metadata_survives", devices, "nvme", &[], &prepare);
    }
}

/// The journals of identities lie in files, which move, and one of which is lost.
#[test]
fn an_array_with_journals_elsewhere_survives() {
    if is_inside() {
        let disks = (1..=DISKS).map(|index| format!("/dev/nullb{index}")).collect::<Vec<_>>();
        live_with_journals(&disks);
    } else if is_asked_for(Kernel::Current, &[]) {
        let prepare = null_disks(
            DISKS,
            "echo 1024 > size; echo 16 > zone_size; echo 12 > zone_capacity; echo 14 > zone_max_open; echo 14 > zone_max_active",
        );
        on_machine("an_array_with_journals_elsewhere_survives", Vec::new(), "null_blk", &[], &prepare);
    }
}

/// Drives that come into an array, as replacements and as spares, bring journals of identities that lie in files.
#[test]
fn newcomers_bring_their_journals() {
    if is_inside() {
        bring_journals(&(1..=DISKS + 1).map(|index| format!("/dev/nullb{index}")).collect::<Vec<_>>());
    } else if is_asked_for(Kernel::Current, &[]) {
        let prepare = null_disks(
            DISKS + 1,
            "echo 256 > size; echo 4 > zone_size; echo 3 > zone_capacity; echo 14 > zone_max_open",
        );
        on_machine("newcomers_bring_their_journals", Vec::new(), "null_blk", &[], &prepare);
    }
}

/// Zones turn read-only and offline while clients write.
#[test]
fn zones_that_die_cost_no_disk() {
    if is_inside() {
        dying();
    } else if is_asked_for(Kernel::Current, &["blkzone"]) {
        let prepare = null_disks(
            DISKS,
            "echo 256 > size; echo 4 > zone_size; echo 3 > zone_capacity; echo 14 > zone_max_open",
        );
        on_machine("zones_that_die_cost_no_disk", Vec::new(), "null_blk", &["blkzone"], &prepare);
    }
}

/// The first three lines of a report, in short.
fn zones_at_first(disk: &str) -> String {
    let report = run_for(SOON, command("blkzone").args(["report", "--count", "3", disk])).expect("blkzone");
    let kinds = report.lines().filter_map(|line| line.rsplit_once("type: ").map(|(_, kind)| kind.to_owned()));
    kinds.collect::<Vec<_>>().join(", ")
}

/// Entry of a disk in `drive list`.
fn listed(disk: &str) -> Value {
    let list = ask(&["drive", "list", "--json"]);
    let list: Value = serde_json::from_str(&list.stdout).unwrap();
    let found = list["drives"].as_array().unwrap().iter().find(|drive| drive["path"] == disk).cloned();
    found.unwrap_or_else(|| panic!("{disk} is not listed: {list:#}"))
}

fn qualify(disk: &str) {
    let free = listed(disk);
    assert!(free["state"] == "free" && free["advice"].as_str().unwrap().contains("in-band"), "{free:#}");
    let began = Instant::now();
    let asked = ["drive", "qualify", disk, "--destroy", "--steps", "300", "--json"];
    let passed = run_for(SOON * 2, zoneweave().args(asked));
    assert_eq!(passed.code(), Some(0), "{passed}");
    assert_eq!(listed(disk)["state"], "free", "a drive for the length of the checks");
    println!("- qualified in {:.1} s", began.elapsed().as_secs_f64());
}

/// Makes an array of the first four disks, and serves it.
fn create(dir: &Path, disks: &[String]) -> Server {
    let all = disks[..4].join(",");
    ask(&["create", text(dir), "--drives-path", &all]).expect("create");
    let other = ["create", "/tmp/other", "--drives-path", &all];
    refused(&other, 4, "is a drive of Zoneweave, of array");
    let server = Server::serve(dir);
    refused(&[&other[..], &["--force"]].concat(), 5, "in use");
    assert_eq!(listed(&disks[0])["state"], "in-use");
    server
}

/// A life of an array: kills, a disk that is lost and replaced, `array.toml` that is lost.
fn live(disks: &[String]) {
    let mut random = random(64);
    let dir = PathBuf::from("/tmp/array");
    qualify(&disks[4]);
    let server = create(&dir, disks);
    println!("- {} bytes", status(&dir)["capacity_bytes"]);
    let mut oracle = Oracle::new();
    oracle.write_and_kill(server, &mut random);
    for _ in 0..KILLS_MORE {
        let server = Server::serve(&dir);
        oracle.verify(&server);
        oracle.write_and_kill(server, &mut random);
    }
    replace(&dir, &disks[4], &mut oracle, &mut random);
    assemble(&dir, &mut oracle);
    // The disk that failed holds what it held, until it is wiped.
    let uuid = status(&dir)["array"].as_str().unwrap().to_owned();
    refused(&["drive", "wipe", &disks[2], "--force"], 4, &format!("--force={uuid}"));
    let wiped = ask(&["drive", "wipe", &disks[2], &format!("--force={uuid}"), "--json"]).expect("wipe");
    assert_eq!(listed(&disks[2])["state"], "free", "{wiped}");
    println!("- {}", wiped.trim());
    ask(&["destroy", "--yes", text(&dir)]).expect("destroy");
    assert_eq!(listed(&disks[0])["state"], "free", "disks are emptied, not removed");
}

/// An array with the journal of each disk in a file, through kills, with a file under another name and without one.
fn live_with_journals(disks: &[String]) {
    let mut random = random(83);
    let (dir, folder) = (PathBuf::from("/tmp/array"), Path::new("/tmp/journals"));
    std::fs::create_dir_all(folder).unwrap();
    let file = |index: usize| folder.join(format!("journal{index}"));
    for index in 0..4 {
        std::fs::File::create(file(index)).unwrap().set_len(80 << 20).unwrap();
    }
    let drives = disks[..4].join(",");
    let journals = (0..4).map(|index| format!("raw:{}", file(index).display())).collect::<Vec<_>>().join(",");
    let create = ["create", text(&dir), "--drives-path", &drives, "--identity-journal"];
    refused(&[&create[..], &["/tmp/nowhere"]].concat(), 2, "4 drives");
    ask(&[&create[..], &[&journals]].concat()).expect("create");
    // What is a journal now is not taken for a drive.
    let others = (0..2).map(|index| format!("raw:{}", file(index).display())).collect::<Vec<_>>().join(",");
    refused(
        &["create", "/tmp/other", "--drives-path", &others, "--zone-size", "1MiB"],
        4,
        "identity journal",
    );
    let mut oracle = Oracle::new();
    oracle.write_and_kill(Server::serve(&dir), &mut random);
    std::fs::rename(file(1), folder.join("moved")).unwrap();
    for _ in 0..KILLS_MORE {
        let server = Server::serve(&dir);
        oracle.verify(&server);
        oracle.write_and_kill(server, &mut random);
    }
    assert_eq!(status(&dir)["members"][1]["journal"], text(&folder.join("moved")));
    assemble(&dir, &mut oracle);
    assert_clean(&dir);
    // Without its journal a drive is not there.
    std::fs::rename(file(2), "/tmp/away").unwrap();
    let found = status(&dir);
    let problem = found["members"][2]["problem"].as_str().unwrap().to_owned();
    assert!(problem.contains("identity journal") && problem.contains(text(&file(2))), "{problem}");
    refused(&["drive", "probe", "--device", &disks[2], "--op", "read"], 2, "is missing");
    let server = Server::serve_degraded(&dir);
    oracle.verify(&server);
    server.stop();
    std::fs::rename("/tmp/away", file(2)).unwrap();
}

/// A file for a journal.
fn journal_file(name: &str, bytes: u64) -> String {
    let path = Path::new("/tmp/journals").join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::File::create(&path).unwrap().set_len(bytes).unwrap();
    text(&path).to_owned()
}

/// What `create` refuses as a journal is refused of one that comes later, before anything is written to its drive.
fn refuse_journals(dir: &Path, newcomer: &str, of_member: &str) {
    let data = journal_file("data", 32 << 20);
    std::fs::write(&data, "precious").unwrap();
    std::fs::File::options().write(true).open(&data).unwrap().set_len(32 << 20).unwrap();
    // Too small for a zone, and for as many zones as the others have open.
    let (smallest, small) = (journal_file("smallest", 64 << 10), journal_file("small", 3 << 20));
    for (journal, code, why) in [
        ("/tmp/nowhere", 2, "nothing is there"),
        ("/dev/null", 2, "neither a file nor a block device"),
        ("/dev/nullb1", 2, "has zones itself"),
        (&*data, 4, "data in its first MiB"),
        (&*smallest, 4, "journal zones"),
        (&*small, 2, "larger journal"),
        (of_member, 4, "has the identity journal of drive"),
    ] {
        let with = ["--identity-journal", journal];
        refused(&[&["drive", "replace", text(dir), "2", "--with", newcomer], &with[..]].concat(), code, why);
        refused(&[&["drive", "add-spare", text(dir), newcomer], &with[..]].concat(), code, why);
    }
    refused(
        &["drive", "replace", text(dir), "2", "--identity-journal", &small],
        2,
        "required arguments were not provided",
    );
    assert_eq!(listed(newcomer)["state"], "free", "nothing was written to it");
    assert!(std::fs::read(&data).unwrap().starts_with(b"precious"));
}

/// Replacements and spares with journals elsewhere: refused, rebuilt through kills, found again when their journals moved, called by a
/// server alone.
fn bring_journals(disks: &[String]) {
    let dir = PathBuf::from("/tmp/array");
    let journals: Vec<String> =
        (0..6).map(|index| journal_file(&format!("journal{index}"), 32 << 20)).collect();
    let (drives, own) = (disks[..4].join(","), journals[..4].join(","));
    let create =
        ["create", text(&dir), "--drives-path", &drives, "--size", "96MiB", "--identity-journal", &own];
    ask(&create).expect("create");
    let (mut oracle, mut random) = (Oracle::new(), random(83));
    oracle.write_and_kill(Server::serve(&dir), &mut random);
    let uuid = status(&dir)["array"].as_str().unwrap().to_owned();
    let mut life = Newcomers { dir, uuid, disks, journals, oracle, random };
    let server = life.replace_one();
    let server = life.call_spare(server);
    life.use_journal_again(server);
}

/// An array whose drives are replaced.
struct Newcomers<'a> {
    dir: PathBuf,
    uuid: String,
    disks: &'a [String],
    /// Files for journals; the first four are those of the first drives.
    journals: Vec<String>,
    oracle: Oracle,
    random: Random,
}

impl Newcomers<'_> {
    /// Moves a journal while nobody serves; returns where it is then.
    fn move_journal(&mut self, index: usize) -> String {
        let moved = format!("{}.moved", self.journals[index]);
        std::fs::rename(&self.journals[index], &moved).unwrap();
        moved
    }

    /// A journal is lost, and its drive with it. A replacement with a journal is rebuilt, through a kill in the middle, after which its
    /// journal is elsewhere.
    fn replace_one(&mut self) -> Server {
        let (dir, newcomer) = (self.dir.clone(), &self.disks[4]);
        std::fs::remove_file(&self.journals[2]).unwrap();
        let replace = ["drive", "replace", text(&dir), "2", "--with", newcomer, "--identity-journal"];
        let of_member = [&replace[..], &[&self.journals[1], "--force"]].concat();
        refused(&of_member, 5, "in use");
        let server = Server::serve_degraded(&dir);
        self.oracle.verify(&server);
        refuse_journals(&dir, newcomer, &self.journals[1]);
        refused(&of_member, 5, "in use");
        assert_eq!(listed(newcomer)["state"], "free", "nothing was written to it");
        let slowly = ["--rebuild-rate", "1"];
        ask(&[&replace[..], &[&self.journals[4]], &slowly[..]].concat()).expect("replace");
        assert_eq!(status(&dir)["members"][2]["journal"], *self.journals[4]);
        self.oracle.write_and_kill(server, &mut self.random);
        let moved = self.move_journal(4);
        let server = Server::serve_with(&dir, &slowly);
        let now = status(&dir);
        assert!(now["state"] == "rebuilding" && now["members"][2]["journal"] == *moved, "{now:#}");
        self.oracle.verify(&server);
        run_for(SOON * 2, zoneweave().args(["rebuild", text(&dir), "--rate", "0", "--wait"]))
            .expect("rebuild");
        println!(
            "- a replacement with a journal is rebuilt, through a kill, after which its journal had moved"
        );
        server
    }

    /// The disk without its journal is a spare with another one, which moves, too, and steps in by itself.
    fn call_spare(&mut self, server: Server) -> Server {
        let (dir, disk) = (self.dir.clone(), &self.disks[2]);
        let wipe = |force: &str| ask(&["drive", "wipe", disk, force]);
        for force in ["--force", &format!("--force={}", self.uuid)] {
            let untold = wipe(force);
            assert!(
                untold.code() == Some(4) && untold.to_string().contains("without its identity journal"),
                "{untold}"
            );
        }
        let said = wipe("--force").stderr;
        let name = said.rsplit_once("--force=").unwrap().1.split_whitespace().next().unwrap();
        wipe(&format!("--force={name}")).expect("wipe");
        let add = ["drive", "add-spare", text(&dir), disk, "--identity-journal", &self.journals[5]];
        ask(&add).expect("add-spare");
        assert_eq!(status(&dir)["spares"][0]["journal"], *self.journals[5]);
        let other = ["drive", "add-spare", text(&dir), &self.disks[5], "--force"];
        refused(&[&other[..], &add[4..]].concat(), 4, "is part of the array already");
        refused(&add, 2, "is a spare");
        self.oracle.write_and_kill(server, &mut self.random);
        let moved = self.move_journal(5);
        let server = Server::serve(&dir);
        self.oracle.verify(&server);
        assert_eq!(status(&dir)["spares"][0]["journal"], *moved);
        let writers = self.oracle.write(&server, &mut self.random);
        ask(&["drive", "fail", text(&dir), "0"]).expect("fail");
        let is_called = |now: &Value| now["members"][0]["path"] == **disk && now["state"] == "clean";
        assert!(until(SOON * 4, || is_called(&status(&dir))), "{:#}\n{}", status(&dir), server.log());
        assert_eq!(status(&dir)["members"][0]["journal"], *moved);
        server.kill_9();
        let count = self.oracle.join(writers);
        println!("- a spare brought its journal, killed after {count} acknowledged requests");
        Server::serve(&dir)
    }

    /// Another drive is gone, so that data of both newcomers are needed. Its journal is there, and serves the next one.
    fn use_journal_again(&mut self, server: Server) {
        let (dir, disk) = (self.dir.clone(), &self.disks[1]);
        self.oracle.verify(&server);
        ask(&["drive", "fail", text(&dir), "1"]).expect("fail");
        self.oracle.verify(&server);
        server.stop();
        ask(&["drive", "wipe", disk, &format!("--force={}", self.uuid)]).expect("wipe");
        let server = Server::serve_degraded(&dir);
        let journal = ["--identity-journal", &self.journals[1]];
        let again = [&["drive", "replace", text(&dir), "1", "--with", disk], &journal[..]].concat();
        refused(&again, 4, "has the identity journal of drive");
        run_for(SOON * 2, zoneweave().args(again).args(["--force", "--wait"])).expect("replace");
        self.oracle.verify(&server);
        server.stop();
        assert_clean(&dir);
    }
}

/// A disk fails, the array is killed without it, and a disk takes its place while clients write.
fn replace(dir: &Path, with: &str, oracle: &mut Oracle, random: &mut Random) {
    let server = Server::serve(dir);
    ask(&["drive", "fail", text(dir), "2"]).expect("fail");
    oracle.verify(&server);
    oracle.write_and_kill(server, random);
    let server = Server::serve(dir);
    oracle.verify(&server);
    let writers = oracle.write(&server, random);
    let began = Instant::now();
    let replaced = ["drive", "replace", text(dir), "2", "--with", with, "--wait"];
    run_for(SOON * 2, zoneweave().args(replaced)).expect("replace");
    println!("- replaced in {:.1} s under load", began.elapsed().as_secs_f64());
    server.kill_9();
    println!("- killed after {} acknowledged requests", oracle.join(writers));
    let server = Server::serve(dir);
    oracle.verify(&server);
    server.stop();
    assert_clean(dir);
}

/// `array.toml` is lost, and everything is found on the disks.
fn assemble(dir: &Path, oracle: &mut Oracle) {
    let lost = std::fs::read_to_string(dir.join("array.toml")).unwrap();
    let uuid = lost.split("uuid = \"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
    std::fs::rename(dir, "/tmp/lost").unwrap();
    ask(&["assemble", text(dir), "--array", uuid]).expect("assemble");
    let server = Server::serve(dir);
    oracle.verify(&server);
    server.stop();
}

/// Zones of a disk that are open, as sectors.
fn open_zones(disk: &str) -> Vec<u64> {
    let report = run_for(SOON, command("blkzone").args(["report", disk])).expect("blkzone");
    let open = report.lines().filter(|line| line.contains("zcond: 2(oi)"));
    open.map(|line| {
        let start = line.split("start: 0x").nth(1).and_then(|rest| rest.split(',').next()).unwrap();
        u64::from_str_radix(start, 16).unwrap()
    })
    .collect()
}

/// Sectors of the zones of `dying`.
const ZONE_SECTORS: u64 = 4 << 11;
/// Zones that do not die: two of the journal, which take the disk along, and those of superblocks.
const KEPT_ZONES: u64 = 2 + 4;

/// Turns an open zone of a disk read-only, or offline; false when none is open.
fn end_zone(disk: usize, is_offline: bool, random: &mut Random) -> bool {
    let zones: Vec<u64> = open_zones(&format!("/dev/nullb{disk}"))
        .into_iter()
        .filter(|sector| *sector >= KEPT_ZONES * ZONE_SECTORS)
        .collect();
    if zones.is_empty() {
        return false;
    }
    let sector = zones[usize::try_from(random.below(zones.len() as u64)).unwrap()];
    let how = if is_offline { "zone_offline" } else { "zone_readonly" };
    std::fs::write(format!("/sys/kernel/config/nullb/nullb{disk}/{how}"), sector.to_string()).unwrap();
    println!("- disk {disk}, zone {}: {how}", sector / ZONE_SECTORS);
    true
}

/// Lets an open zone of a disk die; false when no zone is retired for that: it may be one of a segment that takes no more writes.
fn retires(dir: &Path, disk: usize, is_offline: bool, random: &mut Random) -> bool {
    let retired = || status(dir)["retired_zones"].as_u64().unwrap();
    let_run(Duration::from_secs(1));
    let before = retired();
    assert!(until(SOON, || end_zone(disk, is_offline, random)), "no zone of disk {disk} is open");
    until(Duration::from_secs(4), || retired() > before)
}

/// Zones die under writes, one after the other, and the server is killed: neither a client nor a disk is lost for that.
fn dying() {
    let mut random = random(7);
    let dir = PathBuf::from("/tmp/array");
    let disks: Vec<String> = (1..=4).map(|index| format!("/dev/nullb{index}")).collect();
    // Half of the disks: a disk fails whose zones the volume and its reserve need, and up to eight of 64 go.
    let size = ["--size", "288MiB"];
    ask(&[&["create", text(&dir), "--drives-path", &disks.join(",")], &size[..]].concat()).expect("create");
    let mut oracle = Oracle::new();
    let mut retired = 0;
    for round in 0..2 {
        let server = Server::serve(&dir);
        oracle.verify(&server);
        let writers = oracle.write(&server, &mut random);
        for disk in [1, 2] {
            // What was written to a zone that is offline is gone: such zones are of one disk.
            let is_offline = disk == 1 && round % 2 == 1;
            let is_retired = (0..5).any(|_| retires(&dir, disk, is_offline, &mut random));
            assert!(is_retired, "{:#}\n{}", status(&dir), server.log());
        }
        // Long enough for the journal to turn several times.
        let_run(Duration::from_secs(6));
        let now = status(&dir);
        retired = now["retired_zones"].as_u64().unwrap();
        assert_eq!(now["state"], "clean", "{now:#}\n{}", server.log());
        server.kill_9();
        println!("- {retired} zones retired, killed after {} acknowledged requests", oracle.join(writers));
    }
    let server = Server::serve(&dir);
    oracle.verify(&server);
    run_for(SOON * 2, zoneweave().args(["scrub", text(&dir), "--repair"])).expect("scrub");
    let now = status(&dir);
    assert!(now["state"] == "clean" && now["lost_blocks"] == 0, "{now:#}");
    server.stop();
    assert_clean(&dir);
    println!("- {retired} zones retired, no client saw an error, no disk was lost, `check` is clean");
}
