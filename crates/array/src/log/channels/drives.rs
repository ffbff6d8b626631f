//! The maps of all drives of an array, and the time that they are told.

use super::{ChannelMap, Rule, Spikes, ZoneWrite};
use crate::log::writer::Sent;
use base::time::Instant;
use base::units::ZoneIndex;

/// What is believed of a drive.
#[derive(Clone, Debug)]
pub struct ChannelStatus {
    /// Channel groups that it has, as far as zones are open on them.
    pub groups: u32,
    /// How sure the groups of its open zones are, from 0 to 1,000.
    pub confidence_per_mille: u32,
    /// The rule by which it places zones, where one is believed.
    pub rule: Option<Rule>,
    /// Open zones with their groups.
    pub zones: Vec<(ZoneIndex, u32)>,
    /// Times that a zone was given another group than was believed before.
    pub flips: u64,
}

/// The maps of all drives.
#[derive(Debug)]
pub struct DriveChannels {
    drives: Vec<ChannelMap>,
    /// Channels of all drives as they are published, where the policy goes by those.
    published: Option<Published>,
    zones: u32,
    /// The time, as the engine was told it last.
    pub(in crate::log) now: Instant,
}

/// Spikes of all drives, and the zones that the collector writes to.
#[derive(Debug)]
struct Published {
    drives: Vec<Spikes>,
    collects_to: Vec<ZoneIndex>,
}

impl Published {
    fn collects_to(&self, drive: usize) -> Option<ZoneIndex> {
        self.collects_to.get(drive).copied()
    }
}

impl DriveChannels {
    /// Maps of drives of so many zones each, none open.
    #[must_use]
    pub fn new(members: usize, zones: u32) -> DriveChannels {
        let drives = (0..members).map(|_| ChannelMap::new(zones)).collect();
        DriveChannels { drives, published: None, zones, now: Instant(0) }
    }

    /// Channels are told by spikes, too.
    pub(in crate::log) fn watch_spikes(&mut self) {
        let drives = vec![Spikes::new(self.zones); self.drives.len()];
        self.published = Some(Published { drives, collects_to: Vec::new() });
    }

    /// True when most of these zones, one of each drive, are thought by spikes to share a channel with those that the collector writes to.
    #[must_use]
    pub fn collector_shares(&self, zones: &[ZoneIndex]) -> bool {
        let Some(published) = &self.published else { return false };
        let shares = |(drive, zone): &(usize, &ZoneIndex)| {
            let to = published.collects_to(*drive);
            to.is_some_and(|to| published.drives[*drive].share(**zone, to))
        };
        2 * zones.iter().enumerate().filter(shares).count() > zones.len()
    }

    /// The map of a drive.
    #[must_use]
    pub fn of(&self, drive: usize) -> &ChannelMap {
        &self.drives[drive]
    }

    /// What is believed of each drive.
    #[must_use]
    pub fn status(&self) -> Vec<ChannelStatus> {
        let of = |map: &ChannelMap| ChannelStatus {
            groups: map.groups(),
            confidence_per_mille: map.confidence_per_mille(),
            rule: map.rule(),
            zones: map.zones().collect(),
            flips: map.flips(),
        };
        self.drives.iter().map(of).collect()
    }

    /// A segment is opened in these zones, one of each drive.
    pub(in crate::log) fn open(&mut self, zones: &[ZoneIndex], collects: bool) {
        self.drives.iter_mut().zip(zones).for_each(|(map, zone)| map.open(*zone));
        if let Some(published) = &mut self.published {
            published.drives.iter_mut().zip(zones).for_each(|(drive, zone)| drive.open(*zone));
            if collects {
                published.collects_to.clear();
                published.collects_to.extend_from_slice(zones);
            }
        }
    }

    /// The zones of a segment, one of each drive, are not written any more.
    pub(in crate::log) fn close(&mut self, zones: &[ZoneIndex]) {
        self.drives.iter_mut().zip(zones).for_each(|(map, zone)| map.close(*zone));
        if let Some(published) = self.published.as_mut().filter(|published| published.collects_to == zones) {
            published.collects_to.clear();
        }
    }

    /// Another drive has taken a place.
    pub(in crate::log) fn renew(&mut self, drive: usize) {
        self.drives[drive] = ChannelMap::new(self.zones);
        if let Some(published) = &mut self.published {
            published.drives[drive] = Spikes::new(self.zones);
        }
    }

    /// A timed command is done now.
    #[inline]
    pub(in crate::log) fn note(&mut self, drive: usize, zone: ZoneIndex, sent: &Sent) {
        let blocks = u32::try_from(sent.blocks).unwrap_or(u32::MAX);
        let write = ZoneWrite { zone, blocks, depth: sent.depth, from: sent.at, to: self.now };
        self.drives[drive].note(&write);
        if let Some(published) = &mut self.published {
            let to = published.collects_to(drive).filter(|to| *to != zone);
            published.drives[drive].note(zone, to, blocks, self.now.since(sent.at));
        }
    }

    /// Verdicts have borne out this rule on all drives.
    #[cfg(test)]
    pub(in crate::log) fn believe(&mut self, rule: Rule) {
        self.drives.iter_mut().for_each(|map| map.believe(rule));
    }

    /// Bytes of memory.
    pub(in crate::log) fn memory_bytes(&self) -> usize {
        let spikes = self.published.iter().flat_map(|published| &published.drives);
        let maps = self.drives.iter().map(ChannelMap::memory_bytes).sum::<usize>();
        maps + spikes.map(Spikes::memory_bytes).sum::<usize>()
    }
}
