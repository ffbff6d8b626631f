//! Router of requests to shards: a request over several units goes in parts, and is answered when all of them are.

use super::spread::Spread;
use crate::request::{Outcome, Reply, Request, RequestId, RequestOp};
use base::frame::Frame;
use base::slab::Slab;
use base::units::Lba;

/// Marks names of parts. The rest of the name is where a part lies in its request (16 bits), and the number of that (32 bits).
const PART: u64 = 1 << 63;

/// Name of a flush behind the parts of a request, in the place of a part's.
const FLUSH: u64 = 0xffff;

/// Where a request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    /// To a shard, by its number.
    Shard(usize),
    /// To the control shard: what is of the whole array.
    Control,
}

/// Request in parts.
#[derive(Debug)]
struct Whole {
    id: RequestId,
    pending: usize,
    has_failed: bool,
    /// Frames that came back, by part.
    frames: Vec<Vec<Frame>>,
    /// All members are flushed when the parts are through.
    then_flush: bool,
}

/// See the module.
#[derive(Debug)]
pub struct Router {
    spread: Spread,
    wholes: Slab<Whole>,
}

impl Router {
    /// A router to shards that the volume is spread over.
    #[must_use]
    pub fn new(spread: Spread) -> Router {
        Router { spread, wholes: Slab::default() }
    }

    /// Which shard has a block.
    #[must_use]
    pub fn spread(&self) -> &Spread {
        &self.spread
    }

    /// Sends a request on its way.
    ///
    /// # Panics
    /// When its name is that of a part.
    pub fn route(&mut self, request: Request, into: &mut Vec<(To, Request)>) {
        let Request { id, op } = request;
        assert!(id.0 < PART, "{id:?} names a part");
        let (blocks, is_durable_trim) = match &op {
            RequestOp::Flush => return into.push((To::Control, Request { id, op })),
            RequestOp::Read { lba, blocks } => (lba.0..lba.0 + u64::from(*blocks), false),
            RequestOp::Write { lba, frames, .. } => {
                (lba.0..lba.0 + u64::try_from(frames.len()).expect("a request fits memory"), false)
            }
            RequestOp::Trim { lba, blocks, force_unit_access } => (lba.0..lba.0 + blocks, *force_unit_access),
        };
        match self.spread.shard_of_all(&blocks).filter(|_| !is_durable_trim) {
            Some(shard) => into.push((To::Shard(shard), Request { id, op })),
            None => self.route_parts(id, (op, blocks), into),
        }
    }

    fn route_parts(
        &mut self,
        id: RequestId,
        (mut op, blocks): (RequestOp, std::ops::Range<u64>),
        into: &mut Vec<(To, Request)>,
    ) {
        let cut: Vec<_> = self.spread.cut(blocks).collect();
        // Parts of a trim bring no frames, and may be any number.
        let is_trim = matches!(op, RequestOp::Trim { .. });
        assert!(is_trim || u64::try_from(cut.len()).is_ok_and(|count| count < FLUSH), "{} parts", cut.len());
        let then_flush = matches!(op, RequestOp::Trim { force_unit_access: true, .. });
        let frames = cut.iter().map(|_| Vec::new()).collect();
        let whole =
            self.wholes.insert(Whole { id, pending: cut.len(), has_failed: false, frames, then_flush });
        for (place, (shard, blocks)) in (0..).zip(cut) {
            let (lba, count) = (Lba(blocks.start), blocks.end - blocks.start);
            let few = || usize::try_from(count).expect("a request fits memory");
            let part = match &mut op {
                RequestOp::Read { .. } => {
                    RequestOp::Read { lba, blocks: u32::try_from(count).expect("a part of a request") }
                }
                RequestOp::Write { frames, force_unit_access, .. } => {
                    let frames = frames.drain(..few()).collect();
                    RequestOp::Write { lba, frames, force_unit_access: *force_unit_access }
                }
                RequestOp::Trim { .. } => RequestOp::Trim { lba, blocks: count, force_unit_access: false },
                RequestOp::Flush => unreachable!("a flush has no parts"),
            };
            let id = name(if is_trim { 0 } else { place }, whole);
            into.push((To::Shard(shard), Request { id, op: part }));
        }
    }

