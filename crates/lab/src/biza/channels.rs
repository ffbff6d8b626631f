//! Channels of all drives' zones, guessed and corrected as published (`array::log::channels::spikes`). Completions carry no time, so
//! writes are judged when the time is known.

use array::log::channels::Spikes;
use base::time::Instant;
use base::units::ZoneIndex;

/// A write that completed and was not judged.
#[derive(Clone, Copy, Debug)]
struct Noted {
    drive: usize,
    zone: usize,
    /// Zone that the collector writes to.
    collects_to: Option<usize>,
    blocks: u32,
    at: Instant,
}

/// Beliefs about the channels of all zones.
#[derive(Debug)]
pub(crate) struct Channels {
    drives: Vec<Spikes>,
    noted: Vec<Noted>,
}

impl Channels {
    pub(crate) fn new(members: usize, zones: usize) -> Channels {
        let zones = u32::try_from(zones).expect("a drive has fewer zones");
        Channels { drives: vec![Spikes::new(zones); members], noted: Vec::new() }
    }

    /// The zones of one number were opened on all drives.
    pub(crate) fn note_opened(&mut self, zone: usize) {
        self.drives.iter_mut().for_each(|drive| drive.open(zone_at(zone)));
    }

    /// True when two zones of a drive are thought to share a channel.
    pub(crate) fn share(&self, drive: usize, first: usize, second: usize) -> bool {
        self.drives[drive].share(zone_at(first), zone_at(second))
    }

    /// Zones that were given another channel.
    pub(crate) fn flips(&self) -> u64 {
        self.drives.iter().map(Spikes::flips).sum()
    }

    /// A write completed that was sent at some time.
    pub(crate) fn note_write(
        &mut self,
        (drive, zone, collects_to): (usize, usize, Option<usize>),
        blocks: u32,
        at: Instant,
    ) {
        self.noted.push(Noted { drive, zone, collects_to, blocks, at });
    }

    /// Judges the writes that completed by now.
    pub(crate) fn judge(&mut self, now: Instant) {
        for Noted { drive, zone, collects_to, blocks, at } in self.noted.drain(..) {
            let collects_to = collects_to.map(zone_at);
            self.drives[drive].note(zone_at(zone), collects_to, blocks, now.since(at));
        }
    }
}

fn zone_at(zone: usize) -> ZoneIndex {
    ZoneIndex(u32::try_from(zone).expect("a drive has fewer zones"))
}
