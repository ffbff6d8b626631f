//! Member in the words of `mdadm --examine`: the same labels, values and order as mdadm 4.2.
//!
//! Times are told by the caller, who knows the time zone: each function that prints one takes a [`Clock`].

mod logs;

pub use logs::{print_bad_blocks, print_bitmap};

use super::member::Member;
use super::names;
use super::superblock::{RoleEntry, Superblock, feature, seconds};
use super::{SECTOR_BYTES_U64, Uuid};
use std::fmt::{self, Write};

/// Time in words, as `ctime` gives it: from seconds since 1970.
pub type Clock<'a> = &'a dyn Fn(u64) -> String;

/// Sectors between the start of a superblock and what may lie behind it, as md leaves them.
const SUPERBLOCK_ROOM: u64 = 72;

/// Size in mdadm's words, a blank before it; empty below 5000 KiB.
#[must_use]
pub fn human_size(bytes: u128) -> String {
    let hundredths = |unit: u128| (bytes * 200 / unit).div_ceil(2);
    let (binary, decimal, names) = match bytes {
        0..5_120_000 => return String::new(),
        5_120_000..0x8000_0000 => (1 << 20, 1_000_000, ["MiB", "MB"]),
        0x8000_0000..0x200_0000_0000 => (1 << 30, 1_000_000_000, ["GiB", "GB"]),
        _ => (1 << 40, 1_000_000_000_000, ["TiB", "TB"]),
    };
    let [binary, decimal] = [hundredths(binary), (bytes / (decimal / 200)).div_ceil(2)];
    let both = [(binary, names[0]), (decimal, names[1])].map(|(value, name)| two_places(value, name, " "));
    format!(" ({} {})", both[0], both[1])
}

/// Size as `mdadm --export` gives it; empty below 5000 KiB.
#[must_use]
pub fn brief_size(bytes: u128) -> String {
    let (decimal, name) = match bytes {
        0..5_120_000 => return String::new(),
        5_120_000..0x8000_0000 => (1_000_000, "MB"),
        0x8000_0000..0x200_0000_0000 => (1_000_000_000, "GB"),
        _ => (1_000_000_000_000, "TB"),
    };
    two_places((bytes / (decimal / 200)).div_ceil(2), name, "")
}

fn two_places(hundredths: u128, unit: &str, between: &str) -> String {
    format!("{}.{:02}{between}{unit}", hundredths / 100, hundredths % 100)
}

/// Bytes of the array; `None` of a level without a capacity of its own, such as RAID-0.
#[must_use]
pub fn array_bytes(superblock: &Superblock) -> Option<u128> {
    let shape = superblock.shape;
    let members = u128::from(shape.members);
    let (near, far, _) = copies(shape.layout);
    let (data, copies) = match shape.level {
        1 => (1, 1),
        4 | 5 => (members.saturating_sub(1), 1),
        6 => (members.saturating_sub(2), 1),
        10 => (members, u128::from(near) * u128::from(far)),
        _ => (0, 1),
    };
    let bytes = u128::from(shape.size) * u128::from(SECTOR_BYTES_U64) * data;
    (data > 0 && copies > 0).then(|| bytes / copies)
}

/// Copies of RAID-10 by its layout: near ones, far ones, and whether the far ones are offset.
fn copies(layout: u32) -> (u32, u32, bool) {
    (layout & 0xff, layout >> 8 & 0xff, layout & 0x1_0000 != 0)
}

/// Free sectors before and behind the data. The second is that of a 64-bit subtraction: a device that is too small has many.
fn unused_space(member: &Member) -> (u64, u64) {
    let superblock = member.superblock();
    let device = &superblock.device;
    let is_whole_device = superblock.role() == RoleEntry::Journal || matches!(superblock.shape.level, -1 | 0);
    let used = if is_whole_device { device.data_size } else { superblock.shape.size };
    if device.super_offset > device.data_offset {
        return (device.data_offset, room_before_superblock(superblock, used));
    }
    let bitmap_end =
        superblock.bitmap_sector().filter(|sector| *sector > device.super_offset).map(|sector| {
            let bytes =
                member.bitmap.as_ref().and_then(|bitmap| bitmap.as_ref().ok()).map_or(0, |b| b.head.bytes());
            sector.saturating_add(bytes.div_ceil(4096) * 8)
        });
    let ends = [superblock.bad_block_place(), superblock.ppl_place()].into_iter().flatten();
    let ends = ends.map(|(start, sectors)| start.saturating_add(sectors));
    let earliest = device.super_offset.saturating_add(SUPERBLOCK_ROOM);
    let earliest = ends.chain(bitmap_end).fold(earliest, u64::max);
    let after = member.sectors.wrapping_sub(device.data_offset).wrapping_sub(used);
    (device.data_offset.saturating_sub(earliest), after)
}

