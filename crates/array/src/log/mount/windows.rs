//! Windows: what drives kept of random write areas. The write pointer says what was committed; how far blocks were written beyond
//! it, only the blocks say: all zeros, metadata too, was never written.

use crate::log::mount::Session;
use crate::log::mount::scan::read_blocks;
use base::units::ZoneIndex;
use std::collections::BTreeMap;
use zone::device::ZoneDescriptor;
use zone::format::SUPERBLOCK_ZONES;

/// Reads all windows. Returns the end of what was written in each zone with an area; nothing was where the write pointer
/// never moved, for headers are committed before a segment counts.
pub fn read_ends(
    session: &mut Session,
    descriptors: &[Vec<ZoneDescriptor>],
) -> BTreeMap<(usize, ZoneIndex), u32> {
    let mut ends = BTreeMap::new();
    for (member, zones) in descriptors.iter().enumerate() {
        for (zone, descriptor) in (0..).map(ZoneIndex).zip(zones).skip(SUPERBLOCK_ZONES as usize) {
            if !descriptor.has_area {
                continue;
            }
            let end = match descriptor.write_pointer {
                0 => 0,
                write_pointer => read_end(session, member, zone, write_pointer),
            };
            assert!(end >= descriptor.write_pointer, "what is committed was written");
            ends.insert((member, zone), end);
        }
    }
    ends
}

/// Returns the end of what was written in the window of a zone.
fn read_end(session: &mut Session, member: usize, zone: ZoneIndex, write_pointer: u32) -> u32 {
    let Some(geometry) = session.drives.geometry(base::units::DriveIndex::at(member)).copied() else {
        return write_pointer;
    };
    let window_end = geometry.areas.map_or(write_pointer, |areas| areas.window_end(&geometry, write_pointer));
    let mut end = write_pointer;
    // A drive may have returned another block, once: what seems to be zeros is asked twice.
    for _ in 0..2 {
        let blocks = read_blocks(session, member, zone, end..window_end);
        let written = blocks.iter().rposition(|frame| frame.as_ref().is_none_or(|frame| !frame.is_blank()));
        let written = written.map_or(0, |last| u32::try_from(last + 1).expect("blocks of a window"));
        end += written;
    }
    end
}
