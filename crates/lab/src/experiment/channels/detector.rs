//! A detector of channels, ours or the published one, that is told what a drive does and asked what it believes.

use super::super::scheme::Scheme;
use crate::biza::channels::Channels;
use array::log::channels::{ChannelMap, ZoneWrite};
use base::units::ZoneIndex;

/// A detector for one drive.
pub(super) enum Detector {
    /// Ours.
    Map(Box<ChannelMap>),
    /// The published one.
    Published(Box<Channels>),
}

impl Detector {
    pub(super) fn new(scheme: Scheme, zones: u32) -> Detector {
        match scheme {
            Scheme::Biza => Detector::Published(Box::new(Channels::new(1, zones as usize))),
            _ => Detector::Map(Box::new(ChannelMap::new(zones))),
        }
    }

    /// An empty zone is opened.
    pub(super) fn open(&mut self, zone: u32) {
        match self {
            Detector::Map(map) => map.open(ZoneIndex(zone)),
            Detector::Published(channels) => channels.note_opened(zone as usize),
        }
    }

    /// A zone is full.
    pub(super) fn close(&mut self, zone: u32) {
        if let Detector::Map(map) = self {
            map.close(ZoneIndex(zone));
        }
    }

    /// A write is done; the collector writes to a zone while it moves a victim.
    pub(super) fn note(&mut self, write: &ZoneWrite, collects_to: Option<u32>) {
        match self {
            Detector::Map(map) => map.note(write),
            Detector::Published(channels) => {
                let zone = write.zone.index();
                let other = collects_to.map(|zone| zone as usize).filter(|other| *other != zone);
                channels.note_write((0, zone, other), write.blocks, write.from);
                channels.judge(write.to);
            }
        }
    }

    /// True when two open zones are believed to share a group.
    pub(super) fn share(&self, first: u32, second: u32) -> bool {
        match self {
            Detector::Map(map) => map.group_of(ZoneIndex(first)) == map.group_of(ZoneIndex(second)),
            Detector::Published(channels) => channels.share(0, first as usize, second as usize),
        }
    }

    pub(super) fn flips(&self) -> u64 {
        match self {
            Detector::Map(map) => map.flips(),
            Detector::Published(channels) => channels.flips(),
        }
    }
}
