//! Members that are wrong in single rows of RAID-6: a check names them.

use super::InPlaceWorld;
use crate::world::Failure;
use array::inplace::scrub::ScrubState;
use base::random::Random;
use std::collections::BTreeMap;

impl InPlaceWorld {
    /// A bit flips in one piece of each of some rows, data or parity, and back when a check has named the members. Nothing but the scrub meets it.
    pub(super) fn locate_rot(&mut self) -> Result<(), Failure> {
        if self.life.judge.stage.plan.level != 6 {
            return Ok(());
        }
        // A source of its own, so that others draw what they did.
        let mut random = Random::from_seed(self.life.judge.stage.plan.seed ^ self.life.judge.stage.events);
        let rows = self.life.judge.stage.plan.stripes * u64::from(self.life.judge.stage.plan.chunk) / 8;
        let wrong: BTreeMap<u64, (usize, u64)> = (0..1 + random.below(4))
            .map(|_| (random.below(rows), (random.index(self.life.judge.stage.disks.len()), random.below(8))))
            .collect();
        let flip = |(row, (member, sector)): (&u64, &(usize, u64))| {
            self.life.judge.stage.disks[*member].rot(self.life.judge.stage.data_offset + row * 8 + sector);
        };
        wrong.iter().for_each(flip);
        self.life.judge.begin_scrub(false)?;
        self.life.turn()?;
        while self.life.judge.stage.is_scrubbing() {
            self.life.step_once("the end of the scrub")?;
        }
        let scrub = self.life.judge.stage.volume().engine.status().scrub.expect("one was begun");
        self.life.judge.look_at_scrub(u64::try_from(wrong.len()).expect("few") * 8)?;
        let mut expected = [0; 32];
        wrong.values().for_each(|(member, _)| expected[*member] += 8);
        if scrub.state == ScrubState::Done && scrub.located != expected {
            return Err(Failure::new(format!(
                "members of {wrong:?} are wrong, and the scrub says {:?}",
                scrub.located
            )));
        }
        let flip = |(row, (member, sector)): (&u64, &(usize, u64))| {
            self.life.judge.stage.disks[*member].rot(self.life.judge.stage.data_offset + row * 8 + sector);
        };
        wrong.iter().for_each(flip);
        Ok(())
    }
}
