//! What only some of the logs say, all of them say before anything is done about it: a drive may fail at any time,
//! and what is done must not hang on its log alone.
//!
//! ```text
//!   drive 0   | S0 S1 |     epoch 2 was begun, and a crash came when one superblock of four was written.
//!   drive 1   | S0    |     S1 goes to the others; only then may the logs of epoch 1 be erased.
//! ```

use super::scan::Scan;
use super::{DriveSet, MountError, execute};
use crate::record::{Record, Superblock, array_tag};
use base::frame::Frame;
use base::time::Instant;
use std::collections::BTreeMap;
use zone::device::Op;

/// Appends to each log what it lacks: the newest superblock, and that the zones in `resets` are reset, up to these
/// generations. A log zone that is full is left as it is: what it said rotted there.
///
/// # Errors
/// When a drive fails.
pub fn agree(
    drives: &mut DriveSet,
    scan: &mut Scan,
    resets: &BTreeMap<u32, u64>,
    now: Instant,
) -> Result<(), MountError> {
    let tag = array_tag(&scan.config);
    for member in scan.present() {
        let mut lacking = Vec::new();
        if !scan.knows_newest[member] {
            let place = u8::try_from(member).expect("validated: at most 32 members");
            let mut frame = Frame::zeroed();
            Superblock { member: place, ..scan.newest }.seal(&mut frame);
            lacking.push(frame);
        }
        for (zone, generation) in resets {
            let knows = scan.dead[member].get(zone).is_some_and(|dead| dead >= generation);
            if !knows {
                let mut frame = Frame::zeroed();
                Record::of_reset(scan.newest.epoch, *zone, *generation).seal(tag, &mut frame);
                lacking.push(frame);
            }
        }
        for frame in lacking {
            let Some(zone) = scan.log_zone_with_room(member) else { break };
            execute(drives, member, zone, Op::Append { frames: vec![frame] }, now)?;
            scan.pointers[member][zone.index()] += 1;
        }
    }
    Ok(())
}
