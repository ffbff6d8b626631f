//! Reads of a mount. A drive may answer with another block than was asked for, or with what was there before a reset, and
//! answer right when it is asked again: so what is not as expected is read twice.

use super::media::{COMMANDS, Seat};
use crate::format::header::ZoneHeader;
use crate::format::stamp::{Kind, Life, Stamp};
use base::frame::Frame;
use base::units::ZoneIndex;
use zone::device::Op;

/// Times that a block is asked for again until two answers in a row agree: faults come in short rows, and what never
/// settles is as good as damaged.
const ANSWERS_MAX: usize = 8;

/// Reader of a zone.
pub struct Reader {
    /// Seat through which the drive is asked.
    pub seat: Seat,
    /// The zone.
    pub zone: ZoneIndex,
    /// Most blocks of a transfer.
    pub transfer_max: u32,
}

fn read_of(offset: u32, count: u32) -> Op {
    Op::Read { offset, frames: (0..count).map(|_| Frame::zeroed()).collect() }
}

impl Reader {
    /// Most blocks that are asked for at once: several transfers.
    pub fn stride(&self) -> u32 {
        self.transfer_max * u32::try_from(COMMANDS).expect("a few")
    }

    /// Blocks from `offset` on; those that cannot be read are `None`.
    pub async fn read(&self, offset: u32, count: u32) -> Vec<Option<Frame>> {
        let mut frames = Vec::new();
        let parts = self.parts(offset, count);
        let ops = parts.iter().map(|(offset, count)| read_of(*offset, *count)).collect();
        for (answer, (offset, count)) in self.seat.ask_all(self.zone, ops).await.into_iter().zip(parts) {
            match answer {
                Ok(completion) => frames.extend(completion.frames.into_iter().map(Some)),
                Err(_) if count == 1 => frames.push(None),
                Err(_) => {
                    for page in offset..offset + count {
                        let answer = self.seat.ask(self.zone, read_of(page, 1)).await;
                        frames.push(answer.ok().and_then(|mut read| read.frames.pop()));
                    }
                }
            }
        }
        frames
    }

    /// Blocks in transfers.
    fn parts(&self, offset: u32, count: u32) -> Vec<(u32, u32)> {
        let (end, most) = (offset + count, self.transfer_max);
        (offset..end).step_by(most as usize).map(|first| (first, most.min(end - first))).collect()
    }

    /// Blocks from `offset` on. Of one that is not as expected, the second answer counts.
    pub async fn read_as(
        &self,
        offset: u32,
        count: u32,
        is_expected: impl Fn(u32, &Frame) -> bool,
    ) -> Vec<Option<Frame>> {
        let mut frames = self.read(offset, count).await;
        let is_right =
            |page, frame: &Option<Frame>| frame.as_ref().is_some_and(|frame| is_expected(page, frame));
        if (offset..).zip(&frames).all(|(page, frame)| is_right(page, frame)) {
            return frames;
        }
        for ((page, frame), again) in (offset..).zip(&mut frames).zip(self.read(offset, count).await) {
            if !is_right(page, frame) {
                *frame = again;
            }
        }
        frames
    }

    /// Answer about a block that two reads in a row agree on: of these one is right. `None` when none ever do.
    pub async fn settled<T: PartialEq>(&self, ask: impl AsyncFn(&Reader) -> T) -> Option<T> {
        let mut before = ask(self).await;
        for _ in 0..ANSWERS_MAX {
            let answer = ask(self).await;
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
    pub async fn read_header(&self, cache: [u8; 16]) -> Option<(Life, ZoneHeader)> {
        self.settled(async |reader| reader.ask_header(cache).await).await?
    }

    async fn ask_header(&self, cache: [u8; 16]) -> Option<(Life, ZoneHeader)> {
        let frame = self.read(0, 1).await.pop().flatten()?;
        let stamp = Stamp::read(&frame)?;
        let member = u8::try_from(self.seat.place()).ok()?;
        let own = Life { cache, member, zone: self.zone, ..stamp.life };
        let is_header = stamp.kind == Kind::Header && stamp.life == own && stamp.page == 0;
        Some((stamp.life, ZoneHeader::decode(&frame.data).filter(|_| is_header)?))
    }
}
