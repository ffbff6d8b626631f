//! Channel groups: which zones of a drive are slow together.
//!
//! A drive spreads its zones over groups of channels and keeps secret how. A zone stays on its group while it holds data. Zones of one
//! group wait for each other, zones of two do not (ADR 76). A [`ChannelMap`] finds out which are which: it *guesses* when a zone is
//! opened, and *verifies* the guess by writes that take much longer than usual.
//!
//! ```text
//!   time ──────────────────────────────────────>
//!   zone A    [=================== slow ======]        A waits for something
//!   zone B         [============== slow ======]        B waited for it, too: they end together          A and B: together
//!   zone C       [=] [=]  [=]                          C came later and was done long before: it passed  A and C: apart
//! ```
//! A queue lets nobody pass, so a write that passes a slow one is on another queue. That two end together is weaker: the whole drive
//! may have stood still, so it counts in full only when a third zone passed meanwhile. A slow write that nobody shares may be the
//! drive's caprice, and counts only where most slow writes of this drive are shared. Each time that a queue stands still is one
//! vote for a pair, however many writes it holds up; [`VOTES`] more of one kind than of the other are a verdict.
//!
//! ```text
//!   note ─ usual ─> mean of its size and depth
//!     └─── slow ──> judge: who passed, who ended together ─> vote for pairs ─ verdict ─┬─> rules: which one predicts (`rules.rs`)
//!                                                                                      └─ guesses differ ─> mend: a zone changes its group
//! ```
//! Invariants: a tracked zone has one group; no pair of tracked zones contradicts its verdict where moving one zone would mend that. It
//! knows neither drives nor the index, has no clock, and allocates nothing but at its creation; a usual write costs a look at two tables.
//!
//! What it is bad at: a drive on which nothing ever waits is not told apart from one with a group for each zone; its guesses stay guesses.

mod drives;
mod rules;
mod spikes;

use base::time::{Instant, Nanos};
use base::units::ZoneIndex;
pub use drives::{ChannelStatus, DriveChannels};
pub use rules::{Rule, RuleKind};
use rules::{Rules, ZoneOpening};
pub use spikes::Spikes;

/// Zones of a drive that are told apart at a time: more than an array keeps open. Others get no group.
const ZONES_MAX: usize = 32;
/// Pairs of them.
const PAIRS: usize = ZONES_MAX * (ZONES_MAX - 1) / 2;
/// Classes of sizes and of depths: powers of two, up to 256 blocks and 32 writes.
const SIZES: usize = 9;
const DEPTHS: usize = 6;
/// Times the mean from which on a write is slow. Writes that share a processor or a bus with a few others take two or three.
const SLOW_TIMES: u64 = 4;
/// Part that a usual write has in the mean, and by which a slow one raises it: what lasts for thousands of writes is usual.
const PART_USUAL: u64 = 64;
const PART_SLOW: u64 = 4096;
/// Two slow writes end together when no more lies between their ends than this part of the shorter one.
const TOGETHER_PART: u64 = 8;
/// A vote that counts in full; the least one.
const FULL: i8 = 8;
/// Votes of one kind, more than of the other, that are a verdict.
const VOTES: i8 = 8;
const VERDICT: i8 = FULL * VOTES;
/// Slow writes that are remembered as shared or not.
const SHARED_MAX: u32 = 256;
/// A zone that is not tracked.
const NOT_TRACKED: u8 = u8::MAX;

/// A write that has completed.
#[derive(Clone, Copy, Debug)]
pub struct ZoneWrite {
    /// Its zone.
    pub zone: ZoneIndex,
    /// Its size.
    pub blocks: u32,
    /// Writes of the zone that were with the drive when it was sent, itself included.
    pub depth: u32,
    /// When it was sent.
    pub from: Instant,
    /// When it was done.
    pub to: Instant,
}

/// Time that a write took.
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    from: Instant,
    to: Instant,
    is_slow: bool,
    /// Slow, and nobody else is known to have been.
    is_alone: bool,
}

impl Span {
    fn latency(&self) -> Nanos {
        self.to.since(self.from)
    }
}

/// An open zone.
#[derive(Clone, Copy, Debug)]
struct Tracked {
    opening: ZoneOpening,
    group: u8,
    /// Its last writes, the newest first.
    last: [Span; 2],
}

