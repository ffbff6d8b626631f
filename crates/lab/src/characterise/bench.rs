//! Where settings run: a modelled drive in virtual time.
//!
//! [`Bench`] is all that the rest of the characterisation knows of drives; a drive on the wall clock
//! is another implementation of it.

mod jobs;
mod target;
mod wall;
mod windows;

pub use wall::WallBench;

use super::numbers::precise;
use super::setting::{
    CLOSE, FIRST, Groups, LATER, Load, Managed, Mixed, OPEN, Opening, PROGRAMS_MAX, Resets, Setting, Summary,
    Which, Windows,
};
use crate::workload::timed::TimedTarget;
use crate::workload::{Job, Loop, Measured, Span, What, join};
use drive::timing::{Backing, LbaFormat, Model, ModelOptions, Profile, ZoneMap};
use jobs::{Facts, Length};
use target::{Counting, RandomPlaces, Sequence};
use zone::device::{Areas, Geometry};

/// Facts about a drive that are known without measuring.
#[derive(Clone, Debug)]
pub struct Drive {
    /// Name of the drive; published numbers are compared when they were measured on a drive of this name.
    pub name: String,
    /// Zones and limits of the drive.
    pub geometry: Geometry,
    /// Bytes of a zone's random write area.
    pub zrwa_window_bytes: Option<u64>,
    /// Random write areas of the drive.
    pub areas: Option<Areas>,
    /// Backing of their windows.
    pub backing: Option<Backing>,
}

/// Runs settings.
pub trait Bench: Sync {
    /// The drive that is characterised.
    fn drive(&self) -> &Drive;

    /// Returns one summary per program, or `None` when the drive cannot do this. Every call starts from a
    /// fresh drive, so that neither order nor parallel runs change a result.
    fn measure(&self, setting: &Setting) -> Option<Vec<Summary>>;
}

/// Settings on modelled drives.
#[derive(Clone, Debug)]
pub struct ModelBench {
    drive: Drive,
    profile: Profile,
    conventional: Option<Profile>,
    seed: u64,
    /// Shorter runs.
    quick: bool,
    /// Map of zones to channel groups, if not as the profile says.
    zone_map: Option<ZoneMap>,
}

impl ModelBench {
    /// A zoned drive, and perhaps one without zones to compare it with.
    #[must_use]
    pub fn new(profile: &Profile, conventional: Option<&Profile>, seed: u64, quick: bool) -> ModelBench {
        let drive = Drive {
            name: profile.name().to_owned(),
            geometry: profile.geometry(),
            zrwa_window_bytes: profile.zrwa_window_bytes(),
            areas: profile.geometry_with_areas().areas,
            backing: profile.zrwa_backing(),
        };
        ModelBench {
            drive,
            profile: profile.clone(),
            conventional: conventional.cloned(),
            seed,
            quick,
            zone_map: None,
        }
    }

    /// The same with zones on channel groups by this map; the profile's own without.
    #[must_use]
    pub fn with_zone_map(self, zone_map: Option<ZoneMap>) -> ModelBench {
        ModelBench { zone_map, ..self }
    }

    fn profile(&self, which: Which) -> Option<&Profile> {
        match which {
            Which::Zoned => Some(&self.profile).filter(|profile| profile.has_zones()),
            Which::Conventional => self.conventional.as_ref(),
        }
    }

    fn model(&self, profile: &Profile, lba_format: LbaFormat, fig7_host_artefact: bool) -> Model {
        Model::new(
            profile,
            ModelOptions { seed: self.seed, lba_format, fig7_host_artefact, zone_map: self.zone_map },
        )
    }

    fn with_facts<R>(&self, profile: &Profile, ask: impl FnOnce(&Facts) -> R) -> R {
        ask(&Facts {
            geometry: profile.geometry(),
            costs: &|stack| profile.stack(stack),
            has_area: profile.zrwa_window_bytes().is_some(),
            length: if self.quick { Length::Quick } else { Length::Full },
        })
    }

    fn load(&self, load: &Load) -> Option<Vec<Summary>> {
        let profile = self.profile(load.which)?;
        if matches!(load.what, What::Area(_)) && load.groups == Groups::Usual {
            return self.windows_load(profile, load);
        }
        let (jobs, span) = self.with_facts(profile, |facts| facts.load(load))?;
        let mut model = self.model(profile, load.lba_format, false);
        if load.groups != Groups::Usual {
            let groups = profile.channel_groups();
            if groups < 2 {
                return None;
            }
            for (place, job) in (0..).zip(&jobs) {
                let group = if load.groups == Groups::Same { 0 } else { place % groups };
                job.zones.iter().for_each(|zone| model.place_zone(*zone, group));
            }
        }
        let (measured, counting) = Loop::on(Counting::new(model), jobs, self.seed).run(span);
        let merged = 1.0 - precise(counting.commands) / precise(counting.requests(load.bytes)).max(1.0);
        Some(vec![Summary { merged: merged.max(0.0), ..Summary::of(&join(measured)) }])
    }

