//! Windows of zones with a random write area: what is written and not committed.
//!
//! ```text
//!   table of windows, per window:   owner | word | word | ...  W words         one 8-byte store each
//!                                   zone    offset, home or second             block at offset: word offset mod W
//!
//!   first write     -> home, the block's place in its zone -> word says home
//!   overwrite       -> the place that the word does not name -> word says that place
//!   commit          -> second places go home, holes become zeros -> write pointer, the zone's 8 bytes
//! ```
//! A block goes to a place that nobody reads, then one store switches to it: a process killed at any instant leaves the
//! old block or the new one. A word counts while its offset lies at or after the zone's write pointer, so the store of
//! that is all it takes to forget what was committed. Second places are allocated when the file is made and opened; a
//! commit may find no room for a hole's zeros, and then nothing has changed.
//!
//! A window is given an owner before the zone's entry says that it has an area, and loses it after the entry has lost
//! that; an owner whose zone has no area is none.

use super::entry::{EntryError, check_of};
use super::error::DriveProblem;
use super::media::Media;
use super::{EmulatedDrive, Zone};
use base::frame::Frame;
use base::record_fields;
use base::units::{BLOCK_BYTES, OOB_BYTES, ZoneIndex};
use std::ops::Range;
use zone::device::{Areas, Status, ZoneState};

record_fields! { 8;
    CODE: 0, 1, "0x20 the window's owner; of a block, where its latest version is: 0x21 home, 0x22 second place; the word is zero where there is none";
    RESERVED: 1, 1, "zero";
    CHECK: 2, 2, "check bits over the rest and the number of the window, or of a block's zone";
    NUMBER: 4, 4, "zone that owns the window; of a block, its offset in the zone";
}

const OWNER: u8 = 0x20;
const HOME: u8 = 0x21;
const SECOND: u8 = 0x22;

/// What becomes of a zone with a random write area when the power fails, as drives differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AreaFate {
    /// Closed, with its area.
    Kept,
    /// Closed with its area once its write pointer has moved; else empty, and its contents are gone.
    KeptOnceMoved,
    /// Without its area, and all that was written in it committed; holes read as zeros.
    Committed,
    /// Full, with what was written.
    Full,
}

/// Where the latest version of a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Home,
    Second,
}

/// The windows of a drive.
#[derive(Debug)]
pub(super) struct Windows {
    window_blocks: usize,
    /// Window of each zone that has one.
    of_zone: Vec<Option<usize>>,
    /// Windows that nobody owns.
    free: Vec<usize>,
    /// Blocks of all windows, by window and offset modulo the window: the offset and its latest place.
    blocks: Vec<Option<(u32, Place)>>,
}

impl Windows {
    /// The windows that the words of `media` keep. Fills in how far `zones` with areas are written.
    pub(super) fn load(
        areas: &Areas,
        zones: &mut [Zone],
        media: &mut Media,
    ) -> Result<Windows, DriveProblem> {
        let window_blocks = areas.window_blocks as usize;
        let count = areas.zones_max as usize;
        let mut windows = Windows {
            window_blocks,
            of_zone: vec![None; zones.len()],
            free: Vec::new(),
            blocks: vec![None; count * window_blocks],
        };
        for window in (0..count).rev() {
            let word = media.load_window_word(windows.owner_at(window));
            let owner = unpack(word, u32::try_from(window).unwrap_or(u32::MAX));
            match owner.filter(|(code, _)| *code == OWNER).map(|(_, zone)| ZoneIndex(zone)) {
                Some(zone) if zones.get(zone.index()).is_some_and(|zone| zone.area.is_some()) => {
                    windows.load_blocks(window, zone, &mut zones[zone.index()], media)?;
                }
                _ => {
                    if word != 0 {
                        media.store_window_word(windows.owner_at(window), 0);
                    }
                    windows.free.push(window);
                }
            }
        }
        let orphan =
            zones.iter().zip(&windows.of_zone).position(|(zone, own)| zone.area.is_some() && own.is_none());
        match orphan.map(|zone| u32::try_from(zone).unwrap_or(u32::MAX)) {
            Some(zone) => Err(DriveProblem::CorruptZone { zone, fault: EntryError::BadWindow }),
            None => Ok(windows),
        }
    }

