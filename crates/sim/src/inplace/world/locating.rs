//! Members that are wrong in single rows of RAID-6: a check names them.

use super::World;
use crate::world::Failure;
use array::inplace::scrub::ScrubState;
use base::random::Random;
use std::collections::BTreeMap;

impl World {
    /// A bit flips in one piece of each of some rows, data or parity, and back when a check has named the members. Nothing but the scrub meets it.
    pub(super) fn locate_rot(&mut self) -> Result<(), Failure> {
        if self.plan.level != 6 {
            return Ok(());
        }
        // A source of its own, so that others draw what they did.
        let mut random = Random::from_seed(self.plan.seed ^ self.events);
        let rows = self.plan.stripes * u64::from(self.plan.chunk) / 8;
        let wrong: BTreeMap<u64, (usize, u64)> = (0..1 + random.below(4))
            .map(|_| (random.below(rows), (random.index(self.disks.len()), random.below(8))))
            .collect();
        let flip = |(row, (member, sector)): (&u64, &(usize, u64))| {
            self.disks[*member].rot(self.data_offset + row * 8 + sector);
        };
        wrong.iter().for_each(flip);
        self.begin_scrub(false)?;
        self.turn()?;
        let is_running = |world: &mut World| {
            world.volume().engine.status().scrub.is_some_and(|scrub| scrub.state == ScrubState::Running)
        };
        while is_running(self) {
            self.step_once("the end of the scrub")?;
        }
        let scrub = self.volume().engine.status().scrub.expect("one was begun");
        self.look_at_scrub(u64::try_from(wrong.len()).expect("few") * 8)?;
        let mut expected = [0; 32];
        wrong.values().for_each(|(member, _)| expected[*member] += 8);
        if scrub.state == ScrubState::Done && scrub.located != expected {
            return Err(Failure::new(format!(
                "members of {wrong:?} are wrong, and the scrub says {:?}",
                scrub.located
            )));
        }
        let flip = |(row, (member, sector)): (&u64, &(usize, u64))| {
            self.disks[*member].rot(self.data_offset + row * 8 + sector);
        };
        wrong.iter().for_each(flip);
        Ok(())
    }
}
