//! Arrays of Linux md for tests: their members as files, what clients write and read, and what lies on the members then.

#[path = "../../crates/block/tests/support/golden.rs"]
pub mod golden;

use super::guest;
use super::run::{Finished, SOON, command, run_for, until};
use super::scratch::Scratch;
use super::server::{Server, status, zoneweave};
use std::path::{Path, PathBuf};

/// Members of a golden array as files in a directory of their own.
pub fn unpacked(scratch: &Scratch, array: &str) -> Vec<PathBuf> {
    let dir = scratch.join(&format!("{array}-members"));
    std::fs::create_dir(&dir).unwrap();
    let members = golden::members(array).into_iter().map(|(name, bytes)| {
        let path = dir.join(&name);
        std::fs::write(&path, bytes).unwrap();
        path
    });
    members.collect()
}

/// Empty files of 24 MiB.
pub fn blanks(scratch: &Scratch, count: usize) -> Vec<PathBuf> {
    blanks_of(24 << 20, scratch, count)
}

/// Empty files of so many bytes.
pub fn blanks_of(bytes: u64, scratch: &Scratch, count: usize) -> Vec<PathBuf> {
    let blank = |index: usize| {
        let path = scratch.join(&format!("m{index}"));
        std::fs::File::create(&path).unwrap().set_len(bytes).unwrap();
        path
    };
    (0..count).map(blank).collect()
}

/// Creates an array of these members in the directory `a`.
pub fn create(scratch: &Scratch, level: &str, members: &[PathBuf], options: &[&str]) -> PathBuf {
    let dir = scratch.join("a");
    let count = members.len().to_string();
    let fixed = ["--level", level, "--chunk", "64", "--raid-devices", &count];
    let mut create = zoneweave();
    create.args(["md", "create"]).arg(&dir).args(fixed).args(options).args(members);
    let made = run_for(SOON, &mut create);
    assert_eq!(made.code(), Some(0), "{made}");
    dir
}

/// Bytes of the volume of an array that is served.
pub fn capacity(dir: &Path) -> usize {
    usize::try_from(status(dir)["capacity_bytes"].as_u64().unwrap()).unwrap()
}

/// Serves an array, once its parities are right; returns the bytes of its volume as well.
pub fn serve_in_sync(dir: &Path) -> (Server, usize) {
    let server = Server::serve(dir);
    assert!(until(SOON, || status(dir)["resync"].is_null()), "{}", server.log());
    let bytes = capacity(dir);
    (server, bytes)
}

/// The volume as the independent reader of closed members sees it.
pub fn volume(scratch: &Scratch, name: &str, what: &[&Path]) -> Vec<u8> {
    let copy = scratch.join(name);
    let done = run_for(SOON, zoneweave().args(["md", "read", "--output"]).arg(&copy).args(what));
    assert!(matches!(done.code(), Some(0 | 3)), "{done}");
    std::fs::read(copy).unwrap()
}

/// Writes here and there: whole stripes, single blocks, and less than a block. Returns what the volume holds then.
pub fn write_here_and_there(server: &Server, mut content: Vec<u8>) -> Vec<u8> {
    let mut random = super::random(23);
    let mut client = server.client();
    for round in 0..60_usize {
        let bytes = [512, 4096, 12_288, 65_536, 400_000][round % 5];
        let sectors = u64::try_from((content.len() - bytes) / 512).unwrap();
        let offset = usize::try_from(random.below(sectors)).unwrap() * 512;
        let data = super::random_bytes(&mut random, bytes);
        client.write(offset.try_into().unwrap(), &data).unwrap();
        content[offset..offset + bytes].copy_from_slice(&data);
    }
    client.flush().unwrap();
    content
}

/// The volume as clients read it.
pub fn read_all(server: &Server, bytes: usize) -> Vec<u8> {
    let mut client = server.client();
    let mut content = Vec::with_capacity(bytes);
    while content.len() < bytes {
        let length = (bytes - content.len()).min(1 << 20);
        content.extend(client.read(content.len().try_into().unwrap(), length.try_into().unwrap()).unwrap());
    }
    content
}

/// The volume as the reader sees it without each of these members, where the array is whole.
pub fn read_without_each(scratch: &Scratch, members: &[&Path], content: &[u8]) {
    for without in 0..members.len() {
        let others: Vec<&Path> = members
            .iter()
            .enumerate()
            .filter(|(index, _)| *index != without)
            .map(|(_, path)| *path)
            .collect();
        assert!(
            volume(scratch, &format!("without-{without}"), &others) == content,
            "without {}",
            members[without].display()
        );
    }
}