    fn load_blocks(
        &mut self,
        window: usize,
        index: ZoneIndex,
        zone: &mut Zone,
        media: &Media,
    ) -> Result<(), DriveProblem> {
        let damaged = DriveProblem::CorruptZone { zone: index.0, fault: EntryError::BadWindow };
        if self.of_zone[index.index()].replace(window).is_some() {
            return Err(damaged);
        }
        for ring in 0..self.window_blocks {
            let word = media.load_window_word(self.owner_at(window) + 1 + ring);
            let held = match unpack(word, index.0) {
                _ if word == 0 => continue,
                Some((HOME, offset)) => (offset, Place::Home),
                Some((SECOND, offset)) => (offset, Place::Second),
                _ => return Err(damaged),
            };
            let is_in_window =
                held.0.checked_sub(zone.write_pointer).is_some_and(|at| (at as usize) < self.window_blocks);
            if is_in_window && held.0 as usize % self.window_blocks == ring {
                self.blocks[window * self.window_blocks + ring] = Some(held);
                zone.area = zone.area.max(Some(held.0 + 1));
            }
        }
        Ok(())
    }

    fn owner_at(&self, window: usize) -> usize {
        window * (self.window_blocks + 1)
    }

    /// Place of a block among all blocks of windows, and of its word among all words.
    fn block_at(&self, window: usize, offset: u32) -> (usize, usize) {
        let ring = offset as usize % self.window_blocks;
        (window * self.window_blocks + ring, self.owner_at(window) + 1 + ring)
    }

    fn window_of(&self, zone: ZoneIndex) -> usize {
        self.of_zone[zone.index()].expect("a zone with an area has a window")
    }

    /// Latest place of a block that was written and not committed, and its index for second places.
    fn find(&self, zone: ZoneIndex, offset: u32) -> (Option<Place>, usize) {
        let (block, _) = self.block_at(self.window_of(zone), offset);
        let held = self.blocks[block].filter(|(at, _)| *at == offset);
        (held.map(|(_, place)| place), block)
    }

    /// From now on the latest version of a block is there.
    fn switch(&mut self, zone: ZoneIndex, offset: u32, place: Place, media: &mut Media) {
        let (block, word) = self.block_at(self.window_of(zone), offset);
        self.blocks[block] = Some((offset, place));
        let code = if place == Place::Home { HOME } else { SECOND };
        media.store_window_word(word, pack(code, zone.0, offset));
    }

    /// Gives a window to a zone whose entry does not yet say that it has one.
    fn take(&mut self, zone: ZoneIndex, media: &mut Media) {
        let window = self.free.pop().expect("the rules count the windows");
        self.of_zone[zone.index()] = Some(window);
        self.clear(zone, media);
        media.store_window_word(
            self.owner_at(window),
            pack(OWNER, u32::try_from(window).unwrap_or(u32::MAX), zone.0),
        );
    }

    /// Forgets all blocks of a zone's window.
    fn clear(&mut self, zone: ZoneIndex, media: &mut Media) {
        let window = self.window_of(zone);
        for ring in 0..self.window_blocks {
            self.blocks[window * self.window_blocks + ring] = None;
            media.store_window_word(self.owner_at(window) + 1 + ring, 0);
        }
    }

    /// Takes the window of a zone whose entry no longer says that it has one.
    pub(super) fn give_back(&mut self, zone: ZoneIndex, media: &mut Media) {
        if let Some(window) = self.of_zone[zone.index()].take() {
            media.store_window_word(self.owner_at(window), 0);
            self.free.push(window);
        }
    }

    /// Offsets of the blocks in a zone's window.
    fn blocks_of(&self, zone: ZoneIndex) -> impl Iterator<Item = u32> + '_ {
        let first = self.window_of(zone) * self.window_blocks;
        self.blocks[first..first + self.window_blocks].iter().flatten().map(|(offset, _)| *offset)
    }

    /// End of the last block of a zone's window, or 0.
    pub(super) fn written_end(&self, zone: ZoneIndex) -> u32 {
        self.blocks_of(zone).map(|offset| offset + 1).max().unwrap_or(0)
    }

    /// Words that differ from what they should be, with what that is. What no longer counts is left out.
    pub(super) fn damaged<'a>(&'a self, media: &'a Media) -> impl Iterator<Item = (usize, u64)> + 'a {
        let owned = self.of_zone.iter().zip(0..).filter_map(|(window, zone)| Some(((*window)?, zone)));
        let words = owned.flat_map(move |(window, zone): (usize, u32)| {
            let number = u32::try_from(window).unwrap_or(u32::MAX);
            let owner = (self.owner_at(window), pack(OWNER, number, zone));
            let blocks = self.blocks[window * self.window_blocks..][..self.window_blocks].iter().flatten();
            let blocks = blocks.map(move |(offset, place)| {
                let code = if *place == Place::Home { HOME } else { SECOND };
                (self.block_at(window, *offset).1, pack(code, zone, *offset))
            });
            std::iter::once(owner).chain(blocks)
        });
        words.filter(|(word, wanted)| media.load_window_word(*word) != *wanted)
    }
}

