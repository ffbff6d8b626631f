//! Start of the engine: from what lies on the disks, judged by what was done to them.

use super::cores::Cores;
use super::judge::Judge;
use super::stage::Stage;
use crate::inplace::disk::DiskHandle;
use crate::world::Failure;
use array::inplace::start::{Tuning, members_of, start_recovered};
use array::inplace::volume::InPlaceVolume;
use array::pacer::Rates;
use base::random::Random;
use block::device::BlockDevice;
use block::devices::DeviceSet;
use block::md::Role;
use block::md::assembly::{Assembly, judge};
use block::md::member::Member;
use block::md::recovered::{Recovered, recover};
use std::collections::{BTreeMap, BTreeSet};

impl Stage {
    /// Disks by the roles that the array has them in.
    fn seat_members(
        &mut self,
        assembly: &Assembly<'_>,
        (members, alive): (&[Member], &[DiskHandle]),
    ) -> Result<DeviceSet, Failure> {
        let served = members_of(assembly).map_err(|error| Failure::new(error.to_string()))?;
        let mut devices: Vec<Option<Box<dyn BlockDevice>>> = self.disks.iter().map(|_| None).collect();
        let mut beside = BTreeMap::new();
        for (role, member) in served {
            let index = members.iter().position(|other| std::ptr::eq(other, member)).expect("one of them");
            if role.is_replacement() {
                beside.insert(role.of_member().index(), alive[index].clone());
                continue;
            }
            self.install(role.index(), alive[index].clone());
            devices[role.index()] = Some(Box::new(alive[index].clone()));
        }
        let journal = self.journal.disk().cloned();
        devices.extend(journal.map(|disk| Some(Box::new(disk) as Box<dyn BlockDevice>)));
        let mut devices = DeviceSet::new(devices);
        self.begin_replacements(beside, &mut devices);
        Ok(devices)
    }

    /// Clients have the engine from now on, alone or with shards beside it.
    fn serve(&mut self, mut volume: InPlaceVolume) {
        if let Some(rate) = self.plan.rate {
            volume.engine.core_mut().set_rates(Rates::asked_for(Some(rate)));
        }
        let mut cores =
            Cores::alone(volume, Random::from_seed(self.plan.seed ^ self.events), self.plan.latency);
        if self.plan.shards > 0 {
            let seated = self.seats(&cores);
            let tuning = Tuning { strip_frames: 2048, ..self.tuning() };
            cores.divide(&seated, self.plan.shards, &tuning, self.plan.unit_stripes);
        }
        self.volume = Some(cores);
    }

    /// Disks of members that are there, by seat.
    fn seats(&self, volume: &InPlaceVolume) -> Vec<(Role, DiskHandle)> {
        let role = array::inplace::members::role;
        let own = self.disks.iter().enumerate().map(|(index, disk)| (role(index), disk.clone()));
        let beside =
            self.replacements.by_role().map(|(index, disk)| (role(index).replacement(), disk.clone()));
        let seated = own.chain(beside).map(|(place, disk)| (volume.engine.core().seat(place), disk));
        seated.filter(|(seat, _)| volume.devices.geometry(*seat).is_some()).collect()
    }
}

