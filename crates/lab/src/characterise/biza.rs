//! Channel groups and the random write area: the tables of the slides on BIZA.

use super::finding::{Draft, Subject};
use super::numbers::{are_close, precise_bytes, readable};
use super::plot::{Horizontal, Plot, Series, Shape};
use super::setting::{Groups, Load, Summary};
use crate::workload::{Order, What};
use drive::timing::HostStack;

const PAPER: &str = "BIZA";
/// Pause of the slides' host between two requests beyond io_uring with a polled submission queue:
/// inferred from 4-KiB writes (240 MB/s), and then right for 8 and 16 KiB as well.
const HOST_PAUSE_US: f64 = 4.0;
const MIB_TO_MB: f64 = 1.048_576;

/// Zones on the same channels or on others.
pub const ISOLATION: Subject = Subject {
    id: "biza-isolation",
    title: "BIZA: isolation of zones by I/O channel",
    statement: "Writing two zones on different I/O channels gives twice the bandwidth of two zones on the same one, \
                at the latency of one zone.",
    paper: PAPER,
    find: isolation,
};

/// Writes with and without the random write area.
pub const ZRWA: Subject = Subject {
    id: "biza-zrwa",
    title: "BIZA: the random write area",
    statement: "The random write area improves the throughput of 4 to 16-KiB writes to one zone, since several can be \
                in flight.",
    paper: PAPER,
    find: zrwa,
};

fn isolation(draft: &mut Draft) -> Option<()> {
    let load = Load::new(What::Write, 65536);
    let one = draft.load(load)?;
    let same = draft.load(load.zones(2).groups(Groups::Same))?;
    let other = draft.load(load.zones(2).groups(Groups::Different))?;
    for (name, found) in [("one", &one), ("same", &same), ("other", &other)] {
        draft.published(&format!("biza-{name}-rate"), found.mib_s * MIB_TO_MB);
        draft.published(&format!("biza-{name}-mean"), found.mean_us);
        draft.published(&format!("biza-{name}-p50"), found.p50_us);
        draft.published(&format!("biza-{name}-p9999"), found.p9999_us);
    }
    draft.check(
        "two zones of one group together reach what one reaches (5 %)",
        are_close(same.mib_s, one.mib_s, 0.05),
    );
    draft.check(
        "and each request takes twice as long (10 %)",
        are_close(same.mean_us, 2.0 * one.mean_us, 0.1),
    );
    draft.check(
        "two zones of two groups reach twice as much (10 %)",
        are_close(other.mib_s, 2.0 * one.mib_s, 0.1),
    );
    draft.check("and each request takes as long as alone (5 %)", are_close(other.mean_us, one.mean_us, 0.05));
    draft.note(
        "The slides state neither request size nor depth. 1,092 MB/s at a mean of 59 us are 64 KiB in flight (Little's \
         law), so one 64-KiB write per zone is measured here.",
    );
    plot_isolation(draft, [&one, &same, &other]);
    Some(())
}

fn plot_isolation(draft: &mut Draft, found: [&Summary; 3]) {
    let names =
        ["one zone", "two zones, same channel", "two zones, two channels"].map(str::to_owned).to_vec();
    let keys = ["one", "same", "other"];
    let quoted = |draft: &Draft, metric: &str| {
        let values = keys.map(|key| draft.quoted(&format!("biza-{key}-{metric}")));
        Series::quoted((0..).map(f64::from).zip(values))
    };
    let (rates, means) = (quoted(draft, "rate"), quoted(draft, "mean"));
    draft.plot(Plot {
        id: "biza-rate",
        title: "Channel isolation: bandwidth",
        caption: "One 64-KiB write in flight per zone (table of the slides).",
        x_title: "zones",
        y_title: "throughput (MB/s)",
        x: Horizontal::Names(names.clone()),
        shape: Shape::Bars,
        series: vec![Series::by_name("modelled drive", found.map(|one| Some(one.mib_s * MIB_TO_MB))), rates],
    });
    draft.plot(Plot {
        id: "biza-latency",
        title: "Channel isolation: mean latency",
        caption: "The same runs (table of the slides).",
        x_title: "zones",
        y_title: "mean latency (us)",
        x: Horizontal::Names(names),
        shape: Shape::Bars,
        series: vec![Series::by_name("modelled drive", found.map(|one| Some(one.mean_us))), means],
    });
}

fn zrwa(draft: &mut Draft) -> Option<()> {
    let geometry = draft.drive().geometry;
    let window_bytes = draft.drive().zrwa_window_bytes?;
    let window_mib = precise_bytes(window_bytes) / 1_048_576.0;
    draft.published("biza-window", window_mib);
    draft.published("biza-open-zones", f64::from(geometry.open_zones_max));
    draft.published("biza-all-windows", window_mib * f64::from(geometry.open_zones_max));
    draft.published("biza-capacity", f64::from(geometry.zone_capacity_blocks) / 256.0);
    let (mut plain, mut area) = (Vec::new(), Vec::new());
    for kib in [4_u64, 8, 16] {
        let bytes = kib * 1024;
        let kernel = |what: What| Load::new(what, bytes).stack(HostStack::Kernel).pause_us(HOST_PAUSE_US);
        let without = draft.load(kernel(What::Write))?.mib_s * MIB_TO_MB;
        let within = draft.load(kernel(What::Area(Order::Growing)).depth(8))?.mib_s * MIB_TO_MB;
        draft.published(&format!("biza-plain-{kib}k"), without);
        draft.published(&format!("biza-area-{kib}k"), within);
        let figures = format!("{} against {} MB/s", readable(within), readable(without));
        draft.check(
            format!("{kib} KiB: the area gives at least 1.3 times as much: {figures}"),
            within > 1.3 * without,
        );
        plain.push(without);
        area.push(within);
    }
    draft.note(
        "The slides give round numbers (\"about\") and no setup; writes go through the kernel here, one in flight \
         without the area and eight within. Their host is slower than the one of the characterisation: without the \
         area each write takes about 4 us more, whatever its size, as interrupts instead of polling would cost; \
         the 4 us are inferred from the 4-KiB figure and not known otherwise.",
    );
    plot_zrwa(draft, &plain, &area);
    Some(())
}

fn plot_zrwa(draft: &mut Draft, plain: &[f64], area: &[f64]) {
    let series = |name: &str, values: &[f64]| Series::by_name(name, values.iter().map(|value| Some(*value)));
    let quoted = |kind: &str| ["4k", "8k", "16k"].map(|size| draft.quoted(&format!("biza-{kind}-{size}")));
    let places = [-0.19, 0.81, 1.81, 0.19, 1.19, 2.19];
    let values = [quoted("plain"), quoted("area")].concat();
    draft.plot(Plot {
        id: "biza-zrwa",
        title: "Writes to one zone with and without the random write area",
        caption: "Through the kernel: one write in flight without the area, eight within (slide on the area).",
        x_title: "request size (KiB)",
        y_title: "throughput (MB/s)",
        x: Horizontal::Names(["4", "8", "16"].map(str::to_owned).to_vec()),
        shape: Shape::Bars,
        series: vec![
            series("without the area", plain),
            series("in the area", area),
            Series::quoted(places.into_iter().zip(values)),
        ],
    });
}
