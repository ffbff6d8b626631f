//! One command at a time: observations 1 to 4, figures 2 and 3.

use super::finding::{Draft, Subject};
use super::numbers::{least, most, percent_above, readable};
use super::plot::{Horizontal, Plot, Series, Shape};
use super::setting::Load;
use crate::workload::What;
use drive::timing::{HostStack, LbaFormat};

const PAPER: &str = "Zoned Namespaces";
const KIB: u64 = 1024;
const SIZES_KIB: [u64; 6] = [4, 8, 16, 32, 64, 128];

/// A command through a stack, as figure 2 has them.
const PATHS: [(&str, What, HostStack); 4] = [
    ("write, SPDK", What::Write, HostStack::Spdk),
    ("write, kernel", What::Write, HostStack::Kernel),
    ("write, mq-deadline", What::Write, HostStack::MqDeadline),
    ("append, SPDK", What::Append, HostStack::Spdk),
];

/// The drive itself.
pub const TABLE_2: Subject = Subject {
    id: "table-2",
    title: "Table II: the drive",
    statement: "The drive has the zones and limits of the one that was measured.",
    paper: PAPER,
    find: table_2,
};

/// Block size of the namespace.
pub const OBSERVATION_1: Subject = Subject {
    id: "observation-1",
    title: "Observation 1: LBA format",
    statement: "The LBA format can have significant impact on both write and append latencies.",
    paper: PAPER,
    find: observation_1,
};

/// Stacks of the host.
pub const OBSERVATION_2: Subject = Subject {
    id: "observation-2",
    title: "Observation 2: storage stack",
    statement: "Using the SPDK storage stack results in the lowest latencies.",
    paper: PAPER,
    find: observation_2,
};

/// Sizes of requests.
pub const OBSERVATION_3: Subject = Subject {
    id: "observation-3",
    title: "Observation 3: request size",
    statement: "Write and append throughput depends on the request size.",
    paper: PAPER,
    find: observation_3,
};

/// Writes against appends.
pub const OBSERVATION_4: Subject = Subject {
    id: "observation-4",
    title: "Observation 4: write against append latency",
    statement: "Write operations have lower I/O latencies than append operations.",
    paper: PAPER,
    find: observation_4,
};

fn table_2(draft: &mut Draft) -> Option<()> {
    let geometry = draft.drive().geometry;
    let mib = |blocks: u32| f64::from(blocks) / 256.0;
    draft.published("table-2-zone-size", mib(geometry.zone_size_blocks));
    draft.published("table-2-zone-capacity", mib(geometry.zone_capacity_blocks));
    draft.published("table-2-zones", f64::from(geometry.zones));
    draft.published("table-2-active-zones", f64::from(geometry.active_zones_max));
    let holds = geometry.zone_capacity_blocks <= geometry.zone_size_blocks;
    draft.check("a zone holds at most its size", holds && geometry.zones > 0);
    let limited = geometry.open_zones_max <= geometry.active_zones_max;
    draft.check("no more zones can be open than active", limited);
    Some(())
}

/// Mean latency of single commands.
fn lone_us(draft: &Draft, path: (What, HostStack), bytes: u64, format: LbaFormat) -> Option<f64> {
    let (what, stack) = path;
    Some(draft.load(Load::new(what, bytes).stack(stack).format(format))?.mean_us)
}

