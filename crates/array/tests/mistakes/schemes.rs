//! Mistakes of schemes that lose more than one drive: every set of drives that may be lost is lost, in service
//! and with a crash, and rebuilt.

use super::device::Device;
use super::rig::{Rig, power_cycled, raid5};
use super::shape::Shape;
use array::log::ReplaceError;
use array::log::status::Health;
use array::request::Outcome;
use base::erasure::PieceSet;
use base::units::DriveIndex;
use zone::stripe::Level;

const SCHEMES: [(Level, usize, u32, u32); 5] = [
    (Level::Raid01, 4, 2, 4),
    (Level::Raid4, 4, 1, 16),
    (Level::Raid6, 5, 1, 16),
    (Level::Raid6, 4, 2, 1),
    (Level::TripleParity, 5, 1, 4),
];

fn shapes() -> impl Iterator<Item = Shape> {
    SCHEMES.into_iter().map(|(level, members, chunk_blocks, group_stripes)| Shape {
        level,
        members,
        chunk_blocks,
        group_stripes,
        zones: 10,
        capacity: 40,
        ..raid5()
    })
}

/// Sets of members that an array goes on without, the empty one left out.
fn losses(shape: &Shape) -> Vec<PieceSet> {
    let code = shape.level.erasure_code(shape.members).unwrap();
    let sets = (1_u32..1 << shape.members)
        .map(|mask| (0..shape.members).filter(|member| mask >> member & 1 == 1).collect());
    sets.filter(|lost: &PieceSet| code.can_decode(code.pieces().without(*lost))).collect()
}

fn written(shape: &Shape) -> Rig {
    let mut rig = Rig::new(shape);
    rig.fill();
    for lba in 0..20 {
        rig.write_fua(lba * 3, 1);
    }
    rig
}

fn replace(rig: &mut Rig, member: usize) {
    let uuid = [100 + u8::try_from(member).unwrap(); 16];
    let drive = Device::new(rig.config.geometry, uuid, 7);
    for _ in 0..1_000 {
        match rig.volume.replace_member(rig.now, DriveIndex::at(member), Box::new(drive.clone()), uuid) {
            Ok(()) => {
                rig.devices[member] = Some(drive);
                return;
            }
            Err(error) => assert_eq!(error, ReplaceError::Busy),
        }
        rig.turn(&mut Vec::new());
    }
    panic!("busy for ever");
}

#[test]
fn some_drives_lost_together_lose_data() {
    for shape in shapes() {
        for lost in losses(&shape) {
            let mut rig = written(&shape);
            let mut devices = power_cycled(&rig.devices);
            lost.iter().for_each(|member| devices[member] = None);
            rig.mount(devices).unwrap();
            rig.verify();
            rig.fill();
            rig.verify();
            rig.remount();
            rig.verify();
            assert_eq!(rig.volume.engine.status().health, Health::Degraded);
        }
    }
}

#[test]
fn some_drives_lost_one_after_another_are_not_rebuilt() {
    for shape in shapes() {
        for lost in losses(&shape) {
            let mut rig = written(&shape);
            for member in lost.iter() {
                rig.volume.fail_member(DriveIndex::at(member));
                rig.write_fua(7, 2);
            }
            rig.verify();
            rig.fill();
            for member in lost.iter() {
                replace(&mut rig, member);
                rig.rest();
            }
            assert_eq!(rig.volume.engine.status().health, Health::Clean, "{} without {lost:?}", shape.level);
            rig.verify();
            assert_eq!(rig.check().problems, [], "{} without {lost:?}", shape.level);
            // What was rebuilt is as good as what was there: others may go now.
            let mut devices = power_cycled(&rig.devices);
            let others = (0..shape.members).filter(|member| !lost.contains(*member));
            let code = rig.config.code();
            let mut gone = PieceSet::EMPTY;
            for member in others {
                let more = gone.iter().chain([member]).collect();
                if code.can_decode(code.pieces().without(more)) {
                    gone = more;
                    devices[member] = None;
                }
            }
            rig.mount(devices).unwrap();
            rig.verify();
        }
    }
}

/// Two of four drives are not two of four: without both copies of something nothing is written or recorded, and
/// all is there when the second drive is back.
#[test]
fn lost_mirrors_are_counted() {
    let mut rig = written(&Shape { level: Level::Raid01, ..raid5() });
    let whole = power_cycled(&rig.devices);
    for member in [1, 3] {
        rig.volume.fail_member(DriveIndex::at(member));
    }
    assert_eq!(rig.volume.engine.status().health, Health::Failed);
    assert_eq!(rig.try_write(5, 1, false), Outcome::IoError);
    let devices = power_cycled(&rig.devices);
    rig.mount(devices).unwrap();
    assert_eq!(rig.volume.engine.status().health, Health::Degraded);
    rig.verify();
    rig.mount(whole).unwrap();
    for member in [1, 2] {
        rig.volume.fail_member(DriveIndex::at(member));
        rig.write_fua(5, 1);
    }
    assert_eq!(rig.volume.engine.status().health, Health::Degraded);
    rig.verify();
}
