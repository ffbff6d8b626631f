//! Settled segments: what the engine keeps of one that is decided. What its blocks said of themselves is needed no more, so
//! a mount holds it for few segments at a time.

use crate::log::mount::decide::{Decided, Fate};
use crate::log::segment::{Segment, SegmentState};
use crate::log::writer::Writer;
use zone::format::footer::{Entry, EntryKind};
use zone::format::header::WriteMode;
use zone::stripe::StripeNumber;
use zone::stripe::table::Packing;

/// The highest sequence of a data block.
pub fn sequence_max(segment: &Decided) -> u64 {
    let entries = segment.zones.iter().flatten().flat_map(|zone| zone.entries.iter().flatten());
    let data = entries.filter(|entry| matches!(entry.kind, EntryKind::Data(_)));
    data.map(|entry| entry.sequence).max().unwrap_or(0)
}

/// The segment as the engine has it; one that can be written on has its writer.
pub fn segment_of(segment: &Decided, packing: Packing) -> Segment {
    let void =
        |stripe: &StripeNumber| segment.fates[stripe.index()] == Fate::Void || is_hole(segment, *stripe);
    let void_stripes = match segment.header.mode {
        WriteMode::Write | WriteMode::Area => {
            (0..segment.slots_touched).map(StripeNumber::of_static_slot).filter(void).collect()
        }
        WriteMode::Append => Vec::new(),
    };
    let state = match (segment.sealed, segment.condemned) {
        (true, _) => SegmentState::Sealed,
        (false, true) => SegmentState::Condemned,
        (false, false) => SegmentState::Open,
    };
    assert!(segment.weak.is_sorted(), "stripes that are to be moved are in order");
    assert!(void_stripes.is_sorted(), "stripes that hold nothing are in order");
    Segment {
        state,
        torn_stripes: segment.weak.clone(),
        zones_missing: segment.zones_missing,
        void_stripes,
        table: segment.stripe_table(packing),
        writer: (state == SegmentState::Open).then(|| Box::new(writer_from(segment))),
        ..Segment::of_header(&segment.header, segment.layout)
    }
}

/// A stripe number before the end of an open Zone Write segment of which nothing was found.
fn is_hole(segment: &Decided, stripe: StripeNumber) -> bool {
    segment.fates[stripe.index()] == Fate::Absent
}

/// A writer that goes on where recovery left off.
fn writer_from(segment: &Decided) -> Writer {
    let layout = &segment.layout;
    let mut writer = Writer::new(layout, segment.slots_touched);
    assert!(!segment.sealed, "a sealed segment has no writer");
    assert!(!segment.condemned, "a condemned segment has no writer");
    writer.summary.next = segment.described;
    for (member, (progress, zone)) in writer.zones.iter_mut().zip(&segment.zones).enumerate() {
        let Some(zone) = zone else { continue };
        for (entry, found) in progress.entries.iter_mut().zip(&zone.entries) {
            let void = |found: &Entry| {
                found.kind != EntryKind::Void && segment.fates[found.stripe.index()] != Fate::Kept
            };
            *entry = found.filter(|found| !void(found)).unwrap_or(Entry::VOID);
        }
        name_damaged(segment, member, &mut progress.entries);
        progress.finished = zone.full;
        progress.window = zone.window;
        // Of a footer in a window, any block may be missing that is not committed.
        let footer_end = zone.window.map_or(zone.written, |window| window.write_pointer());
        progress.footer_next = footer_end.saturating_sub(layout.footer_offset()).min(layout.footer_blocks());
        assert!(zone.written >= layout.header_blocks);
    }
    writer
}

/// The footer is to name damaged blocks too, or older copies of them would be read after the next mount if
/// nothing can rebuild them then.
fn name_damaged(segment: &Decided, member: usize, entries: &mut [Entry]) {
    let layout = &segment.layout;
    let kept = |stripe: &StripeNumber| segment.fates[stripe.index()] == Fate::Kept;
    for stripe in layout.all_stripes().filter(kept) {
        let Some(slot) = segment.slots[member][stripe.index()] else { continue };
        if segment.is_whole_in(member, stripe, slot) {
            continue;
        }
        let piece = layout.piece_of(stripe, member);
        let first = (slot * layout.chunk_blocks) as usize;
        for (row, entry) in (0..layout.chunk_blocks).zip(&mut entries[first..]) {
            let known = segment.entry(stripe, piece, row).unwrap_or(Entry::unknown(stripe));
            *entry = Entry { whole: false, ..known };
        }
    }
}