fn observation_1(draft: &mut Draft) -> Option<()> {
    let (mut small, mut large) = (Vec::new(), Vec::new());
    for (_, what, stack) in PATHS {
        small.push(lone_us(draft, (what, stack), 512, LbaFormat::Bytes512)?);
        large.push(lone_us(draft, (what, stack), 4 * KIB, LbaFormat::Bytes4096)?);
    }
    let factors: Vec<f64> = small.iter().zip(&large).map(|(small, large)| small / large).collect();
    for ((name, ..), (small, large)) in PATHS.into_iter().zip(small.iter().zip(&large)) {
        draft.ours(&format!("1-{name}-512"), &format!("{name}: 512 B on 512-byte blocks"), *small, "us");
        draft.ours(&format!("1-{name}-4k"), &format!("{name}: 4 KiB on 4-KiB blocks"), *large, "us");
    }
    draft.published("1-largest-factor", most(factors.iter().copied()));
    draft.check(
        "with 512-byte blocks every stack and command takes at least 10 % longer than with 4-KiB blocks",
        least(factors.iter().copied()) >= 1.1,
    );
    draft.check("at least one takes 1.5 times as long", most(factors) >= 1.5);
    draft.plot(stacks_plot(
        "2a",
        "Latency by stack and LBA format",
        "Mean latency of single requests of one block: 512 B or 4 KiB (figure 2a).",
        &small,
        &large,
    ));
    Some(())
}

fn stacks_plot(
    id: &'static str,
    title: &'static str,
    caption: &'static str,
    small: &[f64],
    large: &[f64],
) -> Plot {
    let series = |name: &str, values: &[f64]| Series::by_name(name, values.iter().map(|value| Some(*value)));
    Plot {
        id,
        title,
        caption,
        x_title: "command and stack",
        y_title: "mean latency (us)",
        x: Horizontal::Names(PATHS.iter().map(|(name, ..)| (*name).to_owned()).collect()),
        shape: Shape::Bars,
        series: vec![series("512-byte blocks", small), series("4-KiB blocks", large)],
    }
}

fn observation_2(draft: &mut Draft) -> Option<()> {
    let us = |draft: &Draft, stack| lone_us(draft, (What::Write, stack), 4 * KIB, LbaFormat::Bytes4096);
    let spdk = us(draft, HostStack::Spdk)?;
    let kernel = us(draft, HostStack::Kernel)?;
    let scheduled = us(draft, HostStack::MqDeadline)?;
    draft.published("2-write-spdk", spdk);
    draft.published("2-write-kernel", kernel);
    draft.published("2-write-mq-deadline", scheduled);
    draft.published("2-spdk-saves", -percent_above(spdk, kernel));
    draft.published("2-scheduler-adds", scheduled - kernel);
    draft.published("2-scheduler-share", (scheduled - kernel) / scheduled * 100.0);
    draft.check("a write takes less through SPDK than through the kernel", spdk < kernel);
    draft.check("and less without mq-deadline than with it", kernel < scheduled);
    Some(())
}

/// Rates and latencies of single commands, by size.
struct BySize {
    kiops: Vec<f64>,
    mib_s: Vec<f64>,
    mean_us: Vec<f64>,
}

fn by_size(draft: &Draft, what: What) -> Option<BySize> {
    let mut found = BySize { kiops: Vec::new(), mib_s: Vec::new(), mean_us: Vec::new() };
    for size_kib in SIZES_KIB {
        let summary = draft.load(Load::new(what, size_kib * KIB))?;
        found.kiops.push(summary.kiops);
        found.mib_s.push(summary.mib_s);
        found.mean_us.push(summary.mean_us);
    }
    Some(found)
}

fn observation_3(draft: &mut Draft) -> Option<()> {
    let writes = by_size(draft, What::Write)?;
    let appends = by_size(draft, What::Append)?;
    draft.published("3-write-4k", writes.kiops[0]);
    draft.published("3-write-8k", writes.kiops[1]);
    draft.published("3-append-4k", appends.kiops[0]);
    draft.published("3-append-8k", appends.kiops[1]);
    for (name, found) in [("write", &writes), ("append", &appends)] {
        for (size, mib_s) in SIZES_KIB.iter().zip(&found.mib_s) {
            draft.ours(&format!("3-{name}-{size}k-rate"), &format!("{name} {size} KiB"), *mib_s, "MiB/s");
        }
        let small = most(found.mib_s[..3].iter().copied());
        let large = least(found.mib_s[3..].iter().copied());
        draft.check(format!("{name}s of 32 KiB and more move more bytes per second"), large > small);
    }
    let most_writes = most(writes.kiops[2..].iter().copied());
    let small_writes = least(writes.kiops[..2].iter().copied());
    draft.check("most writes per second are reached with 4 and 8 KiB", small_writes > most_writes);
    let best_append = most(appends.kiops.iter().copied());
    draft.check(
        "most appends per second are reached with 8 KiB, more than with 4 KiB",
        appends.kiops[1] >= best_append && appends.kiops[1] > appends.kiops[0],
    );
    let quoted = ["3-write-4k", "3-write-8k"].map(|id| draft.quoted(id));
    draft.plot(sizes_plot("3a", "Writes by request size (SPDK, depth 1)", &writes, quoted));
    let quoted = ["3-append-4k", "3-append-8k"].map(|id| draft.quoted(id));
    draft.plot(sizes_plot("3b", "Appends by request size (SPDK, depth 1)", &appends, quoted));
    Some(())
}

