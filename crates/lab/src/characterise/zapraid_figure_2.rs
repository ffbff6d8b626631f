//! Writes against appends over zones: figure 2 of the ZapRAID paper.

use super::finding::{Draft, Subject};
use super::numbers::{are_close, most, readable};
use super::plot::{Horizontal, Plot, Series, Shape};
use super::setting::Load;
use crate::workload::What;

const ZONES: [u32; 8] = [1, 2, 3, 4, 5, 6, 7, 8];
const APPEND_DEPTH: u32 = 4;

/// The figure.
pub const FIGURE_2: Subject = Subject {
    id: "zapraid-figure-2",
    title: "ZapRAID, figure 2: zone write against zone append",
    statement: "For small writes (4 and 8 KiB), appends achieve more than writes in a single zone, and writes more \
                than appends when more zones are open; for 16 KiB both are similar.",
    paper: "ZapRAID",
    find: figure_2,
};

/// Throughput by number of zones.
struct Curves {
    writes: Vec<f64>,
    appends: Vec<f64>,
}

fn mib_s(draft: &Draft, what: What, bytes: u64, zones: u32, depth: u32) -> Option<f64> {
    Some(draft.load(Load::new(what, bytes).zones(zones).depth(depth))?.mib_s)
}

fn curves(draft: &Draft, bytes: u64) -> Option<Curves> {
    let all = |what: What, depth: u32| -> Option<Vec<f64>> {
        ZONES.iter().map(|zones| mib_s(draft, what, bytes, *zones, depth)).collect()
    };
    Some(Curves { writes: all(What::Write, 1)?, appends: all(What::Append, APPEND_DEPTH)? })
}

fn figure_2(draft: &mut Draft) -> Option<()> {
    let [small, middle, large] = [curves(draft, 4096)?, curves(draft, 8192)?, curves(draft, 16384)?];
    let last = ZONES.len() - 1;
    draft.published("zapraid-write-4k-1", small.writes[0]);
    draft.published("zapraid-write-8k-1", middle.writes[0]);
    draft.published("zapraid-write-16k-1", large.writes[0]);
    draft.published("zapraid-append-4k-1", small.appends[0]);
    draft.published("zapraid-append-8k-1", middle.appends[0]);
    draft.published("zapraid-append-16k-1", large.appends[0]);
    draft.published("zapraid-write-4k-6", small.writes[5]);
    draft.published("zapraid-append-4k-2", most(small.appends.iter().copied()));
    draft.published("zapraid-write-8k-8", middle.writes[last]);
    draft.published("zapraid-append-8k-2", most(middle.appends.iter().copied()));
    draft.published("zapraid-write-16k-8", large.writes[last]);
    draft.published("zapraid-append-16k-8", large.appends[last]);
    let open_zones = draft.drive().geometry.open_zones_max;
    draft.published("zapraid-best-case", mib_s(draft, What::Write, 131_072, open_zones, 1)?);
    for (kib, found) in [(4, &small), (8, &middle)] {
        let figures = format!("{} against {} MiB/s", readable(found.appends[0]), readable(found.writes[0]));
        let single = found.appends[0] > 1.1 * found.writes[0];
        draft.check(format!("{kib} KiB, one zone: appends reach 10 % more or better: {figures}"), single);
        let figures =
            format!("{} against {} MiB/s", readable(found.writes[last]), readable(found.appends[last]));
        let many = found.writes[last] > 1.1 * found.appends[last];
        draft.check(format!("{kib} KiB, eight zones: writes reach 10 % more or better: {figures}"), many);
    }
    let similar =
        large.writes.iter().zip(&large.appends).all(|(write, append)| are_close(*write, *append, 0.1));
    draft.check("16 KiB: both within 10 % for every number of zones", similar);
    let mut deeper = Vec::new();
    for bytes in [4096, 8192] {
        deeper.push(mib_s(draft, What::Append, bytes, 1, 16)?);
    }
    let saturated = deeper[0] < 1.05 * small.appends[0] && deeper[1] < 1.05 * middle.appends[0];
    draft.check("more than four appends in flight in one zone gain nothing (5 %)", saturated);
    plots(draft, [&small, &middle, &large]);
    Some(())
}

fn plots(draft: &mut Draft, curves: [&Curves; 3]) {
    let titles = [
        (
            "zapraid-2a",
            "4-KiB requests",
            [(0, "write-4k-1"), (0, "append-4k-1"), (5, "write-4k-6"), (1, "append-4k-2")],
        ),
        (
            "zapraid-2b",
            "8-KiB requests",
            [(0, "write-8k-1"), (0, "append-8k-1"), (7, "write-8k-8"), (1, "append-8k-2")],
        ),
        (
            "zapraid-2c",
            "16-KiB requests",
            [(0, "write-16k-1"), (0, "append-16k-1"), (7, "write-16k-8"), (7, "append-16k-8")],
        ),
    ];
    for ((id, title, quoted), found) in titles.into_iter().zip(curves) {
        let quoted = quoted.map(|(place, id)| (f64::from(place), draft.quoted(&format!("zapraid-{id}"))));
        draft.plot(Plot {
            id,
            title,
            caption: "One write in flight per open zone, and four appends (figure 2 of ZapRAID).",
            x_title: "open zones",
            y_title: "throughput (MiB/s)",
            x: Horizontal::Names(ZONES.iter().map(u32::to_string).collect()),
            shape: Shape::Lines,
            series: vec![
                Series::by_name("zone write", found.writes.iter().map(|value| Some(*value))),
                Series::by_name("zone append, depth 4", found.appends.iter().map(|value| Some(*value))),
                Series::quoted(quoted),
            ],
        });
    }
}
