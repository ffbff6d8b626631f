//! Zones that take no more writes: they are given up, their drives are not, until too many went.

use super::rig::{Rig, raid5};
use super::shape::Shape;
use array::log::blame::Blame;
use array::log::retired::zones_retired_max;
use base::units::{DriveIndex, ZoneIndex};
use zone::device::ZoneState;
use zone::format::superblock::MemberState;

/// Zones of a member's drive that are being written.
fn open_zones(rig: &Rig, member: usize) -> Vec<ZoneIndex> {
    let zones = rig.zones(member);
    let is_open = |(zone, _): &(u32, _)| *zone >= 2;
    let open = (0..).zip(&zones).filter(is_open).filter(|(_, zone)| zone.state.is_active());
    open.map(|(zone, _)| ZoneIndex(zone)).collect()
}

#[test]
fn refused_writes_cost_zones_and_no_drive() {
    for (group_stripes, state) in [
        (1, ZoneState::ReadOnly),
        (16, ZoneState::ReadOnly),
        (1, ZoneState::Offline),
        (16, ZoneState::Offline),
    ] {
        let mut rig = Rig::new(&Shape { group_stripes, fill_percent: 30, zones: 24, ..raid5() });
        rig.fill();
        for round in 0..2 {
            let before = rig.volume.engine.status().counters.zones_retired;
            let open = open_zones(&rig, 1);
            rig.device(1).with(|drive| open.iter().for_each(|zone| drive.fail_zone(*zone, state)));
            rig.fill();
            rig.rest();
            let status = rig.volume.engine.status();
            assert_eq!(status.members, vec![MemberState::Active; 4], "round {round}, {state:?}");
            let retired = status.counters.zones_retired - before;
            assert!((1..=open.len() as u64).contains(&retired), "{retired} of {} zones", open.len());
            assert_eq!(status.segments_condemned, 0, "what they held was moved");
        }
        // All of it is whole without the drive whose zones went, and without another one.
        rig.verify();
        assert!(rig.check().problems.is_empty(), "{:?}", rig.check().problems);
        rig.remount();
        rig.verify();
        rig.volume.fail_member(DriveIndex(2));
        rig.verify();
    }
}

#[test]
fn a_drive_fails_whose_zones_go_one_after_the_other() {
    let mut rig = Rig::new(&Shape { fill_percent: 20, zones: 60, ..raid5() });
    let mut rounds = 0;
    while rig.volume.engine.status().members[1] == MemberState::Active {
        let open = open_zones(&rig, 1);
        rig.device(1).with(|drive| open.iter().for_each(|zone| drive.fail_zone(*zone, ZoneState::ReadOnly)));
        rig.fill();
        rig.rest();
        rounds += 1;
        assert!(rounds < 60, "{} zones went", rig.volume.engine.status().counters.zones_retired);
    }
    let retired = rig.volume.engine.status().counters.zones_retired;
    assert_eq!(
        retired,
        u64::from(zones_retired_max(60)),
        "as many as may go, and the next one is the drive's"
    );
    let zones_max = zones_retired_max(60);
    let blame = Blame::ZonesRetired { zones: zones_max + 1, zones_max };
    assert_eq!(rig.volume.engine.blamed_for(DriveIndex(1)), Some(blame));
    assert_eq!(rig.volume.engine.blamed_for(DriveIndex(2)), None);
    rig.verify();
}

#[test]
fn a_drive_fails_when_the_volume_needs_its_zones() {
    let mut rig = Rig::new(&Shape { fill_percent: 100, zones: 24, ..raid5() });
    rig.fill();
    while rig.volume.engine.status().members[1] == MemberState::Active {
        let open = open_zones(&rig, 1);
        assert!(!open.is_empty(), "a volume that is full is written with zones open");
        rig.device(1).with(|drive| open.iter().for_each(|zone| drive.fail_zone(*zone, ZoneState::ReadOnly)));
        rig.fill();
        rig.rest();
    }
    let zones = u32::try_from(rig.volume.engine.status().counters.zones_retired).unwrap() + 1;
    assert!(zones <= zones_retired_max(24), "{zones} zones went");
    assert_eq!(rig.volume.engine.blamed_for(DriveIndex(1)), Some(Blame::ReserveGone { zones }));
    rig.verify();
}
