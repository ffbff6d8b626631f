//! Zones of a drive that take pages, and what their next directories will list: one for each stream, and more for young objects.

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
    /// Listing for its next directory; `None` in a zone that has none, and is read page by page.
    pub listing: Option<Listing>,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct OpenZones {
    by_stream: [Option<OpenZone>; Stream::PLACES],
    /// More zones of the young stream: there is a first one then.
    more: Vec<OpenZone>,
}

impl OpenZones {
    /// The zone that takes pages of a stream.
    #[must_use]
    pub fn of(&self, stream: Stream) -> Option<ZoneIndex> {
        self.by_stream[stream.place()].as_ref().map(|open| open.zone)
    }

    /// Zones that take pages of young objects, beside the first one.
    pub fn more(&self) -> impl ExactSizeIterator<Item = ZoneIndex> {
        self.more.iter().map(|open| open.zone)
    }

    /// True of a zone that takes pages.
    #[must_use]
    pub fn contains(&self, zone: ZoneIndex) -> bool {
        self.iter().any(|open| open.zone == zone)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &OpenZone> {
        self.by_stream.iter().flatten().chain(&self.more)
    }

    /// A zone takes pages of a stream from now on.
    pub fn open(&mut self, stream: Stream, open: OpenZone) {
        assert!(!self.contains(open.zone), "zone {} takes pages of one stream", open.zone);
        let before = self.by_stream[stream.place()].replace(open);
        assert!(before.is_none(), "a stream has one open zone on a drive");
    }

    /// Opens one more zone for pages of young objects.
    pub fn open_more(&mut self, open: OpenZone) {
        assert!(self.of(Stream::Young).is_some(), "the first zone is opened first");
        assert!(!self.contains(open.zone), "zone {} takes pages already", open.zone);
        self.more.push(open);
    }

    /// A zone takes no more pages. Behind the first one of young objects the oldest of the others is the first.
    pub fn close(&mut self, zone: ZoneIndex) {
        let of_zone = |open: &&mut Option<OpenZone>| open.as_ref().is_some_and(|open| open.zone == zone);
        self.by_stream.iter_mut().filter(of_zone).for_each(|open| *open = None);
        self.more.retain(|open| open.zone != zone);
        let first = &mut self.by_stream[Stream::Young.place()];
        if first.is_none() && !self.more.is_empty() {
            *first = Some(self.more.remove(0));
        }
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut OpenZone> {
        self.by_stream.iter_mut().flatten().chain(&mut self.more)
    }

    /// Listing for the next directory of an open zone.
    pub fn listing_mut(&mut self, zone: ZoneIndex) -> Option<&mut Listing> {
        self.all_mut().find(|open| open.zone == zone)?.listing.as_mut()
    }

    /// Zones whose next directories would list more than so many bytes get none any more.
    pub fn drop_listings_over(&mut self, bytes: u64) {
        for open in self.all_mut() {
            open.listing = open.listing.take().filter(|listing| listing.bytes() as u64 <= bytes);
        }
    }

    /// Bytes of memory for what next directories will list.
    #[must_use]
    pub fn listing_bytes(&self) -> u64 {
        self.iter().flat_map(|open| &open.listing).map(|listing| listing.bytes() as u64).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(zone: u32) -> OpenZone {
        OpenZone { zone: ZoneIndex(zone), listing: None }
    }

    #[test]
    fn the_oldest_of_more_zones_follows_the_first_of_young_objects() {
        let mut open = OpenZones::default();
        open.open(Stream::Main, zone(1));
        open.open(Stream::Young, zone(2));
        [3, 4, 5].into_iter().for_each(|more| open.open_more(zone(more)));
        assert_eq!(open.iter().count(), 5);
        open.close(ZoneIndex(4));
        open.close(ZoneIndex(2));
        assert_eq!(open.of(Stream::Young), Some(ZoneIndex(3)));
        assert_eq!(open.more().collect::<Vec<_>>(), [ZoneIndex(5)]);
        open.close(ZoneIndex(1));
        assert_eq!(open.of(Stream::Main), None, "only young objects have more");
        assert!(open.contains(ZoneIndex(5)) && !open.contains(ZoneIndex(1)));
        open.close(ZoneIndex(3));
        open.close(ZoneIndex(5));
        assert_eq!(open.iter().count(), 0);
    }
}
