//! Many commands at a time: observations 5 to 8, figures 4 and 8.

use super::finding::{Draft, Subject};
use super::numbers::{are_close, most, readable};
use super::plot::{Horizontal, Plot, Series, Shape};
use super::setting::{Load, Summary};
use crate::workload::What;
use drive::timing::HostStack;

const PAPER: &str = "Zoned Namespaces";
const BYTES_4K: u64 = 4096;
const DEPTHS: [u32; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
const ZONES: [u32; 5] = [1, 2, 4, 8, 14];
const LEVELS: [u32; 5] = [1, 2, 4, 8, 16];

/// Commands in one zone or in many.
pub const OBSERVATION_5: Subject = Subject {
    id: "observation-5",
    title: "Observation 5: one zone or many",
    statement: "Intra-zone parallelism achieves higher overall IOPS than inter-zone parallelism.",
    paper: PAPER,
    find: observation_5,
};

/// Appends in one zone or in many.
pub const OBSERVATION_6: Subject = Subject {
    id: "observation-6",
    title: "Observation 6: appends in one zone or many",
    statement: "The append throughput is agnostic to whether inter-zone or intra-zone requests are used.",
    paper: PAPER,
    find: observation_6,
};

/// Commands in one zone.
pub const OBSERVATION_7: Subject = Subject {
    id: "observation-7",
    title: "Observation 7: reads, writes and appends in one zone",
    statement: "In a single zone read operations scale the best (with queue depth), followed by write and append \
                operations.",
    paper: PAPER,
    find: observation_7,
};

/// Large requests.
pub const OBSERVATION_8: Subject = Subject {
    id: "observation-8",
    title: "Observation 8: large requests",
    statement: "For large (>= 8 KiB) requests, intra-zone appends and inter-zone writes reach the device limit and \
                scale in a similar manner.",
    paper: PAPER,
    find: observation_8,
};

/// The appendix.
pub const APPENDIX: Subject = Subject {
    id: "appendix",
    title: "Appendix: latency at higher queue depths",
    statement: "As the queue depth increases, latency and throughput increase; write latency increases more than \
                append latency up to a threshold, past which the trends are the same.",
    paper: PAPER,
    find: appendix,
};

/// Reads, appends and merged writes in one zone.
fn intra(what: What, bytes: u64, depth: u32) -> Load {
    let load = Load::new(what, bytes).depth(depth);
    match what {
        What::Write => load.stack(HostStack::MqDeadline).resetting(),
        What::Append => load.resetting(),
        _ => load,
    }
}

/// Returns the summary of one program at each depth.
fn by_depth(draft: &Draft, what: What, bytes: u64, depths: &[u32]) -> Option<Vec<Summary>> {
    depths.iter().map(|depth| draft.load(intra(what, bytes, *depth))).collect()
}

/// Returns the summary of one program per zone for each number of zones.
fn by_zones(draft: &Draft, what: What, bytes: u64) -> Option<Vec<Option<Summary>>> {
    let open_zones_max = draft.drive().geometry.open_zones_max;
    let found = ZONES.iter().map(|zones| {
        let possible = *zones <= open_zones_max;
        possible.then(|| draft.load(Load::new(what, bytes).zones(*zones)))
    });
    found.map(|summary| summary.map_or(Some(None), |summary| summary.map(Some))).collect()
}

fn kiops(summaries: &[Summary]) -> Vec<f64> {
    summaries.iter().map(|summary| summary.kiops).collect()
}

fn kiops_by_zones(summaries: &[Option<Summary>]) -> Vec<f64> {
    summaries.iter().flatten().map(|summary| summary.kiops).collect()
}

fn observation_5(draft: &mut Draft) -> Option<()> {
    draft.published("5-open-zones", f64::from(draft.drive().geometry.open_zones_max));
    for (name, what) in [("read", What::ReadRandom), ("write", What::Write)] {
        let inside = most(kiops(&by_depth(draft, what, BYTES_4K, &DEPTHS)?));
        let across = most(kiops_by_zones(&by_zones(draft, what, BYTES_4K)?));
        draft.ours(&format!("5-{name}-intra"), &format!("{name}s, most in one zone"), inside, "KIOPS");
        draft.ours(&format!("5-{name}-inter"), &format!("{name}s, most over zones"), across, "KIOPS");
        let figures = format!("{} against {} KIOPS", readable(inside), readable(across));
        draft.check(format!("{name}s reach more in one zone than over zones: {figures}"), inside > across);
    }
    draft.note(
        "As in the paper, writes in one zone go through the kernel with mq-deadline, which merges them; writes over \
         zones go through SPDK. In the published data all points with 14 zones are limited by the host, which had \
         fewer processors free; ours are not.",
    );
    Some(())
}

fn observation_6(draft: &mut Draft) -> Option<()> {
    let depths = &DEPTHS[..5];
    let inside = by_depth(draft, What::Append, BYTES_4K, depths)?;
    let across = by_zones(draft, What::Append, BYTES_4K)?;
    draft.published("6-append-intra", inside[2].kiops);
    if let Some(across) = &across[2] {
        draft.published("6-append-inter", across.kiops);
    }
    for ((level, inside), across) in depths.iter().zip(&inside).zip(&across) {
        let Some(across) = across else { continue };
        let figures = format!("{} and {} KIOPS", readable(inside.kiops), readable(across.kiops));
        let same = are_close(inside.kiops, across.kiops, 0.1);
        draft.check(format!("at concurrency {level} both reach the same within 10 %: {figures}"), same);
    }
    let later = most(kiops(&inside[3..]).into_iter().chain(kiops_by_zones(&across[3..])));
    draft.check("nothing is gained beyond concurrency 4 (5 %)", later <= inside[2].kiops * 1.05);
    draft.note("At the highest level, one zone has 16 appends in flight and 14 zones have one each.");
    Some(())
}

fn observation_7(draft: &mut Draft) -> Option<()> {
    let reads = kiops(&by_depth(draft, What::ReadRandom, BYTES_4K, &DEPTHS)?);
    let writes = by_depth(draft, What::Write, BYTES_4K, &DEPTHS)?;
    let appends = kiops(&by_depth(draft, What::Append, BYTES_4K, &DEPTHS)?);
    let across = by_zones(draft, What::Write, BYTES_4K)?;
    let merged = writes[4].merged * 100.0;
    let writes = kiops(&writes);
    draft.published("7-append", appends[2]);
    draft.published("7-write-mq-deadline", writes[5]);
    draft.published("7-read", reads[7]);
    draft.published("7-write-inter", most(kiops_by_zones(&across)));
    draft.published("7-merged", merged);
    let (read, write, append) =
        (most(reads.iter().copied()), most(writes.iter().copied()), most(appends.iter().copied()));
    draft.check("reads reach more than writes", read > write);
    draft.check("writes reach more than appends", write > append);
    let early = [1, 2].iter().all(|place: &usize| appends[*place] > writes[*place]);
    draft.check("at depths 2 and 4, appends are ahead of writes", early);
    let late = (3..DEPTHS.len()).all(|place| writes[place] > appends[place]);
    draft.check("from depth 8 on, writes are ahead of appends", late);
    draft.note(
        "The text says \"until a queue depth of 4\"; at depth 1 its own figure 2a has writes through mq-deadline \
         ahead of appends (14.47 against 14.83 us), so the rule begins at depth 2.",
    );
    plot_4a(draft, &reads, &writes, &appends);
    plot_4b(draft)
}

fn plot_4a(draft: &mut Draft, reads: &[f64], writes: &[f64], appends: &[f64]) {
    let series = |name: &str, values: &[f64]| Series::by_name(name, values.iter().map(|value| Some(*value)));
    let quoted = ["7-append", "7-write-mq-deadline", "7-read"].map(|id| draft.quoted(id));
    draft.plot(Plot {
        id: "4a",
        title: "One zone: 4-KiB requests by queue depth",
        caption: "Reads and appends through SPDK, writes through mq-deadline, which merges those that wait \
                  (figure 4a).",
        x_title: "requests in flight",
        y_title: "throughput (KIOPS)",
        x: Horizontal::Names(DEPTHS.iter().map(u32::to_string).collect()),
        shape: Shape::Lines,
        series: vec![
            series("read", reads),
            series("write, mq-deadline", writes),
            series("append", appends),
            Series::quoted([(2.0, quoted[0]), (5.0, quoted[1]), (7.0, quoted[2])]),
        ],
    });
}

fn plot_4b(draft: &mut Draft) -> Option<()> {
    let mut series = Vec::new();
    for (name, what) in [("read", What::ReadRandom), ("write", What::Write), ("append", What::Append)] {
        let found = by_zones(draft, what, BYTES_4K)?;
        series.push(Series::by_name(name, found.iter().map(|summary| Some(summary.as_ref()?.kiops))));
    }
    series
        .push(Series::quoted([(2.0, draft.quoted("6-append-inter")), (3.0, draft.quoted("7-write-inter"))]));
    draft.plot(Plot {
        id: "4b",
        title: "Several zones: 4-KiB requests, one in flight per zone",
        caption: "All through SPDK, one program per zone (figure 4b). The paper does not say at how many zones \
                  its 186 KIOPS are; the mark is at 8.",
        x_title: "zones",
        y_title: "throughput (KIOPS)",
        x: Horizontal::Names(ZONES.iter().map(u32::to_string).collect()),
        shape: Shape::Lines,
        series,
    });
    Some(())
}

/// Appends in one zone and writes over zones, by concurrency.
struct Bandwidths {
    appends: Vec<f64>,
    writes: Vec<Option<f64>>,
}

fn bandwidths(draft: &Draft, bytes: u64) -> Option<Bandwidths> {
    let appends = by_depth(draft, What::Append, bytes, &LEVELS)?;
    let writes = by_zones(draft, What::Write, bytes)?;
    Some(Bandwidths {
        appends: appends.iter().map(|summary| summary.mib_s).collect(),
        writes: writes.iter().map(|summary| Some(summary.as_ref()?.mib_s)).collect(),
    })
}

fn observation_8(draft: &mut Draft) -> Option<()> {
    let zones = draft.drive().geometry.open_zones_max.min(8);
    let limit = draft.load(Load::new(What::Write, 131_072).zones(zones))?.mib_s;
    draft.published("8-limit", limit / 1024.0);
    draft.ours("8-limit-mib", "most that the drive takes (128 KiB)", limit, "MiB/s");
    let mut series = Vec::new();
    for bytes in [BYTES_4K, 2 * BYTES_4K, 4 * BYTES_4K] {
        let found = bandwidths(draft, bytes)?;
        let kib = bytes / 1024;
        let writes = most(found.writes.iter().copied().flatten());
        let appends = most(found.appends.iter().copied());
        let figures = format!("writes {}, appends {} MiB/s", readable(writes), readable(appends));
        if bytes == BYTES_4K {
            draft.published("8-write-4k", writes);
            let below = most([writes, appends]) < 0.9 * limit;
            draft.check(format!("requests of 4 KiB stay below 90 % of the limit: {figures}"), below);
        } else {
            let soon = [
                most(found.writes[1..3].iter().copied().flatten()),
                most(found.appends[1..3].iter().copied()),
            ];
            let reached = soon.iter().all(|mib_s| *mib_s > 0.95 * limit);
            let rule = format!("requests of {kib} KiB are within 5 % of the limit at concurrency 2 to 4");
            draft.check(format!("{rule}: {figures}"), reached);
            draft.ours(&format!("8-write-{kib}k"), &format!("write {kib} KiB, most"), writes, "MiB/s");
            draft.ours(&format!("8-append-{kib}k"), &format!("append {kib} KiB, most"), appends, "MiB/s");
        }
        let appends = found.appends.into_iter().map(Some);
        series.push(Series::by_name(format!("append {kib} KiB, one zone"), appends));
        series.push(Series::by_name(format!("write {kib} KiB, zones"), found.writes));
    }
    let most_4k = most([1, 2, 8].iter().filter_map(|zones| depth_4(draft, *zones)));
    draft.published("8-append-loss", most_4k - depth_4(draft, 4)?);
    draft.plot(plot_4c(series));
    Some(())
}

/// Appends of 4 KiB, four in flight in each of several zones.
fn depth_4(draft: &Draft, zones: u32) -> Option<f64> {
    Some(draft.load(Load::new(What::Append, BYTES_4K).depth(4).zones(zones))?.mib_s)
}

fn plot_4c(series: Vec<Series>) -> Plot {
    Plot {
        id: "4c",
        title: "Bandwidth by request size and concurrency",
        caption: "Concurrency is the queue depth of appends in one zone and the number of zones of writes; the last \
                  point of writes is 14 zones (figure 4c).",
        x_title: "concurrency",
        y_title: "throughput (MiB/s)",
        x: Horizontal::Names(vec!["1", "2", "4", "8", "16 / 14"].into_iter().map(str::to_owned).collect()),
        shape: Shape::Lines,
        series,
    }
}

fn appendix(draft: &mut Draft) -> Option<()> {
    let depths = &DEPTHS[..7];
    for (id, kib) in [("8a", 4_u64), ("8b", 16), ("8c", 32)] {
        let writes = by_depth(draft, What::Write, kib * 1024, depths)?;
        let appends = by_depth(draft, What::Append, kib * 1024, depths)?;
        let rises = |found: &[Summary]| {
            found
                .windows(2)
                .all(|pair| pair[1].mean_us > pair[0].mean_us && pair[1].kiops > pair[0].kiops * 0.97)
        };
        draft.check(
            format!("{kib} KiB: latency rises with depth, and throughput does not fall (3 %)"),
            rises(&writes) && rises(&appends),
        );
        let figures = format!("{} against {} us", readable(writes[1].mean_us), readable(appends[1].mean_us));
        let above = writes[1].mean_us > appends[1].mean_us;
        draft.check(format!("{kib} KiB: at depth 2 a write takes longer than an append: {figures}"), above);
        draft.plot(plot_8(id, &writes, &appends));
    }
    draft.note(
        "From the measurements follow the two recommendations of the appendix: send appends at low depth (their \
         throughput stops growing at depth 4 while latency goes on), and prefer them to merged writes there.",
    );
    Some(())
}

fn plot_8(id: &'static str, writes: &[Summary], appends: &[Summary]) -> Plot {
    let points = |found: &[Summary]| found.iter().map(|summary| (summary.mib_s, summary.mean_us)).collect();
    let title = match id {
        "8a" => "Latency against throughput, 4 KiB",
        "8b" => "Latency against throughput, 16 KiB",
        _ => "Latency against throughput, 32 KiB",
    };
    Plot {
        id,
        title,
        caption: "One zone, depths 1 to 64: writes through mq-deadline, appends through SPDK (figure 8).",
        x_title: "throughput (MiB/s)",
        y_title: "mean latency (us)",
        x: Horizontal::Numbers,
        shape: Shape::Lines,
        series: vec![
            Series::by_number("write, mq-deadline", points(writes)),
            Series::by_number("append", points(appends)),
        ],
    }
}
