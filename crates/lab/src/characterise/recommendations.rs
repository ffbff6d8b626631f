//! What follows from the observations: table I (insights) and the recommendations 1 to 5, each judged
//! from our own measurements.

use super::finding::{Draft, Subject};
use super::interference::{at_peak, fill_seconds};
use super::numbers::{least, most, percent_above, readable};
use super::reset::{nobody_disturbed, resets_p95_ms};
use super::setting::{Fill, Load, READER, WRITERS, Which};
use super::transitions::{finish, finishes_ms, reset, resets_ms};
use crate::workload::What;
use drive::timing::HostStack;

const PAPER: &str = "Zoned Namespaces";
const BYTES_4K: u64 = 4096;

const fn subject(
    id: &'static str,
    title: &'static str,
    statement: &'static str,
    find: fn(&mut Draft) -> Option<()>,
) -> Subject {
    Subject { id, title, statement, paper: PAPER, find }
}

/// Table I, then the recommendations of the text.
pub const ALL: [Subject; 10] = [
    subject(
        "insight-1",
        "Table I: append against write",
        "Write operations have up to 23 % lower latencies than append operations.",
        insight_1,
    ),
    subject("insight-2", "Table I: scalability", "Prefer intra-zone scalability.", insight_2),
    subject(
        "insight-3",
        "Table I: zone transitions",
        "Finish is the most expensive operation; it takes up to hundreds of milliseconds.",
        insight_3,
    ),
    subject(
        "insight-4",
        "Table I: I/O interference",
        "NVMe ZNS offers higher read throughput under concurrent I/O operations than NVMe (the table says three times).",
        insight_4,
    ),
    subject(
        "insight-5",
        "Table I: I/O and GC interference (the first half in the mode that imitates the published host)",
        "Reset latency increases by up to 78 % under concurrent I/O operations, but reset operations themselves have \
         no effect on append, read or write operations.",
        insight_5,
    ),
    subject(
        "recommendation-1",
        "Recommendation 1",
        "Use write instead of append operations for low latencies, and use SPDK.",
        recommendation_1,
    ),
    subject(
        "recommendation-2",
        "Recommendation 2",
        "Prefer intra-zone to inter-zone parallelism: the former is ideal for appends and reads, the latter best \
         suited for writes. Issue large requests (>= 8 KiB), since they scale better.",
        recommendation_2,
    ),
    subject(
        "recommendation-3",
        "Recommendation 3",
        "Avoid the finish operation (more so than a reset), especially for partially written zones.",
        recommendation_3,
    ),
    subject(
        "recommendation-4",
        "Recommendation 4",
        "Provision for the peak performance: there is no need to account for fluctuations because of garbage \
         collection.",
        recommendation_4,
    ),
    subject(
        "recommendation-5",
        "Recommendation 5",
        "Resets can be issued concurrently with reads, writes and appends: they do not affect their latency, and \
         they are rare.",
        recommendation_5,
    ),
];

/// Returns by how much the mean latency of 4-KiB writes is below that of appends of the same size, in per cent.
fn saved_percent(draft: &Draft) -> Option<f64> {
    let write = draft.load(Load::new(What::Write, BYTES_4K))?.mean_us;
    let append = draft.load(Load::new(What::Append, BYTES_4K))?.mean_us;
    Some(-percent_above(write, append))
}

fn insight_1(draft: &mut Draft) -> Option<()> {
    let saved = saved_percent(draft)?;
    draft.published("insight-1-saves", saved);
    draft.check("writes of 4 KiB take less than appends", saved > 0.0);
    Some(())
}

/// Throughput of one zone at a depth, and of as many zones with one request each.
fn both_ways(draft: &Draft, what: What, concurrency: u32) -> Option<[f64; 2]> {
    let load = Load::new(what, BYTES_4K);
    let inside = match what {
        What::Write => load.depth(concurrency).stack(HostStack::MqDeadline).resetting(),
        What::Append => load.depth(concurrency).resetting(),
        _ => load.depth(concurrency),
    };
    Some([draft.load(inside)?.kiops, draft.load(load.zones(concurrency))?.kiops])
}

fn insight_2(draft: &mut Draft) -> Option<()> {
    for (name, what, depth) in
        [("reads", What::ReadRandom, 128), ("writes (merged)", What::Write, 32), ("appends", What::Append, 8)]
    {
        let load = Load::new(what, BYTES_4K);
        let inside = match what {
            What::Write => load.depth(depth).stack(HostStack::MqDeadline).resetting(),
            What::Append => load.depth(depth).resetting(),
            _ => load.depth(depth),
        };
        let inside = draft.load(inside)?.kiops;
        let across = draft.load(load.zones(8))?.kiops;
        let figures = format!("{} against {} KIOPS", readable(inside), readable(across));
        draft.check(
            format!("{name}: one zone reaches at least as much as eight (5 %): {figures}"),
            inside > 0.95 * across,
        );
    }
    Some(())
}

