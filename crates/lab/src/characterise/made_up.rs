//! Numbers that are made up: a drive on which everything that the papers say holds, so that tests can
//! change one thing and see a verdict fall.

use super::bench::{Bench, Drive};
use super::numbers::precise_bytes;
use super::published::Published;
use super::setting::{
    CLOSE, FIRST, Fill, Groups, LATER, Load, Managed, Mixed, OPEN, PROGRAMS_MAX, Resets, Setting, Summary,
    Which, Windows,
};
use super::{Report, Subject, finding::Finding, subjects};
use crate::workload::{ManageOp, Order, What};
use drive::timing::{Backing, HostStack, LbaFormat, Wear};
use zone::device::{Areas, Geometry};

const LIMIT_MIB_S: f64 = 1155.0;

/// The drive of the papers.
pub fn drive(name: &str) -> Drive {
    let geometry = Geometry {
        zones: 904,
        zone_size_blocks: 524_288,
        zone_capacity_blocks: 275_712,
        open_zones_max: 14,
        active_zones_max: 14,
        append_blocks_max: 256,
        transfer_blocks_max: 256,
        volatile_cache: false,
        areas: None,
    };
    let areas = Areas { zones_max: 14, window_blocks: 256, granule_blocks: 4, explicit_commit: true };
    Drive {
        name: name.to_owned(),
        geometry,
        zrwa_window_bytes: Some(1 << 20),
        areas: Some(areas),
        backing: Some(Backing::Slc),
    }
}

/// Returns the measurements of a setting.
pub fn answer(setting: &Setting) -> Vec<Summary> {
    match setting {
        Setting::Load(load) => vec![load_summary(load)],
        Setting::Windows(windows) => windows_summaries(windows),
        Setting::Managed(managed) => vec![latency(managed_us(managed))],
        Setting::Mixed(mixed) => mixed_summaries(mixed),
        Setting::Resets(resets) => resets_summaries(resets),
        Setting::Opening(opening) => {
            let mut parts = vec![latency(11.5); PROGRAMS_MAX];
            parts[OPEN] = latency(9.6);
            parts[CLOSE] = latency(11.0);
            parts[LATER] = latency(if opening.appends { 14.7 } else { 11.5 });
            parts[FIRST] = latency(parts[LATER].mean_us + if opening.explicit { 0.0 } else { 2.0 });
            parts
        }
    }
}

/// Counters in MiB: written into windows, absorbed, committed, programmed.
fn wear([window, absorbed, committed, programmed]: [u64; 4]) -> Wear {
    Wear {
        written_bytes: window << 20,
        window_bytes: window << 20,
        absorbed_bytes: absorbed << 20,
        committed_bytes: committed << 20,
        programmed_bytes: programmed << 20,
        ..Wear::default()
    }
}

fn windows_summaries(windows: &Windows) -> Vec<Summary> {
    let full = |wear: Wear| Summary { wear, is_full: true, ..Summary::default() };
    match windows {
        Windows::Commits { explicit: true } => {
            vec![latency(22.0), Summary { wear: wear([12, 0, 12, 12]), ..latency(6.8) }]
        }
        Windows::Commits { explicit: false } => {
            vec![latency(22.0), Summary { wear: wear([12, 0, 11, 11]), ..latency(0.0) }]
        }
        Windows::End { finish: true } => vec![Summary::default(), full(wear([32, 0, 32, 64]))],
        Windows::End { finish: false } => {
            let before = Summary { wear: wear([64, 0, 63, 63]), left_bytes: 1 << 20, ..Summary::default() };
            vec![before, full(wear([64, 0, 64, 64]))]
        }
    }
}

fn latency(us: f64) -> Summary {
    Summary { count: 1, mean_us: us, p50_us: us, p95_us: us, p9999_us: us, ..Summary::default() }
}

fn load_summary(load: &Load) -> Summary {
    let concurrency = f64::from(load.zones * load.depth);
    let mib = precise_bytes(load.bytes) / 1_048_576.0;
    let lone_us = lone_us(load) + load.pause_us;
    let groups = if load.groups == Groups::Different { 2.0 } else { 1.0 };
    let limit = LIMIT_MIB_S * groups / mib / 1000.0;
    let crowded = load.what == What::Append && load.depth == 4 && load.zones > 2 && load.bytes == 8192;
    let limit = if crowded { limit * 0.85 } else { limit };
    let busy_us = lone_us + 0.4 + 0.5 * (concurrency - 1.0);
    let kiops = (concurrency * 1000.0 / busy_us).min(processor_kiops(load)).min(limit);
    if let What::Area(Order::Again { .. }) = load.what {
        let wear = wear([1000, 999, 0, 0]);
        return Summary {
            mib_s: LIMIT_MIB_S,
            wear: Wear { backing_bytes: wear.window_bytes, ..wear },
            ..latency(50.0)
        };
    }
    // One request of 64 KiB is as much as a zone takes.
    let kiops = if load.what == What::Write && load.bytes == 65536 { limit } else { kiops };
    Summary { kiops, mib_s: kiops * 1000.0 * mib, ..latency(concurrency * 1000.0 / kiops - 0.4) }
}