/// What is known of two open zones.
#[derive(Clone, Copy, Debug, Default)]
struct Pair {
    /// Votes for together, less those for apart.
    votes: i8,
    /// The last verdict.
    verdict: Option<bool>,
    /// End of the slow write that brought the last vote.
    voted_at: Instant,
}

/// What is believed of the channel groups of one drive.
#[derive(Debug)]
pub struct ChannelMap {
    /// Place in `tracked` of each zone.
    places: Box<[u8]>,
    tracked: [Option<Tracked>; ZONES_MAX],
    pairs: Box<[Pair]>,
    /// Usual latencies in ns, by depth and size; 0 where nothing is known.
    means: [[u64; SIZES]; DEPTHS],
    /// Slow writes that others shared, and that none did.
    shared: u32,
    alone: u32,
    rules: Rules,
    /// Zones opened so far.
    openings: u64,
    flips: u64,
}

impl ChannelMap {
    /// A map of a drive of so many zones, none open.
    #[must_use]
    pub fn new(zones: u32) -> ChannelMap {
        ChannelMap {
            places: vec![NOT_TRACKED; zones as usize].into(),
            tracked: [None; ZONES_MAX],
            pairs: vec![Pair::default(); PAIRS].into(),
            means: [[0; SIZES]; DEPTHS],
            shared: 0,
            alone: 0,
            rules: Rules::default(),
            openings: 0,
            flips: 0,
        }
    }

    /// An empty zone is opened: its group is guessed.
    ///
    /// # Panics
    /// When the drive has no such zone.
    pub fn open(&mut self, zone: ZoneIndex) {
        self.close(zone);
        let opening = ZoneOpening { zone: zone.0, turn: self.openings };
        self.openings += 1;
        let Some(place) = self.tracked.iter().position(Option::is_none) else { return };
        let group = self.guess(opening);
        assert!(usize::from(group) < ZONES_MAX, "zone {} is guessed to lie on group {group}", zone.0);
        self.tracked[place] = Some(Tracked { opening, group, last: [Span::default(); 2] });
        self.places[zone.index()] = u8::try_from(place).expect("few zones are tracked");
    }

    /// A zone is not written any more: what is known of it ends, for the drive may place it anew.
    ///
    /// # Panics
    /// When the drive has no such zone.
    pub fn close(&mut self, zone: ZoneIndex) {
        let place = std::mem::replace(&mut self.places[zone.index()], NOT_TRACKED);
        if place == NOT_TRACKED {
            return;
        }
        assert!(
            self.tracked[usize::from(place)].is_some_and(|tracked| tracked.opening.zone == zone.0),
            "place {place} is that of another zone than {}",
            zone.0
        );
        let place = usize::from(place);
        self.tracked[place] = None;
        for other in (0..ZONES_MAX).filter(|other| *other != place) {
            self.pairs[pair(place, other)] = Pair::default();
        }
    }

    /// A write has completed.
    ///
    /// # Panics
    /// When the drive has no such zone.
    #[inline]
    pub fn note(&mut self, write: &ZoneWrite) {
        let place = usize::from(self.places[write.zone.index()]);
        if place >= ZONES_MAX {
            return;
        }
        let size = (write.blocks.max(1).ilog2() as usize).min(SIZES - 1);
        let depth = (write.depth.max(1).ilog2() as usize).min(DEPTHS - 1);
        let mean = &mut self.means[depth][size];
        let latency = write.to.since(write.from).0;
        let usual = *mean;
        let is_slow = usual > 0 && latency > SLOW_TIMES.saturating_mul(usual);
        *mean = match usual {
            0 => latency,
            _ if is_slow => usual + usual / PART_SLOW + 1,
            _ => usual - usual / PART_USUAL + latency / PART_USUAL,
        };
        let mut span = Span { from: write.from, to: write.to, is_slow, is_alone: false };
        if is_slow {
            span.is_alone = self.judge(place, &span, Nanos(usual));
        }
        if let Some(tracked) = &mut self.tracked[place] {
            tracked.last = [span, tracked.last[0]];
        }
    }

    /// Group of an open zone: a number that means nothing but whether zones share one.
    #[must_use]
    pub fn group_of(&self, zone: ZoneIndex) -> Option<u32> {
        let tracked = self.tracked.get(usize::from(*self.places.get(zone.index())?))?;
        tracked.map(|tracked| u32::from(tracked.group))
    }

