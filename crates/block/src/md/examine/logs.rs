//! Bitmap and bad-block log of a member in the words of `mdadm --examine-bitmap` and `--examine-badblocks`.

use super::human_size;
use crate::md::bitmap::{self, Head, state};
use crate::md::member::{Bitmap, Member};
use std::fmt::{self, Write};

/// Size of a region in mdadm's words.
fn region_size(bytes: u32) -> String {
    let units = [(30, "GB"), (20, "MB"), (10, "KB")];
    let unit = units.into_iter().find(|(shift, _)| bytes >> shift > 0);
    unit.map_or_else(|| format!("{bytes} B"), |(shift, name)| format!("{} {name}", bytes >> shift))
}

fn state_in_words(head: &Head) -> &'static str {
    match head.state {
        0 => "OK",
        state::STALE => "Out of date",
        _ => "Unknown",
    }
}

/// Everything that mdadm prints of the bitmap of a member; false of one that has none that can be read.
///
/// # Errors
/// When the text does not take it.
pub fn print_bitmap(member: &Member, text: &mut dyn Write) -> Result<bool, fmt::Error> {
    let Some(Ok(Bitmap { head, bits })) = &member.bitmap else { return Ok(false) };
    writeln!(text, "        Filename : {}", member.name)?;
    writeln!(text, "           Magic : {:08x}", bitmap::MAGIC)?;
    writeln!(text, "         Version : {}", bitmap::VERSION)?;
    writeln!(text, "            UUID : {}", head.array)?;
    writeln!(text, "          Events : {}", head.events)?;
    writeln!(text, "  Events Cleared : {}", head.events_cleared)?;
    writeln!(text, "           State : {}", state_in_words(head))?;
    writeln!(text, "       Chunksize : {}", region_size(head.chunk))?;
    writeln!(text, "          Daemon : {}s flush period", head.daemon_sleep)?;
    match head.write_behind {
        0 => writeln!(text, "      Write Mode : Normal")?,
        most => writeln!(text, "      Write Mode : Allow write behind, max {most}")?,
    }
    let sectors = head.sync_size;
    writeln!(text, "       Sync Size : {}{}", sectors / 2, human_size(u128::from(sectors) * 512))?;
    let (regions, set) = (u128::from(bits.regions()), bits.set().fold(0_u128, |set, _| set + 1));
    // In tenths of a percent, ties to even, as a number of C is printed.
    let tenths = percent_tenths(set, regions);
    writeln!(
        text,
        "          Bitmap : {regions} bits (chunks), {set} dirty ({}.{}%)",
        tenths / 10,
        tenths % 10
    )?;
    Ok(true)
}

/// Share in tenths of a percent, rounded as C does; a share of nothing is none.
fn percent_tenths(part: u128, whole: u128) -> u128 {
    let Some(tenths) = (part * 1000).checked_div(whole) else { return 0 };
    let twice = part * 2000 % (2 * whole);
    tenths + u128::from(twice > whole || (twice == whole && tenths % 2 == 1))
}

/// Everything that mdadm prints of the bad-block log of a member.
///
/// # Errors
/// When the text does not take it.
pub fn print_bad_blocks(member: &Member, text: &mut dyn Write) -> fmt::Result {
    let name = &member.name;
    let has_log = member.superblock().bad_block_place().is_some();
    match &member.bad_blocks {
        _ if !has_log => writeln!(text, "No bad-blocks list configured on {name}"),
        Err(reason) => writeln!(text, "Bad-blocks list of {name} cannot be read: {reason}"),
        Ok(entries) if entries.is_empty() => writeln!(text, "Bad-blocks list is empty in {name}"),
        Ok(entries) => {
            writeln!(text, "Bad-blocks on {name}:")?;
            entries.iter().try_for_each(|entry| {
                let (sector, sectors) = (entry.sector, entry.sectors);
                writeln!(text, "{sector:>20} for {sectors} sectors")
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_shares_are_mdadm_s() {
        let sizes = [512, 4096, 65536, 1 << 20, 3 << 20, 1 << 30].map(region_size);
        assert_eq!(sizes, ["512 B", "4 KB", "64 KB", "1 MB", "3 MB", "1 GB"]);
        // As `mdadm -X` printed them: 18.8, 29.4, 91.9, 99.4, 46.8, 100.0 and 0.0 percent.
        let shares = [(6, 32), (5, 17), (294, 320), (4070, 4096), (30694, 65536), (32, 32), (0, 2)];
        let shares = shares.map(|(part, whole)| percent_tenths(part, whole));
        assert_eq!(shares, [188, 294, 919, 994, 468, 1000, 0]);
        assert_eq!(percent_tenths(0, 0), 0);
    }
}
