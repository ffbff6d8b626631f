//! Zones of a drive that take pages, one for each stream, and what their next directories will list.

use crate::format::directory::Listing;
use crate::policy::Stream;
use base::units::ZoneIndex;

/// Pages after which a directory is written: 16 MiB.
pub const LISTED_PAGES_MAX: u32 = 4096;

/// A zone that takes pages.
#[derive(Clone, Debug)]
pub struct OpenZone {
    /// The zone.
    pub zone: ZoneIndex,
    /// What its next directory will list; `None` in a zone that has none, and is read page by page.
    pub listing: Option<Listing>,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct OpenZones {
    by_stream: [Option<OpenZone>; Stream::PLACES],
}

impl OpenZones {
    /// The zone that takes pages of a stream.
    #[must_use]
    pub fn of(&self, stream: Stream) -> Option<ZoneIndex> {
        self.by_stream[stream.place()].as_ref().map(|open| open.zone)
    }

    /// True of a zone that takes pages.
    #[must_use]
    pub fn contains(&self, zone: ZoneIndex) -> bool {
        self.iter().any(|open| open.zone == zone)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &OpenZone> {
        self.by_stream.iter().flatten()
    }

    /// A zone takes pages of a stream from now on.
    pub fn open(&mut self, stream: Stream, open: OpenZone) {
        let before = self.by_stream[stream.place()].replace(open);
        assert!(before.is_none(), "a stream has one open zone on a drive");
    }

    /// A zone takes no more pages.
    pub fn close(&mut self, zone: ZoneIndex) {
        let of_zone = |open: &&mut Option<OpenZone>| open.as_ref().is_some_and(|open| open.zone == zone);
        self.by_stream.iter_mut().filter(of_zone).for_each(|open| *open = None);
    }

    /// What the next directory of an open zone will list.
    pub fn listing_mut(&mut self, zone: ZoneIndex) -> Option<&mut Listing> {
        self.by_stream.iter_mut().flatten().find(|open| open.zone == zone)?.listing.as_mut()
    }

    /// Zones whose next directories would list more than so many bytes get none any more.
    pub fn drop_listings_over(&mut self, bytes: u64) {
        for open in self.by_stream.iter_mut().flatten() {
            open.listing = open.listing.take().filter(|listing| listing.bytes() as u64 <= bytes);
        }
    }

    /// Bytes of memory for what next directories will list.
    #[must_use]
    pub fn listing_bytes(&self) -> u64 {
        self.iter().flat_map(|open| &open.listing).map(|listing| listing.bytes() as u64).sum()
    }
}