fn pack(code: u8, index: u32, number: u32) -> u64 {
    let check = check_of(ZoneIndex(index), [code, 0], number);
    u64::from(number) << 32 | u64::from(check) << 16 | u64::from(code)
}

/// Code and number of a word that is as it was written.
fn unpack(word: u64, index: u32) -> Option<(u8, u32)> {
    let [code, .., n0, n1, n2, n3] = word.to_le_bytes();
    let number = u32::from_le_bytes([n0, n1, n2, n3]);
    (word == pack(code, index, number)).then_some((code, number))
}

/// The windows of a drive that has areas.
fn present(windows: &mut Option<Windows>) -> &mut Windows {
    windows.as_mut().expect("a zone has an area, so the drive has windows")
}

impl EmulatedDrive {
    /// Opens an empty zone with a random write area.
    pub(super) fn open_with_area(&mut self, zone: ZoneIndex) -> Result<(), Status> {
        let had_area = zone.0 < self.geometry.zones && self.table.zone(zone).area.is_some();
        self.table.open_with_area(zone)?;
        if !had_area {
            present(&mut self.windows).take(zone, &mut self.media);
            self.store(zone);
        }
        Ok(())
    }

    /// Commits the window of a zone up to `end`; on a fault nothing has changed.
    pub(super) fn commit(&mut self, zone: ZoneIndex, end: u32) -> Result<(), Status> {
        let before = self.zone_before(zone)?;
        self.table.commit(zone, end)?;
        self.settle_or_undo(zone, before)
    }

    /// Finishes a zone; what was written in its window counts.
    pub(super) fn finish(&mut self, zone: ZoneIndex) -> Result<(), Status> {
        let before = self.zone_before(zone)?;
        self.table.finish(zone)?;
        self.settle_or_undo(zone, before)
    }

    /// Brings home what the rules have committed, and keeps the zone's state.
    pub(super) fn settle_or_undo(&mut self, zone: ZoneIndex, before: Zone) -> Result<(), Status> {
        let after = self.table.zone(zone).write_pointer;
        let settled = match before.area {
            Some(_) => self.settle(zone, before.write_pointer..after),
            None => Ok(()),
        };
        match settled {
            Ok(()) => self.store(zone),
            Err(_) => self.undo(zone, before),
        }
        settled
    }

    /// Brings blocks of a window home, and zeros to what was not written. Nothing reads there yet.
    fn settle(&mut self, zone: ZoneIndex, blocks: Range<u32>) -> Result<(), Status> {
        let mut frame = Frame::zeroed();
        for offset in blocks {
            match present(&mut self.windows).find(zone, offset) {
                (Some(Place::Home), _) => continue,
                (Some(Place::Second), block) => self.media.read_second(zone, block, &mut frame)?,
                (None, _) => (frame.data, frame.oob) = ([0; BLOCK_BYTES], [0; OOB_BYTES]),
            }
            self.media.write_anywhere(zone, offset, &frame)?;
        }
        Ok(())
    }

