//! Decisions of the policy that last, each with what it was made from: for whoever asks why.
//!
//! What is decided for every stripe is not among them: it would be a line for each write.

use crate::log::policy::Space;
use std::fmt;
use zone::format::header::{Stream, WriteMode};

/// What the policy saw of space and demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Blocks of clients under way, the most of late.
    pub demand_blocks: u64,
    /// Free segments, the reserve included.
    pub free_segments: u32,
    /// Segments of small and of large chunks that take stripes.
    pub open: [usize; 2],
    /// Stripes of clients that are closed and not durable.
    pub stripes_in_flight: usize,
    /// Blocks that clients can write before they need a segment that is not free.
    pub headroom_blocks: u64,
}

/// A decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Another segment is opened.
    Opens {
        /// Stream that it is for.
        stream: Stream,
        /// Its number.
        segment: u64,
        /// Blocks of its chunks.
        chunk_blocks: u32,
        /// Mode in which it is written.
        mode: WriteMode,
    },
    /// A segment that clients have left is filled by the collector.
    HandsOver {
        /// Its number.
        segment: u64,
        /// Stripes that it has room for.
        stripes: u32,
    },
    /// Writes of clients go to other chunks from now on.
    Chunks {
        /// Stream that they go to.
        stream: Stream,
        /// Blocks of a stripe there.
        stripe_blocks: u32,
    },
    /// A segment is collected.
    Victim {
        /// Its number.
        segment: u64,
        /// Blocks that live in it ..
        live_blocks: u32,
        /// .. of so many.
        blocks: u32,
        /// Blocks written since it was opened.
        age: u64,
        /// Set when survivors go to two segments.
        in_two: bool,
    },
    /// Clients wait for the victim, or go on.
    Clients {
        /// They wait.
        wait: bool,
    },
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Decision::Opens { stream, segment, chunk_blocks, mode } => {
                let kib = 4 * chunk_blocks;
                let mode = match mode {
                    WriteMode::Append => "zone append",
                    WriteMode::Write => "zone write",
                    WriteMode::Area => "in random write areas",
                };
                write!(
                    f,
                    "segment {} opens for {}, chunks of {kib} KiB, {mode}",
                    short(*segment),
                    name(*stream)
                )
            }
            Decision::HandsOver { segment, stripes } => {
                write!(
                    f,
                    "segment {} is left with room for {stripes} stripes, which survivors fill",
                    short(*segment)
                )
            }
            Decision::Chunks { stream, stripe_blocks } => {
                write!(f, "writes go to {}, stripes of {stripe_blocks} blocks", name(*stream))
            }
            Decision::Victim { segment, live_blocks, blocks, age, in_two } => {
                let (live, of) = (u64::from(*live_blocks), u64::from(*blocks).max(1));
                let to = if *in_two { ", survivors to two segments" } else { "" };
                write!(
                    f,
                    "segment {} is collected, {} % of it live, {age} blocks old{to}",
                    short(*segment),
                    100 * live / of
                )
            }
            Decision::Clients { wait: true } => f.write_str("clients wait for the victim"),
            Decision::Clients { wait: false } => f.write_str("clients go on"),
        }
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Seen { demand_blocks, free_segments, open: [small, large], stripes_in_flight, headroom_blocks } =
            self;
        write!(
            f,
            "demand {demand_blocks} blocks, {stripes_in_flight} stripes in flight, {free_segments} segments free, \
             {small} small and {large} large open, headroom {headroom_blocks} blocks"
        )
    }
}

/// Numbers of segments begin anew with each mount, above an epoch.
fn short(segment: u64) -> u64 {
    segment & u64::from(u32::MAX)
}

fn name(stream: Stream) -> &'static str {
    match stream {
        Stream::Small => "small writes",
        Stream::Large => "large writes",
        Stream::Gc => "survivors",
        Stream::Cold => "cold survivors",
        Stream::Mapping => "the index",
    }
}

impl Space<'_> {
    /// Returns what a decision is made from, in figures.
    pub(in crate::log) fn seen(&self) -> Seen {
        Seen {
            demand_blocks: self.demand.blocks(),
            free_segments: self.core.segments.free_segments(),
            open: Stream::CLIENTS.map(|stream| self.stripes.places_with_room(self.core, stream)),
            stripes_in_flight: self.stripes.client_stripes_in_flight(),
            headroom_blocks: self.headroom_blocks(),
        }
    }
}

/// Decisions that were made, kept where somebody asks for them.
#[derive(Debug, Default)]
pub struct Decisions {
    kept: Option<Vec<(Decision, Seen)>>,
    /// Stream that writes of clients went to last, and whether they wait.
    last: (Option<Stream>, bool),
}

impl Decisions {
    /// Keeps decisions from now on.
    pub fn keep(&mut self) {
        self.kept.get_or_insert_default();
    }

    /// Returns what was decided since this was asked last.
    pub fn take(&mut self) -> Vec<(Decision, Seen)> {
        self.kept.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// True when somebody wants to know of decisions.
    #[must_use]
    pub fn are_wanted(&self) -> bool {
        self.kept.is_some()
    }

    /// A decision was made.
    pub fn note(&mut self, decision: Decision, seen: Seen) {
        let is_new = match decision {
            Decision::Chunks { stream, .. } => self.last.0.replace(stream) != Some(stream),
            Decision::Clients { wait } => std::mem::replace(&mut self.last.1, wait) != wait,
            Decision::Opens { .. } | Decision::HandsOver { .. } | Decision::Victim { .. } => true,
        };
        if is_new {
            self.kept.iter_mut().for_each(|kept| kept.push((decision, seen)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEEN: Seen =
        Seen { demand_blocks: 7, free_segments: 3, open: [1, 2], stripes_in_flight: 4, headroom_blocks: 50 };

    #[test]
    fn what_does_not_change_is_told_once() {
        let mut decisions = Decisions::default();
        decisions.note(Decision::Clients { wait: true }, SEEN);
        assert!(decisions.take().is_empty(), "nobody asked");
        decisions.keep();
        let small = Decision::Chunks { stream: Stream::Small, stripe_blocks: 3 };
        let large = Decision::Chunks { stream: Stream::Large, stripe_blocks: 12 };
        for decision in
            [small, small, large, Decision::Clients { wait: true }, Decision::Clients { wait: false }]
        {
            decisions.note(decision, SEEN);
        }
        let told: Vec<Decision> = decisions.take().into_iter().map(|(decision, _)| decision).collect();
        assert_eq!(told, [small, large, Decision::Clients { wait: false }]);
        assert!(decisions.take().is_empty());
    }

    #[test]
    fn decisions_read_as_sentences() {
        let victim = Decision::Victim {
            segment: (9 << 32) + 5,
            live_blocks: 30,
            blocks: 120,
            age: 400,
            in_two: false,
        };
        assert_eq!(victim.to_string(), "segment 5 is collected, 25 % of it live, 400 blocks old");
        let opens =
            Decision::Opens { stream: Stream::Large, segment: 6, chunk_blocks: 4, mode: WriteMode::Write };
        assert_eq!(opens.to_string(), "segment 6 opens for large writes, chunks of 16 KiB, zone write");
        assert_eq!(
            SEEN.to_string(),
            "demand 7 blocks, 4 stripes in flight, 3 segments free, 1 small and 2 large open, headroom 50 blocks"
        );
    }
}