/// Waits until all members are whole.
pub fn rebuild_and_wait(dir: &Path) -> Finished {
    run_for(SOON, zoneweave().arg("rebuild").arg(dir).arg("--wait"))
}

/// Sum of a volume's content, as `sha256sum` prints it.
pub fn sum(scratch: &Scratch, content: &[u8]) -> String {
    let path = scratch.join("content");
    std::fs::write(&path, content).unwrap();
    let summed = run_for(SOON, command("sha256sum").arg(&path));
    summed.stdout.split(' ').next().unwrap().to_owned()
}

/// In the guest: assembles the array, prints what md is about to do with it and its sum, lets md check the parities, writes `/data`
/// at block 100.
pub const GUEST_SCRIPT: &str = "
idle() { while [ \"$(cat /sys/block/md0/md/sync_action)\" != idle ]; do sleep 0.1; done; }
mdadm --assemble --run /dev/md0 /dev/ubd? \\
  && echo action=$(cat /sys/block/md0/md/sync_action) policy=$(cat /sys/block/md0/md/consistency_policy) && idle
echo sum=$(sha256sum /dev/md0)
if [ \"$(cat /sys/block/md0/md/degraded)\" = 0 ]; then
  echo check > /sys/block/md0/md/sync_action; sleep 0.3; idle
fi
echo mismatches=$(cat /sys/block/md0/md/mismatch_cnt) degraded=$(cat /sys/block/md0/md/degraded)
dd if=/data of=/dev/md0 bs=4k seek=100 conv=fsync,notrunc 2>/dev/null
";

/// A guest whose md looks at members.
pub struct Guest;

/// Visit of an array to md in a guest: how it is written there, and left.
#[derive(Default)]
pub struct Visit<'a> {
    /// Commands before it writes.
    pub before: &'a str,
    /// True when it writes past the guest's page cache.
    pub is_direct: bool,
    /// True when a member is missing.
    pub is_degraded: bool,
    /// True when the guest panics at the end, instead of stopping the array.
    pub panics: bool,
}

impl Guest {
    /// A guest; `None` where there can be none.
    pub fn here() -> Option<Guest> {
        let can =
            super::have(guest::TOOLS) && (super::is_root() || super::skip("a guest's root is made as root"));
        can.then_some(Guest)
    }

    /// Assembles the array, waits until md has nothing to do, prints the sum of its content and what mdadm says of it, and lets md check its parities.
    pub fn sum_and_check(&self, scratch: &Scratch, members: &[PathBuf]) -> Finished {
        let script =
            GUEST_SCRIPT.lines().filter(|line| !line.starts_with("dd ")).collect::<Vec<_>>().join("\n");
        guest::run(
            scratch.path(),
            members,
            &format!("{script}\nmdadm --detail /dev/md0\nmdadm --stop /dev/md0\n"),
            &[],
        )
    }

    /// Has md take an array that holds this content, and write: then it holds what `content` says afterwards. Fails unless md
    /// found that content, and parities that are right.
    #[track_caller]
    pub fn take(
        &self,
        scratch: &Scratch,
        members: &[PathBuf],
        visit: &Visit,
        content: &mut [u8],
        case: &str,
    ) -> Finished {
        let data = super::random_bytes(&mut super::random(99), 300 * 4096);
        let flags = if visit.is_direct { " oflag=direct" } else { "" };
        let end = if visit.panics { "echo c > /proc/sysrq-trigger" } else { "mdadm --stop /dev/md0" };
        let write = format!("{}dd if=/data of=/dev/md0 bs=4k seek=100{flags} conv", visit.before);
        let script = GUEST_SCRIPT.replace("dd if=/data of=/dev/md0 bs=4k seek=100 conv", &write);
        let said = guest::run(scratch.path(), members, &format!("{script}{end}\n"), &data);
        let expected = format!("sum={}", sum(scratch, content));
        assert!(said.stdout.contains(&expected), "{case}: md reads something else\n{said}");
        let state = format!("mismatches=0 degraded={}", u8::from(visit.is_degraded));
        assert!(said.stdout.contains(&state), "{case}: {said}");
        content[100 * 4096..][..data.len()].copy_from_slice(&data);
        said
    }

    /// Fails unless md read this content.
    #[track_caller]
    pub fn expect(&self, said: &Finished, scratch: &Scratch, content: &[u8]) {
        let expected = format!("sum={}", sum(scratch, content));
        assert!(said.stdout.contains(&expected), "md reads something else\n{said}");
    }
}