impl Judge {
    /// Starts the engine; false when the array is refused, as promised.
    pub(super) fn start(&mut self) -> Result<bool, Failure> {
        self.stage.look_at_cut()?;
        let (members, alive) = self.stage.members_there()?;
        // Members that missed writes are believed when nobody is there that knows: as with mdadm.
        let is_lost = |role: usize| self.gone.contains(&role) || self.stage.disks[role].is_lost();
        if (0..self.stage.disks.len()).all(is_lost) {
            return Ok(false);
        }
        let mut arrays = judge(&members);
        let Some(mut assembly) = arrays.pop().filter(|_| arrays.is_empty()) else {
            return Ok(false);
        };
        self.force(&mut assembly);
        let missing: BTreeSet<usize> = assembly.missing.iter().map(|role| role.index()).collect();
        if let Some(role) = missing.difference(&self.gone).find(|role| !self.may_be_missing(**role)) {
            let said = assembly.in_words();
            return Err(Failure::new(format!("member {role} was not lost, and is not believed: {said}")));
        }
        self.look_at_superblocks(&assembly)?;
        let is_clean = assembly.superblock().is_clean();
        let is_volatile = self.stage.plan.is_volatile;
        let media: Vec<&DiskHandle> = alive.iter().collect();
        let recovered = match assembly.can_be_served() {
            true => recover(&assembly, &media).map_err(|error| Failure::new(error.to_string()))?,
            false => Recovered::default(),
        };
        self.tally.replays += u64::from(!recovered.pieces.is_empty());
        if self.stage.journal.may_be_lost() && !assembly.can_be_served() {
            self.tally.refusals += 1;
            return Ok(false);
        }
        let engine = match start_recovered(&assembly, recovered, |_| is_volatile, self.stage.tuning()) {
            Ok(engine) => engine,
            Err(error) => {
                let is_in_doubt =
                    !is_clean && (self.is_new || !self.stage.has_logs() || self.has_too_many_torn());
                let must_be =
                    !missing.is_empty() && (is_in_doubt || missing.len() > self.stage.plan.parities());
                self.tally.refusals += 1;
                let refused =
                    if must_be { Ok(false) } else { Err(Failure::new(format!("refused: {error}"))) };
                return refused;
            }
        };
        if !is_clean && !missing.is_empty() && !self.stage.has_logs() && !assembly.is_forced {
            return Err(Failure::new("a dirty array is served without a member"));
        }
        assert!(self.stage.volume.is_none(), "an engine is started beside another");
        assert!(missing.len() < self.stage.disks.len(), "an array is served by nobody: {missing:?}");
        self.stage.journal.begin(engine.status().events);
        let devices = self.stage.seat_members(&assembly, (&members, &alive))?;
        let spares = self.stage.spares_there(&assembly, &members, &alive);
        self.tally.resumed += u64::from(!engine.status().rebuilding.is_empty());
        self.is_new &=
            engine.core().is_resyncing() || !missing.is_empty() || !self.stage.is_said_by_all(&members);
        self.gone = missing;
        self.left.clear();
        self.has_scrub = false;
        self.begin_doubts(if self.stage.has_logs() { engine.core().is_resyncing() } else { !is_clean });
        self.tear(&self.gone.clone());
        self.begin_forced(&assembly);
        let mut volume = InPlaceVolume::new(engine, devices);
        spares.into_iter().for_each(|spare| volume.spares.push(spare));
        self.stage.serve(volume);
        self.tally.starts += 1;
        Ok(true)
    }

    fn begin_doubts(&mut self, is_dirty: bool) {
        let blocks = self.stage.plan.blocks();
        self.doubts.done = (0..blocks).map(|lba| self.oracle.done(lba)).collect();
        self.doubts.is_resyncing = is_dirty;
        self.doubts.all = false;
        let rows = self.stage.plan.stripes * u64::from(self.stage.plan.chunk) / 8;
        let mut spoiled = BTreeMap::new();
        for row in 0..rows {
            let sector = self.stage.data_offset + row * 8;
            let is_bad = |member: &usize| self.stage.disks[*member].is_blemished(sector..sector + 8);
            let bad: BTreeSet<usize> = (0..self.stage.disks.len()).filter(is_bad).collect();
            if !bad.is_empty() {
                spoiled.insert(row, bad);
            }
        }
        self.doubts.spoiled = spoiled;
        self.look_at_lists();
        if is_dirty {
            // A row that a crash left torn is not decoded for a member that lists it.
            for (row, members) in self.blemishes.listed() {
                self.doubts.spoiled.entry(*row).or_default().extend(members);
            }
            self.doubts.rows.extend(self.doubts.spoiled.keys());
        }
    }
}
