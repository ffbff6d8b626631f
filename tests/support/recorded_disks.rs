//! Disks whose writes and flushes are recorded, and what they hold when the power fails: QEMU's block layer in a process of its own.
//!
//! ```text
//!   zoneweave ── disks/N (nbdfuse) ── NBD ──> qemu-storage-daemon ──> blklogwrites ──┬──> image N
//!                                                                                    └──> log N
//!   after the cut: image before + all up to the last flush of the log + some of what follows ──> disks/N
//! ```
//! The daemon can export a file by itself, but that of QEMU 7.2 receives the next request into the buffer of one that is being
//! written: of two writes at once both have the data of the second.

use super::run::{SOON, command, kill, run_for, until, wait_for};
use super::text;
use base::random::Random;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

/// Programs that it takes.
pub const TOOLS: &[&str] = &["qemu-storage-daemon", "nbdfuse", "fusermount3"];

const SECTOR_BYTES: usize = 512;

/// Flags of entries of the log.
const FLUSH: u64 = 1;
const DISCARD: u64 = 4;

/// Images of disks, in a folder.
pub struct RecordedDisks {
    folder: PathBuf,
    count: usize,
}

/// Processes through which disks are reached.
struct Reached<'a> {
    disks: &'a RecordedDisks,
    daemon: Child,
    fuse: Vec<Child>,
}

/// Recording of the writes and discards of a disk.
pub struct Recording {
    log: Vec<u8>,
    /// Writes and discards, in order.
    entries: Vec<Entry>,
    /// So many of them came before the last flush.
    durable: usize,
}

/// A write, or a discard, which has no data in the log.
struct Entry {
    offset: u64,
    length: usize,
    data: Option<Range<usize>>,
}

/// Part of the writes that were not flushed that is there after a cut.
#[derive(Clone, Copy, Debug)]
pub enum Kept {
    All,
    Nothing,
    /// The first ones, the last of them in part.
    Prefix,
    /// Any, some of them in part.
    Some,
}

impl RecordedDisks {
    /// Makes disks of zeros.
    pub fn new(folder: &Path, count: usize, bytes: u64) -> RecordedDisks {
        std::fs::create_dir_all(folder.join("disks")).unwrap();
        let disks = RecordedDisks { folder: folder.to_owned(), count };
        (0..count).for_each(|disk| File::create(disks.path(disk)).unwrap().set_len(bytes).unwrap());
        disks
    }

    /// Path of a disk, recorded or not.
    pub fn path(&self, disk: usize) -> PathBuf {
        self.folder.join("disks").join(disk.to_string())
    }

    fn file(&self, name: &str, disk: usize) -> PathBuf {
        self.folder.join(format!("{name}{disk}"))
    }

    /// Records what `work` does to the disks. Whoever uses them has to be dead when it ends: what it asked for is still carried out,
    /// and may be lost all the same.
    #[track_caller]
    pub fn record(&self, work: impl FnOnce()) -> Vec<Recording> {
        for disk in 0..self.count {
            std::fs::rename(self.path(disk), self.file("before", disk)).unwrap();
            copy(&self.file("before", disk), &self.file("image", disk));
            // What is mounted lies over it.
            File::create(self.path(disk)).unwrap();
            File::create(self.file("log", disk)).unwrap();
        }
        let reached = Reached::begin(self);
        work();
        let lengths = || (0..self.count).map(|disk| std::fs::metadata(self.file("log", disk)).unwrap().len());
        let mut seen = Vec::new();
        let is_quiet = until(SOON, || {
            let before = std::mem::replace(&mut seen, lengths().collect());
            std::thread::sleep(Duration::from_millis(200));
            before == seen
        });
        assert!(is_quiet, "the logs of the disks grow and grow");
        let recordings =
            (0..self.count).map(|disk| Recording::parse(std::fs::read(self.file("log", disk)).unwrap()));
        let recordings = recordings.collect();
        drop(reached);
        recordings
    }

    /// Lets the disks be as they may be after a cut; returns how many writes and discards were lost, whole or in part.
    pub fn cut(&self, recordings: &[Recording], kept: Kept, random: &mut Random) -> usize {
        let cut = |(disk, recording): (usize, &Recording)| {
            copy(&self.file("before", disk), &self.path(disk));
            recording.replay(&File::options().write(true).open(self.path(disk)).unwrap(), kept, random)
        };
        recordings.iter().enumerate().map(cut).sum()
    }
}