    /// Windows are written through a drive, which keeps to the rules; its zones are smaller, for it keeps what is written.
    fn windows_load(&self, profile: &Profile, load: &Load) -> Option<Vec<Summary>> {
        let geometry = windows::geometry(profile)?;
        let small = profile.with_geometry(&geometry);
        let (jobs, span) = self.with_facts(&small, |facts| facts.load(load))?;
        let target = self.timed(profile, geometry, load.lba_format)?;
        let (measured, target) = Loop::on(target, jobs, self.seed).run(span);
        if let Err(error) = target.check() {
            log::warn!("{load:?} is not measured: {error}");
            return None;
        }
        Some(vec![Summary { wear: target.wear(), ..Summary::of(&join(measured)) }])
    }

    fn timed(&self, profile: &Profile, geometry: Geometry, lba_format: LbaFormat) -> Option<TimedTarget> {
        let options =
            ModelOptions { seed: self.seed, lba_format, zone_map: self.zone_map, ..ModelOptions::default() };
        TimedTarget::new(profile, geometry, options).ok()
    }

    fn windows(&self, setting: &Windows) -> Option<Vec<Summary>> {
        let profile = self.profile(Which::Zoned)?;
        let geometry = windows::geometry(profile)?;
        let target = self.timed(profile, geometry, LbaFormat::Bytes4096)?;
        let found = windows::run(target, &geometry.areas?, setting);
        found.inspect_err(|error| log::warn!("{setting:?} is not measured: {error}")).ok()
    }

    fn managed(&self, managed: &Managed) -> Option<Vec<Summary>> {
        let profile = self.profile(Which::Zoned)?;
        let (job, span) = self.with_facts(profile, |facts| facts.managed(managed))?;
        let model = self.model(profile, LbaFormat::Bytes4096, false);
        Some(self.run(model, vec![job], span))
    }

    fn mixed(&self, mixed: &Mixed) -> Option<Vec<Summary>> {
        let profile = self.profile(mixed.which)?;
        let (jobs, span) = self.with_facts(profile, |facts| facts.mixed(mixed))?;
        let mut model = self.model(profile, LbaFormat::Bytes4096, false);
        if mixed.which == Which::Conventional && mixed.writers {
            // Full, overwritten at random until its collector is in its steady state.
            model.prefill_write_buffer();
        }
        let mut measured = match mixed.which {
            Which::Zoned => Loop::on(model, jobs, self.seed).run(span).0,
            Which::Conventional => Loop::on(RandomPlaces::new(model, self.seed), jobs, self.seed).run(span).0,
        };
        let reader = measured.pop()?;
        Some(vec![Summary::of(&reader), Summary::of(&join(measured))])
    }

    fn resets(&self, resets: &Resets) -> Option<Vec<Summary>> {
        let profile = self.profile(Which::Zoned)?;
        let (jobs, span) = self.with_facts(profile, |facts| facts.resets(resets))?;
        let model = self.model(profile, LbaFormat::Bytes4096, resets.host_artefact);
        let mut summaries = self.run(model, jobs, span);
        if resets.beside.is_none() {
            summaries.insert(0, Summary::default());
        }
        Some(summaries)
    }

    fn opening(&self, opening: &Opening) -> Option<Vec<Summary>> {
        let profile = self.profile(Which::Zoned)?;
        let costs = profile.stack(drive::timing::HostStack::Spdk)?;
        let zones = if self.quick { 300 } else { 3000 };
        let geometry = profile.geometry();
        let mut sequence = Sequence::new(self.model(profile, LbaFormat::Bytes4096, false), costs);
        let mut measured: Vec<Measured> = vec![Measured::default(); PROGRAMS_MAX];
        for round in 0..zones {
            let steps = sequence.zone(round % geometry.zones, opening)?;
            measured[OPEN].latencies_us.extend(steps.open_us);
            measured[FIRST].latencies_us.push(steps.first_us);
            measured[LATER].latencies_us.extend(steps.later_us);
            measured[CLOSE].latencies_us.push(steps.close_us);
        }
        for part in &mut measured {
            part.span_us = 1.0;
        }
        Some(measured.iter().map(Summary::of).collect())
    }

    fn run(&self, model: Model, jobs: Vec<Job>, span: Span) -> Vec<Summary> {
        Loop::on(model, jobs, self.seed).run(span).0.iter().map(Summary::of).collect()
    }
}

impl Bench for ModelBench {
    fn drive(&self) -> &Drive {
        &self.drive
    }

    fn measure(&self, setting: &Setting) -> Option<Vec<Summary>> {
        match setting {
            Setting::Load(load) => self.load(load),
            Setting::Managed(managed) => self.managed(managed),
            Setting::Mixed(mixed) => self.mixed(mixed),
            Setting::Resets(resets) => self.resets(resets),
            Setting::Opening(opening) => self.opening(opening),
            Setting::Windows(windows) => self.windows(windows),
        }
    }
}
