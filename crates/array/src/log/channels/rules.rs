//! Rules by which drives place zones on channel groups, and which of them verdicts bear out.
//!
//! A verdict says of two zones whether they share a group. A rule says the same before: by the numbers of the zones, or by the order in
//! which they were opened, modulo the number of groups. The one that was right most often is believed once it has to do with what is
//! seen: it must be wrong at most half as often as whoever always says what is more frequent.

use base::units::ZoneIndex;

/// Groups that a rule counts up to. Drives with more are guessed as if they had so many.
const GROUPS_MAX: usize = 16;
/// Groups of a drive of which nothing is known.
const GROUPS_UNKNOWN: u32 = 2;
/// Verdicts before a rule is believed, and after which older ones count half.
const VERDICTS_MIN: u32 = 16;
const VERDICTS_MAX: u32 = 512;
/// On a drive of one group at most one verdict of so many says that two zones are apart.
const APART_PART: u32 = 16;

/// What decides the group of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleKind {
    /// Its number.
    Number,
    /// The order in which it was opened.
    Opening,
}

/// A rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// What decides.
    pub kind: RuleKind,
    /// Groups of the drive, by this rule.
    pub groups: u32,
}

/// A zone, and how many were opened before it.
#[derive(Clone, Copy, Debug)]
pub(super) struct ZoneOpening {
    pub(super) zone: u32,
    pub(super) turn: u64,
}

impl Rule {
    /// True when it puts zones of these numbers on one group. By order of opening numbers say nothing.
    #[must_use]
    pub fn joins_numbers(self, first: ZoneIndex, second: ZoneIndex) -> bool {
        self.kind == RuleKind::Number && first.0 % self.groups == second.0 % self.groups
    }

    /// True when the low bits of a zone's number say where it lies.
    #[must_use]
    pub fn is_told_by_low_bits(self) -> bool {
        self.kind == RuleKind::Number && self.groups.is_power_of_two()
    }

    /// True when it puts both zones on one group.
    pub(super) fn joins(self, zones: [ZoneOpening; 2]) -> bool {
        let [first, second] = zones.map(|opening| match self.kind {
            RuleKind::Number => u64::from(opening.zone) % u64::from(self.groups),
            RuleKind::Opening => opening.turn % u64::from(self.groups),
        });
        first == second
    }
}

/// Verdicts, and how many of them each rule foretold.
#[derive(Debug, Default)]
pub(super) struct Rules {
    together: u32,
    apart: u32,
    /// By kind and groups, from one on.
    right: [[u32; GROUPS_MAX]; 2],
}

const KINDS: [RuleKind; 2] = [RuleKind::Number, RuleKind::Opening];

impl Rules {
    /// A verdict on two zones.
    pub(super) fn note(&mut self, zones: [ZoneOpening; 2], together: bool) {
        *(if together { &mut self.together } else { &mut self.apart }) += 1;
        for (kind, right) in KINDS.into_iter().zip(&mut self.right) {
            for (groups, right) in (1..).zip(right) {
                *right += u32::from(Rule { kind, groups }.joins(zones) == together);
            }
        }
        if self.together + self.apart >= VERDICTS_MAX {
            let all = self.right.iter_mut().flatten().chain([&mut self.together, &mut self.apart]);
            all.for_each(|count| *count /= 2);
        }
    }

    /// The rule that is believed.
    pub(super) fn best(&self) -> Option<Rule> {
        let all = self.together + self.apart;
        if all < VERDICTS_MIN {
            return None;
        }
        if self.apart * APART_PART <= all {
            return Some(Rule { kind: RuleKind::Number, groups: 1 });
        }
        let (rule, right) = self.most_often_right();
        let wrong_by_frequency = self.together.min(self.apart);
        (2 * (all - right.min(all)) <= wrong_by_frequency && self.together > 0).then_some(rule)
    }

    /// The rule by which zones are guessed: the believed one, or in turn.
    pub(super) fn for_guesses(&self) -> Rule {
        self.best().unwrap_or(Rule { kind: RuleKind::Opening, groups: GROUPS_UNKNOWN })
    }

    /// Of equals that with the fewest groups, and numbers before order.
    fn most_often_right(&self) -> (Rule, u32) {
        let mut best = (Rule { kind: RuleKind::Number, groups: 1 }, self.right[0][0]);
        for groups in 2..=u32::try_from(GROUPS_MAX).expect("few groups") {
            for (kind, right) in KINDS.into_iter().zip(&self.right) {
                let right = right[groups as usize - 1];
                if right > best.1 {
                    best = (Rule { kind, groups }, right);
                }
            }
        }
        best
    }
}