impl<'a> Reached<'a> {
    #[track_caller]
    fn begin(disks: &'a RecordedDisks) -> Reached<'a> {
        let socket = disks.folder.join("sock");
        let _none_before = std::fs::remove_file(&socket);
        let mut daemon = command("qemu-storage-daemon");
        daemon.args(["--nbd-server", &format!("addr.type=unix,addr.path={}", text(&socket))]);
        for disk in 0..disks.count {
            let file = |name: &str| {
                format!("driver=file,filename={},node-name={name}{disk}", text(&disks.file(name, disk)))
            };
            let recorded = format!(
                "driver=blklogwrites,node-name=disk{disk},file=image{disk},log=log{disk},log-sector-size={SECTOR_BYTES}"
            );
            daemon.args(["--blockdev", &file("image"), "--blockdev", &file("log"), "--blockdev", &recorded]);
            daemon.args([
                "--export",
                &format!("type=nbd,id=disk{disk},node-name=disk{disk},name={disk},writable=on"),
            ]);
        }
        let log = File::create(disks.folder.join("daemon.log")).unwrap();
        let daemon = daemon.stdin(Stdio::null()).stderr(log).spawn().unwrap();
        // From here on it is taken apart when something fails.
        let mut reached = Reached { disks, daemon, fuse: Vec::new() };
        assert!(until(SOON, || socket.exists()), "qemu-storage-daemon does not listen");
        for disk in 0..disks.count {
            let uri = format!("nbd+unix:///{disk}?socket={}", text(&socket));
            let mut fuse = command("nbdfuse");
            fuse.args([text(&disks.path(disk)), &uri]).stdin(Stdio::null());
            reached.fuse.push(fuse.spawn().unwrap());
            let size = || std::fs::metadata(disks.path(disk)).map_or(0, |metadata| metadata.len());
            assert!(until(SOON, || size() > 0), "nbdfuse shows no file");
        }
        reached
    }
}

impl Drop for Reached<'_> {
    fn drop(&mut self) {
        // Whoever waits for a disk gets an error from here on.
        self.fuse.iter_mut().for_each(kill);
        for disk in 0..self.disks.count {
            run_for(SOON, command("fusermount3").args(["-u", "-z", text(&self.disks.path(disk))]));
        }
        let _ended_already = self.daemon.kill();
        wait_for(SOON, &mut self.daemon);
    }
}

impl Recording {
    /// Entries of a log: after a sector of the log's own, each has a sector and its data.
    #[track_caller]
    fn parse(log: Vec<u8>) -> Recording {
        let (mut entries, mut durable) = (Vec::new(), 0);
        let mut at = SECTOR_BYTES;
        while at + SECTOR_BYTES <= log.len() {
            let word = |index: usize| u64::from_le_bytes(log[at + index * 8..][..8].try_into().unwrap());
            let [sector, sectors, flags] = [word(0), word(1), word(2)];
            let length = usize::try_from(sectors).unwrap() * SECTOR_BYTES;
            at += SECTOR_BYTES;
            if flags & FLUSH != 0 {
                durable = entries.len();
            }
            assert!(length > 0 || flags & FLUSH != 0, "an entry of the log that is none");
            let data = (flags & DISCARD == 0).then(|| at..at + length);
            at = data.as_ref().map_or(at, |data| data.end);
            assert!(at <= log.len(), "a log that ends within an entry");
            if length > 0 {
                entries.push(Entry { offset: sector * SECTOR_BYTES as u64, length, data });
            }
        }
        Recording { log, entries, durable }
    }

    /// Writes and discards that were not flushed.
    pub fn unflushed(&self) -> usize {
        self.entries.len() - self.durable
    }

    /// Carries out what is kept; returns how many entries are not, or not wholly.
    fn replay(&self, image: &File, kept: Kept, random: &mut Random) -> usize {
        let of_prefix = random.index(self.unflushed() + 1);
        let mut lost = 0;
        for (index, entry) in self.entries.iter().enumerate() {
            let place = index.checked_sub(self.durable);
            let (is_whole, is_part) = match (place, kept) {
                (None, _) | (_, Kept::All) => (true, false),
                (_, Kept::Nothing) => (false, false),
                (Some(place), Kept::Prefix) => (place < of_prefix, place == of_prefix),
                (_, Kept::Some) => (random.chance(1, 2), random.chance(1, 2)),
            };
            lost += usize::from(!is_whole);
            let zeros = vec![0; if entry.data.is_none() { entry.length } else { 0 }];
            // What is discarded may be there for ever.
            if entry.data.is_none() && random.chance(1, 2) {
                continue;
            }
            let data = entry.data.clone().map_or(&zeros[..], |range| &self.log[range]);
            for (offset, sector) in (entry.offset..).step_by(SECTOR_BYTES).zip(data.chunks(SECTOR_BYTES)) {
                if is_whole || is_part && random.chance(1, 2) {
                    image.write_all_at(sector, offset).unwrap();
                }
            }
        }
        lost
    }
}

/// Copies an image, holes as holes.
#[track_caller]
fn copy(from: &Path, to: &Path) {
    run_for(SOON, command("cp").args(["--sparse=always", text(from), text(to)])).expect("cp");
}