    /// The rule by which this drive places zones, as far as verdicts bear one out.
    #[must_use]
    pub fn rule(&self) -> Option<Rule> {
        self.rules.best()
    }

    /// Open zones with their groups.
    pub fn zones(&self) -> impl Iterator<Item = (ZoneIndex, u32)> {
        self.tracked
            .iter()
            .flatten()
            .map(|tracked| (ZoneIndex(tracked.opening.zone), u32::from(tracked.group)))
    }

    /// Groups that the drive has: those of the rule, or those that open zones lie on.
    #[must_use]
    pub fn groups(&self) -> u32 {
        let in_use = self.tracked.iter().flatten().fold(0_u32, |groups, tracked| groups | 1 << tracked.group);
        self.rule().map_or(0, |rule| rule.groups).max(in_use.count_ones())
    }

    /// How sure it is of the groups of open zones, from 0 to 1,000: the votes that agree with them, of those that verdicts on all pairs
    /// take. Without two open zones nothing is sure.
    #[must_use]
    pub fn confidence_per_mille(&self) -> u32 {
        let (mut agreeing, mut pairs) = (0_u32, 0_u32);
        for (first, second) in self.open_pairs() {
            let votes = self.pairs[pair(first, second)].votes;
            let for_it = if self.are_together(first, second) { votes } else { -votes };
            agreeing += u32::from(u8::try_from(for_it).unwrap_or(0));
            pairs += 1;
        }
        let all = pairs * u32::from(VERDICT.unsigned_abs());
        (agreeing * 1000).checked_div(all).unwrap_or(0)
    }

    /// Verdicts have borne out this rule.
    #[cfg(test)]
    fn believe(&mut self, rule: Rule) {
        let opening = |zone: u32| ZoneOpening { zone: 31 * zone % 97, turn: u64::from(zone) };
        for (first, second) in (0..12).flat_map(|first| (0..first).map(move |second| (first, second))) {
            let zones = [opening(first), opening(second)];
            self.rules.note(zones, rule.joins(zones));
        }
        assert_eq!(self.rule(), Some(rule));
    }

    /// Bytes of memory.
    pub(in crate::log) fn memory_bytes(&self) -> usize {
        size_of::<ChannelMap>() + self.places.len() + self.pairs.len() * size_of::<Pair>()
    }

    /// Times that a zone was given another group than was believed before.
    #[must_use]
    pub fn flips(&self) -> u64 {
        self.flips
    }

    /// A write took much longer than usual: whoever passed it is apart from its zone, whoever ended with it is together. Returns true
    /// when nobody did the latter.
    #[inline(never)] // Rare.
    fn judge(&mut self, place: usize, slow: &Span, usual: Nanos) -> bool {
        let (mut passed, mut shared) = (0_u32, 0_u32);
        for other in (0..ZONES_MAX).filter(|other| *other != place) {
            let Some(tracked) = &mut self.tracked[other] else { continue };
            let [newest, _] = &mut tracked.last;
            let between = slow.to.since(newest.to);
            let shorter = newest.latency().min(slow.latency());
            if newest.is_slow && between.0 <= shorter.0 / TOGETHER_PART {
                shared |= 1 << other;
                // It was the first of them to end.
                if std::mem::take(&mut newest.is_alone) {
                    self.alone = self.alone.saturating_sub(1);
                    self.shared += 1;
                }
            } else if tracked.last.iter().any(|write| write.from > slow.from && write.to + usual <= slow.to) {
                passed |= 1 << other;
            }
        }
        let is_alone = shared == 0;
        *(if is_alone { &mut self.alone } else { &mut self.shared }) += 1;
        if self.alone + self.shared >= SHARED_MAX {
            (self.alone, self.shared) = (self.alone / 2, self.shared / 2);
        }
        let full = self.weight(is_alone);
        // A standstill of the whole drive shows none that passed.
        let (together, apart) = (if passed == 0 { full.min(1) } else { full }, full);
        for other in (0..ZONES_MAX).filter(|other| (passed | shared) >> other & 1 == 1) {
            let votes = if shared >> other & 1 == 1 { together } else { -apart };
            self.vote((place, other), votes, slow);
        }
        is_alone
    }