/// Free sectors between the data and a superblock 1.0, which has its logs before it.
fn room_before_superblock(superblock: &Superblock, used: u64) -> u64 {
    let device = &superblock.device;
    let starts = [superblock.bitmap_sector(), superblock.bad_block_place().map(|(start, _)| start)];
    let starts = starts.into_iter().flatten().filter(|start| *start < device.super_offset);
    let end = starts.fold(device.super_offset, u64::min);
    end.saturating_sub(device.data_offset).saturating_sub(used)
}

/// Everything that mdadm prints of a member.
///
/// # Errors
/// When the text does not take it.
pub fn print(member: &Member, clock: Clock<'_>, text: &mut dyn Write) -> fmt::Result {
    writeln!(text, "{}:", member.name)?;
    print_array(member, clock, text)?;
    print_sizes(member, text)?;
    print_logs(member, text)?;
    print_state(member, clock, text)?;
    print_roles(member.superblock(), text)
}

fn print_array(member: &Member, clock: Clock<'_>, text: &mut dyn Write) -> fmt::Result {
    let superblock = member.superblock();
    writeln!(text, "          Magic : {:08x}", super::superblock::MAGIC)?;
    writeln!(text, "        Version : {}", member.version)?;
    writeln!(text, "    Feature Map : {:#x}", superblock.features)?;
    writeln!(text, "     Array UUID : {}", superblock.array.uuid)?;
    writeln!(text, "           Name : {}", superblock.name())?;
    writeln!(text, "  Creation Time : {}", clock(seconds(superblock.array.created)))?;
    writeln!(text, "     Raid Level : {}", names::level(superblock.shape.level).unwrap_or("-unknown-"))?;
    writeln!(text, "   Raid Devices : {}", superblock.shape.members)?;
    writeln!(text)
}

fn print_sizes(member: &Member, text: &mut dyn Write) -> fmt::Result {
    let superblock = member.superblock();
    let (shape, device) = (superblock.shape, &superblock.device);
    let sectors = |sectors: u64| {
        let bytes = u128::from(sectors) * u128::from(SECTOR_BYTES_U64);
        format!("{sectors} sectors{}", human_size(bytes))
    };
    writeln!(text, " Avail Dev Size : {}", sectors(device.data_size))?;
    if let Some(bytes) = array_bytes(superblock) {
        writeln!(text, "     Array Size : {} KiB{}", bytes >> 10, human_size(bytes))?;
    }
    if shape.level != 0 && shape.size != device.data_size {
        writeln!(text, "  Used Dev Size : {}", sectors(shape.size))?;
    }
    if device.data_offset != 0 {
        writeln!(text, "    Data Offset : {} sectors", device.data_offset)?;
    }
    let moves = superblock.has(feature::NEW_OFFSET);
    if moves && superblock.reshape.offset != 0 {
        let new = device.data_offset.wrapping_add_signed(i64::from(superblock.reshape.offset));
        writeln!(text, "     New Offset : {new} sectors")?;
    }
    writeln!(text, "   Super Offset : {} sectors", device.super_offset)?;
    if superblock.has(feature::RECOVERY_OFFSET) {
        writeln!(text, "Recovery Offset : {} sectors", device.recovery_offset)?;
    }
    if !moves {
        let (before, after) = unused_space(member);
        writeln!(text, "   Unused Space : before={before} sectors, after={after} sectors")?;
    }
    let state = if superblock.is_clean() { "clean" } else { "active" };
    writeln!(text, "          State : {state}")?;
    writeln!(text, "    Device UUID : {}", device.uuid)
}