    /// Writes blocks that the rules allow into the window of a zone, which was so `before`; on a fault blocks in the
    /// window may be old or new, and nothing else has changed.
    ///
    /// Blocks beyond the window go home, for nobody reads there; what they push out of the window is settled, and only
    /// then they count.
    pub(super) fn write_window<'a>(
        &mut self,
        zone: ZoneIndex,
        before: Zone,
        offset: u32,
        frames: impl Iterator<Item = &'a Frame>,
    ) -> Result<(), Status> {
        let window_blocks = present(&mut self.windows).window_blocks;
        let is_inside = |at: u32| ((at - before.write_pointer) as usize) < window_blocks;
        let mut end = offset;
        for (at, frame) in (offset..).zip(frames) {
            match present(&mut self.windows).find(zone, at) {
                (Some(Place::Home), block) => self.media.write_second(zone, block, frame)?,
                _ => self.media.write_anywhere(zone, at, frame)?,
            }
            end = at + 1;
        }
        for at in (offset..end).filter(|at| is_inside(*at)) {
            let windows = present(&mut self.windows);
            let place =
                if windows.find(zone, at).0 == Some(Place::Home) { Place::Second } else { Place::Home };
            windows.switch(zone, at, place, &mut self.media);
        }
        let after = self.table.zone(zone).write_pointer;
        self.settle(zone, before.write_pointer..after)?;
        self.store(zone);
        for at in (offset..end).filter(|at| !is_inside(*at)) {
            present(&mut self.windows).switch(zone, at, Place::Home, &mut self.media);
        }
        Ok(())
    }

    /// Blocks of a zone with an area that were written and are not committed, in no order.
    pub(super) fn uncommitted(&self, zone: ZoneIndex) -> impl Iterator<Item = u32> + '_ {
        let write_pointer = self.table.zone(zone).write_pointer;
        let blocks = self.windows.iter().flat_map(move |windows| windows.blocks_of(zone));
        blocks.filter(move |offset| *offset >= write_pointer)
    }

    /// Reads a block of a zone with an area.
    pub(super) fn read_window(
        &mut self,
        zone: ZoneIndex,
        offset: u32,
        frame: &mut Frame,
    ) -> Result<(), Status> {
        if offset < self.table.zone(zone).write_pointer {
            return self.media.read(zone, offset, std::iter::once(frame));
        }
        match present(&mut self.windows).find(zone, offset) {
            (Some(Place::Home), _) => self.media.read(zone, offset, std::iter::once(frame)),
            (Some(Place::Second), block) => self.media.read_second(zone, block, frame),
            (None, _) => {
                (frame.data, frame.oob) = ([0; BLOCK_BYTES], [0; OOB_BYTES]);
                Ok(())
            }
        }
    }

    /// The power fails: zones with an area come back as the drive likes.
    ///
    /// # Errors
    /// [`Status::WriteFault`] when the media refuse what is to be committed.
    pub fn lose_power_with_areas(&mut self, fate: AreaFate) -> Result<(), Status> {
        for zone in (0..self.geometry.zones).map(ZoneIndex) {
            let before = self.table.zone(zone);
            let Some(written_end) = before.area else { continue };
            match fate {
                AreaFate::Kept => {}
                AreaFate::KeptOnceMoved if before.write_pointer > 0 => {}
                AreaFate::KeptOnceMoved => self.become_zone(zone, Zone::new(ZoneState::Empty, 0)),
                AreaFate::Full => self.finish(zone)?,
                AreaFate::Committed => {
                    self.settle(zone, before.write_pointer..written_end)?;
                    let state = match written_end {
                        0 => ZoneState::Empty,
                        end if end == self.geometry.zone_capacity_blocks => ZoneState::Full,
                        _ => ZoneState::Closed,
                    };
                    self.become_zone(zone, Zone::new(state, written_end));
                }
            }
        }
        Ok(())
    }

    /// A volatile cache lost what it had of a zone with an area: the window begins at `write_pointer`, at most the
    /// present one, and holds these blocks and no others.
    ///
    /// # Errors
    /// [`Status::WriteFault`] when the media refuse the blocks.
    ///
    /// # Panics
    /// When the zone has no area or a block lies outside the window.
    pub fn set_window(
        &mut self,
        zone: ZoneIndex,
        write_pointer: u32,
        blocks: &[(u32, Frame)],
    ) -> Result<(), Status> {
        let before = self.table.zone(zone);
        assert!(before.area.is_some() && write_pointer <= before.write_pointer);
        present(&mut self.windows).clear(zone, &mut self.media);
        let mut written_end = write_pointer;
        for (offset, frame) in blocks {
            let windows = present(&mut self.windows);
            assert!(*offset >= write_pointer && ((*offset - write_pointer) as usize) < windows.window_blocks);
            self.media.write_anywhere(zone, *offset, frame)?;
            windows.switch(zone, *offset, Place::Home, &mut self.media);
            written_end = written_end.max(offset + 1);
        }
        self.become_zone(zone, Zone { state: ZoneState::Closed, write_pointer, area: Some(written_end) });
        Ok(())
    }

    /// Blocks of a zone's window that were written and not committed, lowest first.
    #[must_use]
    pub fn window_blocks(&self, zone: ZoneIndex) -> Vec<u32> {
        let found = self.table.zone(zone);
        let (Some(windows), Some(end)) = (&self.windows, found.area) else { return Vec::new() };
        (found.write_pointer..end).filter(|offset| windows.find(zone, *offset).0.is_some()).collect()
    }

    /// Writes a block where its latest version is, past all rules; false when it was not written.
    pub(super) fn replace_in_window(&mut self, zone: ZoneIndex, offset: u32, frame: &Frame) -> bool {
        let written = match present(&mut self.windows).find(zone, offset) {
            (Some(Place::Home), _) => self.media.write_anywhere(zone, offset, frame),
            (Some(Place::Second), block) => self.media.write_second(zone, block, frame),
            (None, _) => return false,
        };
        written.is_ok()
    }
}