fn sizes_plot(id: &'static str, title: &'static str, found: &BySize, quoted: [Option<f64>; 2]) -> Plot {
    Plot {
        id,
        title,
        caption: "Requests per second of one program with one request in flight (figure 3).",
        x_title: "request size (KiB)",
        y_title: "throughput (KIOPS)",
        x: Horizontal::Names(SIZES_KIB.iter().map(u64::to_string).collect()),
        shape: Shape::Bars,
        series: vec![
            Series::by_name("modelled drive", found.kiops.iter().map(|kiops| Some(*kiops))),
            Series::quoted([(0.0, quoted[0]), (1.0, quoted[1])]),
        ],
    }
}

fn observation_4(draft: &mut Draft) -> Option<()> {
    let writes = by_size(draft, What::Write)?;
    let appends = by_size(draft, What::Append)?;
    draft.published("4-write", writes.mean_us[0]);
    draft.published("4-append", appends.mean_us[1]);
    draft.published("4-difference", appends.mean_us[0] - writes.mean_us[0]);
    draft.published("4-difference-share", -percent_above(writes.mean_us[0], appends.mean_us[0]));
    let limit_mib_s = most(writes.mib_s.iter().chain(&appends.mib_s).copied());
    for (place, size) in SIZES_KIB.into_iter().enumerate() {
        let (write, append) = (writes.mean_us[place], appends.mean_us[place]);
        draft.ours(&format!("4-write-{size}k"), &format!("write {size} KiB"), write, "us");
        draft.ours(&format!("4-append-{size}k"), &format!("append {size} KiB"), append, "us");
        // Where single writes fill the drive, both wait for flash and neither can be faster.
        let at_limit = writes.mib_s[place] > 0.95 * limit_mib_s;
        let (rule, holds) = match at_limit {
            true => ("no longer (within 2 %), both at the limit of the flash", write < append * 1.02),
            false => ("less", write < append),
        };
        let figures = format!("{} against {} us", readable(write), readable(append));
        draft.check(format!("a write of {size} KiB takes {rule}: {figures}"), holds);
    }
    let mut latencies: [Vec<f64>; 2] = [Vec::new(), Vec::new()];
    for (values, format) in latencies.iter_mut().zip([LbaFormat::Bytes512, LbaFormat::Bytes4096]) {
        for (_, what, stack) in PATHS {
            values.push(lone_us(draft, (what, stack), 8 * KIB, format)?);
        }
    }
    let lower = latencies.iter().all(|values| values[0] < values[3]);
    draft.check("through SPDK, writes of 8 KiB take less than appends with either LBA format", lower);
    draft.note(
        "Figure 2b is captioned \"4 KiB for writes, 8 KiB for appends\"; the published notebook plots 8 KiB for \
         all bars, and so do we.",
    );
    let [small, large] = latencies;
    draft.plot(stacks_plot(
        "2b",
        "Latency of 8-KiB requests by stack",
        "Mean latency of single requests of 8 KiB (figure 2b).",
        &small,
        &large,
    ));
    Some(())
}