fn print_logs(member: &Member, text: &mut dyn Write) -> fmt::Result {
    let superblock = member.superblock();
    writeln!(text)?;
    if superblock.has(feature::BITMAP) {
        let offset = i32::from_le_bytes(superblock.log.to_le_bytes());
        writeln!(text, "Internal Bitmap : {offset} sectors from superblock")?;
    }
    if superblock.features & (feature::PPL | feature::PPL_RING) != 0 {
        let word = superblock.log.to_le_bytes();
        let offset = i16::from_le_bytes([word[0], word[1]]);
        let sectors = u16::from_le_bytes([word[2], word[3]]);
        writeln!(text, "            PPL : {sectors} sectors at offset {offset} sectors from superblock")?;
    }
    if superblock.has(feature::RESHAPE) {
        print_reshape(superblock, text)?;
    }
    if superblock.device.flags != 0 {
        let flags = [(1, " write-mostly"), (2, " failfast")];
        let set = flags.iter().filter(|(bit, _)| superblock.device.flags & bit != 0);
        writeln!(text, "          Flags :{}", set.map(|(_, name)| *name).collect::<String>())?;
    }
    Ok(())
}

fn print_reshape(superblock: &Superblock, text: &mut dyn Write) -> fmt::Result {
    let (shape, reshape) = (superblock.shape, superblock.reshape);
    let bytes = u128::from(reshape.position) * u128::from(SECTOR_BYTES_U64);
    writeln!(text, "  Reshape pos'n : {}{}", reshape.position / 2, human_size(bytes))?;
    if reshape.delta != 0 {
        let before = i64::from(shape.members) - i64::from(reshape.delta);
        writeln!(text, "  Delta Devices : {} ({before}->{})", reshape.delta, shape.members)?;
    }
    let new_level = i32::from_le_bytes(reshape.level.to_le_bytes());
    if new_level != shape.level {
        writeln!(text, "      New Level : {}", names::level(new_level).unwrap_or("-unknown-"))?;
    }
    if reshape.layout != shape.layout && matches!(shape.level, 5 | 6) {
        let layout = names::layout(shape.level, reshape.layout).unwrap_or("-unknown-");
        writeln!(text, "     New Layout : {layout}")?;
    }
    if reshape.chunk != shape.chunk {
        writeln!(text, "  New Chunksize : {}K", reshape.chunk / 2)?;
    }
    writeln!(text)
}

fn print_state(member: &Member, clock: Clock<'_>, text: &mut dyn Write) -> fmt::Result {
    let superblock = member.superblock();
    writeln!(text, "    Update Time : {}", clock(seconds(superblock.state.updated)))?;
    let log = superblock.device.bad_blocks;
    if log.sectors != 0 && log.offset != 0 {
        let present = if superblock.has(feature::BAD_BLOCKS) { " - bad blocks present." } else { "" };
        let entries = u32::from(log.sectors) * 64;
        writeln!(
            text,
            "  Bad Block Log : {entries} entries available at offset {} sectors{present}",
            log.offset
        )?;
    }
    let reading = &member.reading;
    match reading.stored == reading.computed {
        true => writeln!(text, "       Checksum : {:x} - correct", reading.stored)?,
        false => writeln!(text, "       Checksum : {:x} - expected {:x}", reading.stored, reading.computed)?,
    }
    writeln!(text, "         Events : {}", superblock.state.events)?;
    writeln!(text)?;
    let shape = superblock.shape;
    if matches!(shape.level, 5 | 6) {
        let layout = names::layout(shape.level, shape.layout).unwrap_or("-unknown-");
        writeln!(text, "         Layout : {layout}")?;
    }
    if shape.level == 10 {
        let (near, far, is_offset) = copies(shape.layout);
        let kind = if is_offset { "offset" } else { "far" };
        let both = [("near", near), (kind, far)].into_iter().filter(|(_, copies)| *copies != 1);
        let both: Vec<String> = both.map(|(kind, copies)| format!("{kind}={copies}")).collect();
        writeln!(text, "         Layout : {}", both.join(", "))?;
    }
    if shape.level == -1 {
        writeln!(text, "       Rounding : {}K", shape.chunk / 2)?;
    }
    if matches!(shape.level, 0 | 4 | 5 | 6 | 10) {
        writeln!(text, "     Chunk Size : {}K", shape.chunk / 2)?;
    }
    writeln!(text)
}