    /// Takes a reply: what the client is answered, if it is one. Frames come with it whatever the outcome is.
    pub fn join(&mut self, reply: Reply, into: &mut Vec<(To, Request)>) -> Option<Reply> {
        let Reply { id, outcome, frames } = reply;
        if id.0 < PART {
            return Some(Reply { id, outcome, frames });
        }
        let number = u32::try_from(id.0 & u64::from(u32::MAX)).expect("32 bits");
        let place = (id.0 ^ PART) >> 32;
        let whole = self.wholes.get_mut(number);
        whole.pending -= 1;
        whole.has_failed |= outcome == Outcome::IoError;
        if place != FLUSH {
            whole.frames[usize::try_from(place).expect("16 bits")] = frames;
        }
        if whole.pending > 0 {
            return None;
        }
        if std::mem::take(&mut whole.then_flush) {
            whole.pending = 1;
            into.push((To::Control, Request { id: name(FLUSH, number), op: RequestOp::Flush }));
            return None;
        }
        let Whole { id, has_failed, frames, .. } = self.wholes.remove(number);
        let outcome = if has_failed { Outcome::IoError } else { Outcome::Done };
        Some(Reply { id, outcome, frames: frames.into_iter().flatten().collect() })
    }
}

fn name(place: u64, whole: u32) -> RequestId {
    RequestId(PART | place << 32 | u64::from(whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn router() -> Router {
        Router::new(Spread::with_units(8, 1, 2))
    }

    fn read(lba: u64, blocks: u32) -> Request {
        Request { id: RequestId(5), op: RequestOp::Read { lba: Lba(lba), blocks } }
    }

    fn done(id: RequestId, bytes: &[u8]) -> Reply {
        let frame = |byte: &u8| {
            let mut frame = Frame::zeroed();
            frame.data.fill(*byte);
            frame
        };
        Reply { id, outcome: Outcome::Done, frames: bytes.iter().map(frame).collect() }
    }

    #[test]
    fn what_lies_in_one_unit_goes_as_it_is() {
        let (mut router, mut sent) = (router(), Vec::new());
        router.route(read(8, 8), &mut sent);
        assert!(matches!(sent[..], [(To::Shard(1), Request { id: RequestId(5), .. })]));
        assert!(router.join(done(RequestId(5), &[1]), &mut sent).is_some());
        router.route(Request { id: RequestId(6), op: RequestOp::Flush }, &mut sent);
        assert!(matches!(sent[1].0, To::Control));
    }

    #[test]
    fn frames_of_parts_come_in_order_whoever_answers_first() {
        let (mut router, mut sent) = (router(), Vec::new());
        router.route(read(7, 10), &mut sent);
        let to: Vec<To> = sent.iter().map(|(to, _)| *to).collect();
        assert_eq!(to, [To::Shard(0), To::Shard(1), To::Shard(0)]);
        let ids: Vec<RequestId> = sent.drain(..).map(|(_, request)| request.id).collect();
        assert!(router.join(done(ids[2], &[9]), &mut sent).is_none());
        assert!(router.join(done(ids[0], &[0]), &mut sent).is_none());
        let reply = router.join(done(ids[1], &[1, 2, 3, 4, 5, 6, 7, 8]), &mut sent).unwrap();
        let bytes: Vec<u8> = reply.frames.iter().map(|frame| frame.data[0]).collect();
        assert_eq!((reply.id, bytes), (RequestId(5), (0..10).collect()));
    }

    #[test]
    fn a_durable_trim_is_flushed_behind_all_parts_and_fails_with_any() {
        let (mut router, mut sent) = (router(), Vec::new());
        let op = RequestOp::Trim { lba: Lba(0), blocks: 16, force_unit_access: true };
        router.route(Request { id: RequestId(7), op }, &mut sent);
        let ids: Vec<RequestId> = sent.drain(..).map(|(_, request)| request.id).collect();
        assert_eq!(ids.len(), 2);
        let failed = Reply { id: ids[0], outcome: Outcome::IoError, frames: Vec::new() };
        assert!(router.join(failed, &mut sent).is_none() && sent.is_empty());
        assert!(router.join(done(ids[1], &[]), &mut sent).is_none());
        let (to, flush) = sent.pop().unwrap();
        assert!(to == To::Control && matches!(flush.op, RequestOp::Flush));
        let reply = router.join(done(flush.id, &[]), &mut sent).unwrap();
        assert_eq!((reply.id, reply.outcome), (RequestId(7), Outcome::IoError));
    }
}