fn insight_3(draft: &mut Draft) -> Option<()> {
    let most_ms = most(finishes_ms(draft)?);
    let reset_ms = most(resets_ms(draft, false)?);
    draft.ours("insight-3-finish", "longest mean of finishes", most_ms, "ms");
    draft.ours("insight-3-reset", "longest mean of resets", reset_ms, "ms");
    draft.check("finishing takes up to more than 100 ms", most_ms > 100.0);
    draft.check("nothing else takes as long: resets less than a tenth of it", reset_ms < most_ms / 10.0);
    Some(())
}

fn insight_4(draft: &mut Draft) -> Option<()> {
    let zoned = at_peak(draft, Which::Zoned, 32)?.swap_remove(READER).mib_s;
    let conventional = at_peak(draft, Which::Conventional, 32)?.swap_remove(READER).mib_s;
    draft.published("insight-4-reads", zoned / conventional);
    draft.check(
        "the zoned drive reads at least 1.5 times as much beside writes at the peak",
        zoned > 1.5 * conventional,
    );
    Some(())
}

fn insight_5(draft: &mut Draft) -> Option<()> {
    let host = resets_p95_ms(draft, true)?;
    let increase = percent_above(most(host), host[0]);
    draft.published("insight-5-increase", increase);
    draft.check("imitating the host, resets take up to 50 % longer or more", increase > 50.0);
    draft.check("reads, writes and appends take the same beside resets (5 %)", nobody_disturbed(draft)?);
    draft.note("The increase is an artefact of the published host; see observation 13.");
    Some(())
}

fn recommendation_1(draft: &mut Draft) -> Option<()> {
    let saved = saved_percent(draft)?;
    draft.published("recommendation-1-saves", saved);
    draft.check("writes of 4 KiB take less than appends", saved > 0.0);
    let mut latencies = Vec::new();
    for stack in [HostStack::Spdk, HostStack::Kernel, HostStack::MqDeadline] {
        latencies.push(draft.load(Load::new(What::Write, BYTES_4K).stack(stack))?.mean_us);
    }
    draft.check("writes take the least through SPDK", latencies[0] < least(latencies[1..].iter().copied()));
    Some(())
}

fn recommendation_2(draft: &mut Draft) -> Option<()> {
    for (name, what) in [("appends", What::Append), ("reads", What::ReadRandom)] {
        let [inside, across] = both_ways(draft, what, 8)?;
        let figures = format!("{} against {} KIOPS", readable(inside), readable(across));
        draft.check(
            format!("{name}: eight in one zone reach what one each in eight zones reaches (5 %): {figures}"),
            inside > 0.95 * across,
        );
    }
    let [inside, across] = both_ways(draft, What::Write, 8)?;
    let figures = format!("{} against {} KIOPS", readable(across), readable(inside));
    draft.check(
        format!("writes: eight zones reach more than eight merged in one: {figures}"),
        across > inside,
    );
    let limit = draft.load(Load::new(What::Write, 131_072).zones(8))?.mib_s;
    for (name, what) in [("writes", What::Write), ("appends", What::Append)] {
        let share = |bytes: u64| Some(draft.load(Load::new(what, bytes).zones(8))?.mib_s / limit * 100.0);
        let (small, large) = (share(BYTES_4K)?, share(2 * BYTES_4K)?);
        let figures = format!("{} % and {} % of the limit", readable(large), readable(small));
        draft.check(
            format!("{name} to eight zones: 8 KiB get further than 4 KiB: {figures}"),
            large > 1.1 * small,
        );
    }
    Some(())
}

fn recommendation_3(draft: &mut Draft) -> Option<()> {
    for fill in [Fill::OneBlock, Fill::Sixteenths(4), Fill::Sixteenths(8)] {
        let finish_ms = finish(draft, fill)?.mean_us / 1000.0;
        let reset_ms = reset(draft, fill, false)?.mean_us / 1000.0;
        let figures = format!("{} against {} ms", readable(finish_ms), readable(reset_ms));
        draft.check(
            format!(
                "{} written: finishing takes more than ten times as long as resetting: {figures}",
                fill.label()
            ),
            finish_ms > 10.0 * reset_ms,
        );
    }
    Some(())
}

fn recommendation_4(draft: &mut Draft) -> Option<()> {
    let found = at_peak(draft, Which::Zoned, 32)?;
    for (name, program, share) in [("writes", WRITERS, 0.05), ("reads", READER, 0.15)] {
        let varies = found[program].fluctuation();
        draft.ours(
            &format!("recommendation-4-{name}"),
            &format!("{name} at the peak vary by"),
            varies * 100.0,
            "percent",
        );
        draft.check(
            format!("{name} at the peak vary by less than {} % from second to second", share * 100.0),
            varies < share,
        );
    }
    let least_share = found[WRITERS].second_least() / found[WRITERS].mib_s;
    draft.check("no second has less than 90 % of the mean write throughput", least_share > 0.9);
    Some(())
}

fn recommendation_5(draft: &mut Draft) -> Option<()> {
    let interval = fill_seconds(draft)?;
    let reset_s = reset(draft, Fill::Full, false)?.mean_us / 1e6;
    draft.published("recommendation-5-interval", interval);
    draft.check("reads, writes and appends take the same beside resets (5 %)", nobody_disturbed(draft)?);
    let share = reset_s / interval * 100.0;
    draft.check(format!("resets take less than 5 % of the time: {} %", readable(share)), share < 5.0);
    Some(())
}