fn print_roles(superblock: &Superblock, text: &mut dyn Write) -> fmt::Result {
    let role = match superblock.role() {
        RoleEntry::Journal => "Journal".to_owned(),
        RoleEntry::Faulty | RoleEntry::Spare => "spare".to_owned(),
        RoleEntry::Member(role) if superblock.has(feature::REPLACEMENT) => {
            format!("Replacement device {role}")
        }
        RoleEntry::Member(role) => format!("Active device {role}"),
    };
    writeln!(text, "   Device Role : {role}")?;
    let letters = array_state(superblock);
    writeln!(text, "   Array State : {letters} ('A' == active, '.' == missing, 'R' == replacing)")
}

/// Letter of each role: `A` active, `.` missing, `R` replacing.
#[must_use]
pub fn array_state(superblock: &Superblock) -> String {
    // No array has more members than there are roles: a wrong number gives a short line.
    let shrinks_by =
        if superblock.has(feature::RESHAPE) { superblock.reshape.delta.min(0).unsigned_abs() } else { 0 };
    let members = superblock.shape.members.saturating_add(shrinks_by).min(0x780);
    let letter = |role: u32| match superblock.roles.iter().filter(|entry| u32::from(**entry) == role).count()
    {
        0 => '.',
        1 => 'A',
        _ => 'R',
    };
    (0..members).map(letter).collect()
}

/// Lines of `mdadm --examine --brief` for an array whose members are given.
///
/// # Errors
/// When the text does not take it.
///
/// # Panics
/// When no member is given.
pub fn print_brief(members: &[&Member], text: &mut dyn Write) -> fmt::Result {
    let member = members.first().expect("an array has a member");
    let superblock = member.superblock();
    let name = superblock.name();
    let device = name.split_once(':').map_or(name.as_str(), |(_, name)| name);
    write!(text, "ARRAY ")?;
    if !name.is_empty() {
        write!(text, "/dev/md/{} ", device.replace([' ', '\t'], "_"))?;
    }
    write!(text, " metadata={} UUID={}", member.version, superblock.array.uuid)?;
    if name.contains([' ', '\t']) {
        let quote = if name.contains('"') { '\'' } else { '"' };
        write!(text, " name={quote}{name}{quote}")?;
    } else if !name.is_empty() {
        write!(text, " name={name}")?;
    }
    writeln!(text)?;
    let is_spare = |member: &&&Member| {
        !matches!(member.superblock().role(), RoleEntry::Member(_))
            || member.superblock().has(feature::REPLACEMENT)
    };
    match members.iter().filter(is_spare).count() {
        0 => Ok(()),
        spares => writeln!(text, "   spares={spares}"),
    }
}

/// Lines of `mdadm --examine --export` for a member.
///
/// # Errors
/// When the text does not take it.
pub fn print_export(member: &Member, text: &mut dyn Write) -> fmt::Result {
    let superblock = member.superblock();
    writeln!(text, "MD_LEVEL={}", names::level(superblock.shape.level).unwrap_or("-unknown-"))?;
    writeln!(text, "MD_DEVICES={}", superblock.shape.members)?;
    let name = superblock.name();
    let name = name.split(char::is_control).next().unwrap_or_default();
    if !name.is_empty() {
        writeln!(text, "MD_NAME={name}")?;
    }
    if let Some(bytes) = array_bytes(superblock) {
        writeln!(text, "MD_ARRAY_SIZE={}", brief_size(bytes))?;
    }
    writeln!(text, "MD_UUID={}", superblock.array.uuid)?;
    writeln!(text, "MD_UPDATE_TIME={}", seconds(superblock.state.updated))?;
    writeln!(text, "MD_DEV_UUID={}", Uuid(superblock.device.uuid.0))?;
    writeln!(text, "MD_EVENTS={}", superblock.state.events)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_mdadm() {
        assert_eq!(human_size(2304 << 10), "");
        assert_eq!(human_size(5 << 20), " (5.00 MiB 5.24 MB)");
        assert_eq!(human_size(6144 << 10), " (6.00 MiB 6.29 MB)");
        assert_eq!(human_size(3 << 30), " (3.00 GiB 3.22 GB)");
        assert_eq!(human_size(8 << 40), " (8.00 TiB 8.80 TB)");
        assert_eq!(brief_size(6144 << 10), "6.29MB");
    }
}
