//! Windows of zones with a random write area: order, overwrites, commits, the end of a zone, and what is published.

use super::finding::{Draft, Subject};
use super::numbers::{are_close, precise_bytes, readable};
use super::setting::{Load, Setting, Summary, Windows};
use crate::workload::{Order, What};
use drive::timing::Backing;

const PAPER: &str = "ZRAID";
const MIB_TO_MB: f64 = 1.048_576;
/// Place of the writes, and of the state before the last command, in the answer to [`Setting::Windows`].
pub const BEFORE: usize = 0;
/// Place of the commits, and of the state after the last command.
pub const AFTER: usize = 1;

/// Writes in order and in any order.
pub const ORDER: Subject = Subject {
    id: "windows-order",
    title: "Windows: order of writes",
    statement: "Within a window writes in any order are as fast as writes in order, and cost the flash as much.",
    paper: PAPER,
    find: order,
};

/// Writes to the same blocks.
pub const OVERWRITE: Subject = Subject {
    id: "windows-overwrite",
    title: "Windows: overwrites",
    statement: "Overwrites in a window never reach the zone, at the speed of what backs the window.",
    paper: PAPER,
    find: overwrite,
};

/// Implicit and explicit commits.
pub const COMMITS: Subject = Subject {
    id: "windows-commits",
    title: "Windows: implicit and explicit commits",
    statement: "A write that commits implicitly takes no longer than another; an explicit commit is a short command.",
    paper: PAPER,
    find: commits,
};

/// The last window of a zone.
pub const END: Subject = Subject {
    id: "windows-end",
    title: "Windows: the end of a zone",
    statement: "The last window of a zone is only committed when told: by a commit, or by a finish, which programs what \
                the window holds.",
    paper: PAPER,
    find: end,
};

/// Figures of two drives.
pub const PUBLISHED: Subject = Subject {
    id: "zraid-windows",
    title: "ZRAID: windows of the ZN540 and the PM1731a",
    statement: "A window in flash is as fast as its zone, one in DRAM many times as fast; an explicit commit takes 6.8 us.",
    paper: PAPER,
    find: published,
};

fn order(draft: &mut Draft) -> Option<()> {
    let window_bytes = draft.drive().zrwa_window_bytes?;
    for kib in [4_u64, 16] {
        let load = |order: Order| Load::new(What::Area(order), kib * 1024).depth(8);
        let growing = draft.load(load(Order::Growing))?;
        let shuffled = draft.load(load(Order::Shuffled { window_bytes }))?;
        for (name, found) in [("growing", &growing), ("shuffled", &shuffled)] {
            let id = format!("windows-order-{kib}k-{name}");
            draft.ours(
                &id,
                &format!("{kib} KiB, {name} offsets, 8 in flight"),
                found.mib_s * MIB_TO_MB,
                "MB/s",
            );
            let once =
                found.wear.absorbed_bytes == 0 && found.wear.programmed_bytes <= found.wear.written_bytes;
            draft.check(format!("{kib} KiB, {name}: every byte is programmed once at most"), once);
        }
        let figures = format!("{} and {} MiB/s", readable(growing.mib_s), readable(shuffled.mib_s));
        let same = are_close(growing.mib_s, shuffled.mib_s, 0.05);
        draft.check(format!("{kib} KiB: any order is as fast (5 %): {figures}"), same);
    }
    Some(())
}

/// Overwrites in one window, and writes to a zone without one.
fn again_and_plain(draft: &Draft) -> Option<(Summary, Summary)> {
    let window_bytes = draft.drive().zrwa_window_bytes?;
    let again = draft.load(Load::new(What::Area(Order::Again { window_bytes }), 16384).depth(4))?;
    Some((again, draft.load(Load::new(What::Write, 65536))?))
}

fn overwrite(draft: &mut Draft) -> Option<()> {
    let backing = draft.drive().backing?;
    let (again, plain) = again_and_plain(draft)?;
    let (wear, ratio) = (again.wear, again.mib_s / plain.mib_s);
    let share = precise_bytes(wear.absorbed_bytes) / precise_bytes(wear.window_bytes.max(1));
    draft.ours("windows-overwrite-rate", "16 KiB anywhere in a window", again.mib_s * MIB_TO_MB, "MB/s");
    draft.ours("windows-absorbed", "absorbed, of what was written", share * 100.0, "%");
    draft.ours("windows-programmed", "programmed into zones", precise_bytes(wear.programmed_bytes), "bytes");
    let backed = precise_bytes(wear.backing_bytes) / precise_bytes(wear.written_bytes.max(1));
    draft.ours("windows-backing", "written to the flash that backs windows, per byte", backed, "bytes");
    draft.check("all but the first window full is absorbed", share > 0.9);
    draft.check("nothing is programmed into zones", wear.programmed_bytes == 0);
    let figures = format!("{} times the zone's rate", readable(ratio));
    match backing {
        Backing::Slc => {
            draft.check(
                format!("windows in flash are as fast as a zone (7 %): {figures}"),
                are_close(ratio, 1.0, 0.07),
            );
            draft.check("every write is one of that flash", wear.backing_bytes == wear.window_bytes);
        }
        Backing::Dram => {
            draft.check(format!("windows in DRAM are at least ten times as fast: {figures}"), ratio > 10.0);
            draft.check("no flash backs them", wear.backing_bytes == 0);
        }
    }
    Some(())
}