    /// What a slow write says. Where few are shared, most are caprices: those that nobody shares say nothing, and two that are may be so
    /// by chance.
    fn weight(&self, is_alone: bool) -> i8 {
        let full = u32::from(FULL.unsigned_abs());
        let all = (self.alone + self.shared).max(1);
        let weight = match is_alone {
            true if 2 * self.shared < all => 0,
            true => full * self.shared / all,
            false => (2 * full * self.shared).div_ceil(all).min(full),
        };
        i8::try_from(weight).expect("at most a full vote")
    }

    /// Votes for together, or against it; one vote for each time that a queue stands still.
    fn vote(&mut self, (first, second): (usize, usize), votes: i8, slow: &Span) {
        let pair = &mut self.pairs[pair(first, second)];
        if votes == 0 || slow.from < pair.voted_at {
            return;
        }
        pair.voted_at = slow.to;
        pair.votes = (pair.votes + votes).clamp(-VERDICT, VERDICT);
        if pair.votes.abs() < VERDICT {
            return;
        }
        let together = pair.votes > 0;
        let is_new = pair.verdict.replace(together) != Some(together);
        let [Some(one), Some(other)] = [self.tracked[first], self.tracked[second]] else {
            panic!("only open zones are judged");
        };
        if is_new {
            self.rules.note([one.opening, other.opening], together);
        }
        if together != (one.group == other.group) {
            self.mend();
        }
    }

    /// Moves zones to the groups that the votes of their pairs speak for, that with most to gain first, as long as one gains a verdict.
    /// What all pairs have to say grows with each move, so it ends.
    fn mend(&mut self) {
        loop {
            let moves = (0..ZONES_MAX).filter_map(|place| self.best_move(place));
            // Of equal gains the first.
            let best = moves.max_by_key(|(gain, place, _)| (*gain, std::cmp::Reverse(*place)));
            let Some((gain, place, group)) = best else { return };
            if gain < i32::from(VERDICT) {
                return;
            }
            if let Some(tracked) = &mut self.tracked[place] {
                tracked.group = group;
            }
            self.flips += 1;
        }
    }

    /// The group that the votes of a zone's pairs speak for most, and what it would gain there: (gain, place, group).
    fn best_move(&self, place: usize) -> Option<(i32, usize, u8)> {
        let own = self.tracked[place]?.group;
        let mut support = [0_i32; ZONES_MAX];
        for other in (0..ZONES_MAX).filter(|other| *other != place) {
            if let Some(tracked) = self.tracked[other] {
                support[usize::from(tracked.group)] += i32::from(self.pairs[pair(place, other)].votes);
            }
        }
        // The last of those without a zone stands for a group of its own.
        let best = (0..ZONES_MAX).max_by_key(|group| (support[*group], std::cmp::Reverse(*group)))?;
        let gain = support[best] - support[usize::from(own)];
        Some((gain, place, u8::try_from(best).expect("as many groups as zones at most")))
    }

    /// The group of the open zones that the rule puts where it puts this one, most of them; or one that has none.
    fn guess(&self, opening: ZoneOpening) -> u8 {
        let rule = self.rules.for_guesses();
        let mut alike = [0_u32; ZONES_MAX];
        let mut in_use = 0_u32;
        for tracked in self.tracked.iter().flatten() {
            in_use |= 1 << tracked.group;
            alike[usize::from(tracked.group)] += u32::from(rule.joins([tracked.opening, opening]));
        }
        let most = (0..ZONES_MAX).max_by_key(|group| (alike[*group], std::cmp::Reverse(*group)));
        let unused = usize::try_from(in_use.trailing_ones()).expect("few groups") % ZONES_MAX;
        let group = most.filter(|group| alike[*group] > 0).unwrap_or(unused);
        u8::try_from(group).expect("as many groups as zones at most")
    }

    fn are_together(&self, first: usize, second: usize) -> bool {
        let group = |place: usize| self.tracked[place].map(|tracked| tracked.group);
        group(first) == group(second)
    }

    fn open_pairs(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let open = |place: &usize| self.tracked[*place].is_some();
        let seconds =
            move |first: usize| (first + 1..ZONES_MAX).filter(open).map(move |second| (first, second));
        (0..ZONES_MAX).filter(open).flat_map(seconds)
    }
}

/// Place of a pair among all.
fn pair(first: usize, second: usize) -> usize {
    assert!(first != second, "a zone is no pair");
    let (low, high) = (first.min(second), first.max(second));
    high * (high - 1) / 2 + low
}

#[cfg(test)]
mod tests;
