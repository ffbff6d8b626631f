//! Settings on a drive on the wall clock, one at a time.
//!
//! What such a drive cannot be asked (another block size, host stacks that lie outside of it, channel groups of
//! our choice, the random write area, a conventional drive beside it) is not measured.

use super::jobs::{Facts, Length};
use super::{Bench, Drive};
use crate::characterise::setting::{Groups, Load, Setting, Summary, Which};
use crate::workload::wall::{NO_COSTS, WallTarget};
use crate::workload::{Job, Loop, Span, Target, What, join};
use base::units::BLOCK_BYTES_U64;
use drive::timing::{HostStack, LbaFormat, ZoneCondition};
use std::collections::BTreeSet;
use std::sync::Mutex;
use zone::device::ZonedDevice;

/// Zones at the end of the drive that are filled once and only read.
const ZONES_READ: u32 = 2;
/// Zones that management commands go to in turn.
const ZONES_MANAGED: usize = 4;

/// A drive on the wall clock.
pub struct WallBench {
    drive: Drive,
    state: Mutex<State>,
}

struct State {
    /// Away while a run has it.
    target: Option<WallTarget>,
    filled: BTreeSet<u32>,
}

impl WallBench {
    /// Measures this drive; what it holds is lost.
    #[must_use]
    pub fn new(device: Box<dyn ZonedDevice>, name: &str) -> WallBench {
        let target = WallTarget::new(device);
        let geometry = target.geometry();
        WallBench {
            drive: Drive {
                name: name.to_owned(),
                geometry,
                zrwa_window_bytes: None,
                areas: None,
                backing: None,
            },
            state: Mutex::new(State { target: Some(target), filled: BTreeSet::new() }),
        }
    }

    fn jobs(&self, setting: &Setting) -> Option<(Vec<Job>, Span)> {
        let facts = Facts {
            geometry: self.drive.geometry,
            costs: &|stack| (stack == HostStack::Spdk).then_some(NO_COSTS),
            has_area: false,
            length: Length::Wall,
        };
        match setting {
            Setting::Load(load) if is_possible(load) => facts.load(load),
            Setting::Managed(managed) => facts.managed(managed).map(|(job, span)| (vec![job], span)),
            Setting::Mixed(mixed) if mixed.which == Which::Zoned => facts.mixed(mixed),
            Setting::Resets(resets) if !resets.host_artefact => facts.resets(resets),
            Setting::Load(_)
            | Setting::Mixed(_)
            | Setting::Resets(_)
            | Setting::Opening(_)
            | Setting::Windows(_) => None,
        }
    }

    /// The drive's limits, and zones apart for what is read.
    fn fit(&self, jobs: &mut [Job]) -> Option<()> {
        let geometry = self.drive.geometry;
        let limit = u64::from(geometry.transfer_blocks_max.min(geometry.append_blocks_max)) * BLOCK_BYTES_U64;
        let last = geometry.zones.checked_sub(ZONES_READ)?;
        for job in jobs {
            job.bytes = job.bytes.min(limit);
            match job.what {
                What::ReadRandom | What::ReadSequential => job.zones = (last..geometry.zones).collect(),
                _ => {
                    job.zones.retain(|zone| *zone < last);
                    if matches!(job.what, What::Manage(_)) {
                        // Each stays active until its next turn.
                        job.zones.truncate(ZONES_MANAGED);
                    }
                    job.resets = true;
                }
            }
            if job.zones.is_empty() {
                return None;
            }
        }
        Some(())
    }
}

/// Returns true when a drive itself can be asked for the load.
fn is_possible(load: &Load) -> bool {
    let too_deep = load.what == What::Write && load.depth > 1;
    load.which == Which::Zoned
        && load.lba_format == LbaFormat::Bytes4096
        && load.groups == Groups::Usual
        && load.pause_us == 0.0
        && !too_deep
}

impl State {
    fn prepare(&mut self, jobs: &[Job]) {
        let Some(target) = &mut self.target else { return };
        let capacity = target.zone_capacity_bytes();
        for job in jobs {
            match job.what {
                What::ReadRandom | What::ReadSequential => {
                    for zone in job.zones.iter().filter(|zone| self.filled.insert(**zone)) {
                        target.preset_zone(*zone, capacity, ZoneCondition::Written);
                    }
                }
                What::Manage(_) => {}
                _ => job.zones.iter().for_each(|zone| target.preset_zone(*zone, 0, ZoneCondition::Empty)),
            }
        }
    }
}

impl Bench for WallBench {
    fn drive(&self) -> &Drive {
        &self.drive
    }

    /// Measures one setting at a time, whoever asks; `None` also when the drive refused something.
    fn measure(&self, setting: &Setting) -> Option<Vec<Summary>> {
        let (mut jobs, span) = self.jobs(setting)?;
        self.fit(&mut jobs)?;
        let mut state = self.state.lock().expect("no thread panics with the lock");
        state.prepare(&jobs);
        let target = state.target.take()?;
        let zones: BTreeSet<u32> = jobs.iter().flat_map(|job| &job.zones).copied().collect();
        let is_mixed = matches!(setting, Setting::Mixed(_));
        let is_load = matches!(setting, Setting::Load(_));
        let alone = matches!(setting, Setting::Resets(resets) if resets.beside.is_none());
        let (mut measured, mut target) = Loop::on(target, jobs, 1).run(span);
        target.settle();
        let refused = target.take_failure();
        for zone in zones.iter().filter(|zone| !state.filled.contains(zone)) {
            target.preset_zone(*zone, 0, ZoneCondition::Empty);
        }
        state.target = Some(target);
        if let Err(error) = refused {
            log::warn!("{setting:?} is not measured: {error}");
            return None;
        }
        if is_load {
            return Some(vec![Summary::of(&join(measured))]);
        }
        if is_mixed {
            let reader = measured.pop()?;
            return Some(vec![Summary::of(&reader), Summary::of(&join(measured))]);
        }
        let mut summaries: Vec<Summary> = measured.iter().map(Summary::of).collect();
        if alone {
            summaries.insert(0, Summary::default());
        }
        Some(summaries)
    }
}
