//! Older versions of blocks in windows: what a volatile cache may fall back to when the power fails.
//!
//! ```text
//!   write A1 | write A2 | flush submitted | write A3 | write pointer moves | flush done | write A4 | power fails
//!                                                                            block: A2, A3 or A4
//!                                                                            write pointer: any since the flush began
//! ```
//! A version is kept when it is overwritten, until a flush that began afterwards is done. What was not written reads as
//! zeros, and so it may do again.

use base::frame::Frame;
use base::random::Random;
use base::units::ZoneIndex;
use drive::emulated::EmulatedDrive;
use std::collections::BTreeMap;
use zone::device::{Command, Op, Token, ZonedDevice};

/// Number of changes at a moment, and the write pointers of zones with an area then.
#[derive(Debug)]
pub(super) struct Mark {
    changes: u64,
    write_pointers: BTreeMap<u32, u32>,
}

/// A version of a block, and the change that put another in its place. `None`: it was not written.
#[derive(Debug)]
struct Version {
    change: u64,
    frame: Option<Frame>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct History {
    changes: u64,
    /// Versions that were overwritten, oldest first, by zone and offset.
    versions: BTreeMap<(u32, u32), Vec<Version>>,
    /// Write pointers that survive, of zones with an area; 0 where there is none.
    write_pointers: BTreeMap<u32, u32>,
}

impl History {
    /// What survived a power failure: it survives the next one.
    pub(super) fn survived(media: &EmulatedDrive) -> History {
        let Mark { write_pointers, .. } = History::default().mark(media);
        History { write_pointers, ..History::default() }
    }

    /// A flush begins.
    pub(super) fn mark(&self, media: &EmulatedDrive) -> Mark {
        let zones = (0..media.geometry().zones).filter(|zone| media.has_area(ZoneIndex(*zone)));
        let write_pointers = zones.map(|zone| (zone, media.zone(ZoneIndex(zone)).write_pointer)).collect();
        Mark { changes: self.changes, write_pointers }
    }

    /// A flush that began then is done.
    pub(super) fn flushed(&mut self, mark: Mark) {
        assert!(mark.changes <= self.changes, "a flush begins before it is done");
        for versions in self.versions.values_mut() {
            versions.retain(|version| version.change >= mark.changes);
        }
        self.versions.retain(|_, versions| !versions.is_empty());
        for (zone, write_pointer) in mark.write_pointers {
            let kept = self.write_pointers.entry(zone).or_default();
            *kept = write_pointer.max(*kept);
        }
    }

    /// A zone is reset.
    pub(super) fn forget(&mut self, zone: ZoneIndex) {
        self.versions.retain(|(at, _), _| *at != zone.0);
        self.write_pointers.remove(&zone.0);
    }

    /// A command is about to be executed.
    pub(super) fn note(&mut self, media: &mut EmulatedDrive, command: &Command) {
        let zone = command.zone;
        let Op::Write { offset, frames } = &command.op else { return };
        if zone.0 >= media.geometry().zones || !media.has_area(zone) {
            return;
        }
        let written = media.window_blocks(zone);
        let blocks = u32::try_from(frames.len()).expect("a transfer");
        // Below the write pointer it will be refused.
        let first = media.zone(zone).write_pointer.max(*offset);
        for at in first..offset.saturating_add(blocks) {
            let frame = written.contains(&at).then(|| peek(media, zone, at)).flatten();
            self.versions.entry((zone.0, at)).or_default().push(Version { change: self.changes, frame });
        }
        self.changes += 1;
    }

    /// The power fails. Blocks and write pointer of the zone, if it has an area, fall back as far as they may (style 0),
    /// not at all (1), or anywhere between, each by itself.
    pub(super) fn fall_back(
        &mut self,
        media: &mut EmulatedDrive,
        zone: ZoneIndex,
        style: u64,
        random: &mut Random,
    ) {
        if style == 1 {
            return;
        }
        let mut chosen: BTreeMap<u32, Option<Frame>> = BTreeMap::new();
        for ((_, offset), versions) in self.versions.range_mut((zone.0, 0)..=(zone.0, u32::MAX)) {
            let index = if style == 0 { 0 } else { random.index(versions.len() + 1) };
            debug_assert!(
                versions.is_sorted_by_key(|version| version.change),
                "versions are kept oldest first"
            );
            if index < versions.len() {
                chosen.insert(*offset, versions.swap_remove(index).frame);
            }
        }
        if media.has_area(zone) {
            let areas = media.geometry().areas.expect("a zone has an area");
            // A flush that began before the zone was reset may say more.
            let kept =
                self.write_pointers.get(&zone.0).copied().unwrap_or(0).min(media.zone(zone).write_pointer);
            assert!(areas.granule_blocks > 0, "windows move in granules");
            let granules = (media.zone(zone).write_pointer - kept) / areas.granule_blocks;
            let passed = if style == 0 { 0 } else { random.below(u64::from(granules) + 1) };
            let passed = u32::try_from(passed).expect("at most the granules");
            let write_pointer = kept + passed * areas.granule_blocks;
            let window_end = areas.window_end(media.geometry(), write_pointer);
            let present = media.zone(zone).write_pointer;
            let uncommitted = media.window_blocks(zone);
            let mut blocks = Vec::new();
            for offset in write_pointer..window_end {
                let was_written = offset < present || uncommitted.contains(&offset);
                let frame = match chosen.remove(&offset) {
                    Some(version) => version,
                    None if was_written => peek(media, zone, offset),
                    None => None,
                };
                blocks.extend(frame.map(|frame| (offset, frame)));
            }
            assert!(write_pointer <= present, "a write pointer falls back, if it moves");
            media.set_window(zone, write_pointer, &blocks).expect("media in memory take everything");
        }
        let written = media.zone(zone).write_pointer;
        for (offset, frame) in chosen.into_iter().filter(|(offset, _)| *offset < written) {
            media.overwrite(zone, offset, &frame.unwrap_or_else(Frame::zeroed));
        }
    }
}

/// A block as it is on the media.
fn peek(media: &mut EmulatedDrive, zone: ZoneIndex, offset: u32) -> Option<Frame> {
    let op = Op::Read { offset, frames: vec![Frame::zeroed()] };
    media.submit(base::time::Instant(0), Command { token: Token(0), zone, op });
    let mut completions = Vec::new();
    media.poll(base::time::Instant(0), &mut completions);
    completions.pop()?.frames.pop()
}