fn commits(draft: &mut Draft) -> Option<()> {
    let window_bytes = draft.drive().zrwa_window_bytes?;
    let explicit = draft.all(&Setting::Windows(Windows::Commits { explicit: true }))?;
    let implicit = draft.all(&Setting::Windows(Windows::Commits { explicit: false }))?;
    let write = draft.load(Load::new(What::Write, 4096))?.mean_us;
    let (with, without) = (explicit[BEFORE].mean_us, implicit[BEFORE].mean_us);
    let commit = explicit[AFTER].mean_us;
    draft.ours("windows-commit-implicit", "write that commits implicitly: mean latency", without, "us");
    draft.ours("windows-commit-write", "write before an explicit commit: mean latency", with, "us");
    draft.check("both writes take the same (5 %)", are_close(with, without, 0.05));
    draft.check(
        format!("an explicit commit is below a write of 4 KiB: {} us", readable(commit)),
        commit < write,
    );
    let held = [explicit[AFTER].wear.held_bytes(), implicit[AFTER].wear.held_bytes()];
    draft.check("explicit commits leave nothing in the window", held[0] == 0);
    draft.check("implicit ones leave a window full", held[1] == window_bytes);
    Some(())
}

fn end(draft: &mut Draft) -> Option<()> {
    let window_bytes = draft.drive().zrwa_window_bytes?;
    let committed = draft.all(&Setting::Windows(Windows::End { finish: false }))?;
    let finished = draft.all(&Setting::Windows(Windows::End { finish: true }))?;
    let (before, after) = (&committed[BEFORE], &committed[AFTER]);
    draft.ours(
        "windows-end-left",
        "not committed when all is written",
        precise_bytes(before.left_bytes),
        "bytes",
    );
    draft.check("a window is left when all of a zone is written", before.left_bytes == window_bytes);
    draft.check("and the zone is not full", !before.is_full && before.wear.held_bytes() == window_bytes);
    let all = after.wear.programmed_bytes == after.wear.written_bytes;
    draft.check("a commit to the capacity makes it full, and all of it is programmed", after.is_full && all);
    let wear = finished[AFTER].wear;
    draft.check("a finish makes a zone full", finished[AFTER].is_full && wear.held_bytes() == 0);
    let padded = wear.committed_bytes == wear.window_bytes && wear.programmed_bytes > wear.written_bytes;
    draft.check("it programs what the window holds, and padding", padded);
    let padding = wear.programmed_bytes.saturating_sub(wear.written_bytes);
    draft.ours(
        "windows-end-padding",
        "padding of a finish at half the zone",
        precise_bytes(padding),
        "bytes",
    );
    Some(())
}

fn published(draft: &mut Draft) -> Option<()> {
    let areas = draft.drive().areas?;
    let zones = draft.drive().geometry.zones;
    let commit = draft.one(&Setting::Windows(Windows::Commits { explicit: true }), AFTER)?.mean_us;
    let (again, plain) = again_and_plain(draft)?;
    let (window_kib, granule_kib) =
        (f64::from(areas.window_blocks) * 4.0, f64::from(areas.granule_blocks) * 4.0);
    let ratio = again.mib_s / plain.mib_s;
    for drive in ["zn540", "pm1731a"] {
        draft.published(&format!("zraid-{drive}-window"), window_kib);
        draft.published(&format!("zraid-{drive}-granule"), granule_kib);
        draft.published(&format!("zraid-{drive}-areas"), f64::from(areas.zones_max));
        draft.published(&format!("zraid-{drive}-ratio"), ratio);
    }
    draft.published("zraid-zn540-commit", commit);
    draft.published("zraid-pm1731a-zones", f64::from(zones));
    draft.published("zraid-pm1731a-rate", plain.mib_s * MIB_TO_MB);
    draft.check(format!("an explicit commit takes less than 10 us: {} us", readable(commit)), commit < 10.0);
    draft.check("a window is some granules", areas.window_blocks.is_multiple_of(areas.granule_blocks));
    draft.note(
        "Request sizes are not stated: windows are overwritten by 16 KiB, four in flight, and zones written by 64 KiB.",
    );
    Some(())
}
