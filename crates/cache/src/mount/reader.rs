//! Reads of a mount. A drive may answer with another block than was asked for, or with what was there before a reset, and
//! answer right when it is asked again: so what is not as expected is read twice.

use super::run;
use crate::format::header::ZoneHeader;
use crate::format::stamp::{Kind, Life, Stamp};
use base::frame::Frame;
use base::time::Instant;
use base::units::ZoneIndex;
use zone::device::Op;
use zone::drives::DriveSet;

/// Times that a block is asked for again until two answers in a row agree: faults come in short rows, and what never
/// settles is as good as damaged.
const ANSWERS_MAX: usize = 8;

/// Place of a zone that is read.
pub struct Reader<'a> {
    /// All drives.
    pub drives: &'a mut DriveSet,
    /// Time at which the mount began.
    pub now: Instant,
    /// Place of the drive.
    pub place: usize,
    /// The zone.
    pub zone: ZoneIndex,
    /// Most blocks of a transfer.
    pub transfer_max: u32,
}

impl Reader<'_> {
    /// Blocks from `offset` on; those that cannot be read are `None`.
    pub fn read(&mut self, offset: u32, count: u32) -> Vec<Option<Frame>> {
        let frames = (0..count).map(|_| Frame::zeroed()).collect();
        let op = Op::Read { offset, frames };
        match run(self.drives, self.now, self.place, self.zone, op) {
            Ok(completion) => completion.frames.into_iter().map(Some).collect(),
            Err(_) if count > 1 => (0..count).flat_map(|more| self.read(offset + more, 1)).collect(),
            Err(_) => vec![None],
        }
    }

    /// Blocks from `offset` on. Of one that is not as expected, the second answer counts.
    pub fn read_as(
        &mut self,
        offset: u32,
        count: u32,
        is_expected: impl Fn(u32, &Frame) -> bool,
    ) -> Vec<Option<Frame>> {
        let mut frames = self.read(offset, count);
        let is_right =
            |page, frame: &Option<Frame>| frame.as_ref().is_some_and(|frame| is_expected(page, frame));
        if (offset..).zip(&frames).all(|(page, frame)| is_right(page, frame)) {
            return frames;
        }
        for ((page, frame), again) in (offset..).zip(&mut frames).zip(self.read(offset, count)) {
            if !is_right(page, frame) {
                *frame = again;
            }
        }
        frames
    }

    /// What a block is, once two answers in a row say the same: of these one is right. `None` when none ever do.
    pub fn settled<T: PartialEq>(&mut self, ask: impl Fn(&mut Self) -> T) -> Option<T> {
        let mut before = ask(self);
        for _ in 0..ANSWERS_MAX {
            let answer = ask(self);
            if answer == before {
                return Some(answer);
            }
            before = answer;
        }
        None
    }

    /// Header of the zone. It must be settled that there is one, and which: a header of a former life is a header, too, and
    /// what stands there now may be none, torn by a crash. A zone that goes on in a life that is over writes pages that
    /// cannot be told from those of that life.
    pub fn read_header(&mut self, cache: [u8; 16]) -> Option<(Life, ZoneHeader)> {
        self.settled(|reader| reader.ask_header(cache))?
    }

    fn ask_header(&mut self, cache: [u8; 16]) -> Option<(Life, ZoneHeader)> {
        let frame = self.read(0, 1).pop().flatten()?;
        let stamp = Stamp::read(&frame)?;
        let member = u8::try_from(self.place).ok()?;
        let own = Life { cache, member, zone: self.zone, ..stamp.life };
        let is_header = stamp.kind == Kind::Header && stamp.life == own && stamp.page == 0;
        Some((stamp.life, ZoneHeader::decode(&frame.data).filter(|_| is_header)?))
    }
}