fn lone_us(load: &Load) -> f64 {
    let stack = match load.stack {
        HostStack::Spdk => 0.0,
        HostStack::Kernel => 1.26,
        HostStack::MqDeadline => 3.11,
    };
    let small = load.lba_format == LbaFormat::Bytes512;
    let append = load.what == What::Append;
    let drive = match load.bytes {
        _ if load.what == What::ReadRandom => 72.6,
        _ if small => 25.0,
        4096 if append => 14.8,
        4096 => 11.4,
        8192 if append => 14.0,
        8192 => 11.3,
        16384 if append => 18.0,
        16384 => 13.5,
        _ => 22.0,
    };
    stack + drive + if small && append { 2.0 } else { 0.0 }
}

/// Returns the requests that the processor allows, in thousands per second.
fn processor_kiops(load: &Load) -> f64 {
    let depth = f64::from(load.depth);
    match load.what {
        What::ReadRandom if load.zones > 1 => 190.0,
        What::ReadRandom => 424.0,
        What::Append if load.bytes == 4096 => 132.0,
        What::Write if load.stack == HostStack::MqDeadline => match load.bytes {
            4096 => (60.0 * depth.powf(0.46)).min(293.0),
            _ => (40.0 * depth.powf(0.2)).min(LIMIT_MIB_S * 1024.0 / precise_bytes(load.bytes) * 0.97),
        },
        What::Write if load.bytes == 4096 => 186.0,
        _ => f64::INFINITY,
    }
}

fn managed_us(managed: &Managed) -> f64 {
    let share = match managed.fill {
        Fill::OneBlock => 0.000_01,
        fill => fill.percent() / 100.0,
    };
    match managed.op {
        ManageOp::Finish => 3000.0 + 904_000.0 * (1.0 - share),
        _ if managed.finished => 1600.0 + 13_700.0 * share,
        _ => 1600.0 + 13_700.0 * share + if share > 0.01 { 2000.0 } else { 0.0 },
    }
}

fn mixed_summaries(mixed: &Mixed) -> Vec<Summary> {
    let waves = |mean: f64| -> Vec<f64> {
        let share = if mixed.which == Which::Zoned { [1.0, 1.01] } else { [1.9, 0.1] };
        (0..60).map(|second| mean * share[second % 2]).collect()
    };
    let (read, write) = if mixed.which == Which::Zoned { (1.36, LIMIT_MIB_S) } else { (0.63, 630.0) };
    let us = if mixed.writers { 98_000.0 } else { 81.4 };
    let reader = Summary { mib_s: read, by_second: waves(read), ..latency(us) };
    vec![reader, Summary { mib_s: write, by_second: waves(write), ..latency(us) }]
}

fn resets_summaries(resets: &Resets) -> Vec<Summary> {
    let program = match resets.beside {
        Some(What::ReadRandom) => 72.6,
        Some(What::Append) => 14.8,
        _ => 11.4,
    };
    let slower = if resets.host_artefact && resets.beside.is_some() { 1.75 } else { 1.0 };
    vec![latency(program), latency(17_900.0 * slower)]
}

/// Judges one finding by answers that `change` has altered.
pub fn judge(subject: &Subject, drive: &Drive, change: &dyn Fn(&Setting, &mut [Summary])) -> Finding {
    let source = |setting: &Setting| {
        let mut summaries = answer(setting);
        change(setting, &mut summaries);
        Some(summaries)
    };
    subject.judge(drive, &Published::load(), &source)
}

/// A bench that answers with made-up numbers.
pub struct MadeUpBench(pub Drive);

impl Bench for MadeUpBench {
    fn drive(&self) -> &Drive {
        &self.0
    }

    fn measure(&self, setting: &Setting) -> Option<Vec<Summary>> {
        Some(answer(setting))
    }
}

/// A whole report.
pub fn report(name: &str) -> Report {
    let options = super::Options { seed: 7, quick: false, zone_map: None };
    super::run_on(&MadeUpBench(drive(name)), options, &|_, _, _| {})
}

/// The subject with this name.
pub fn subject(id: &str) -> Subject {
    subjects().into_iter().find(|subject| subject.id == id).expect("a subject of this name")
}
