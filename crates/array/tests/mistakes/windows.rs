//! Mistakes of mounts in area mode: windows that lost what they held.

use super::device::Device;
use super::rig::{Rig, media_of, power_cycled, raid5};
use super::shape::Shape;
use array::log::MountError;
use array::log::config::{AppendUse, ArrayConfig};
use base::erasure::PieceSet;
use base::units::ZoneIndex;
use zone::device::Areas;

const AREAS: Areas = Areas { zones_max: 6, window_blocks: 16, granule_blocks: 4, explicit_commit: true };

fn in_areas() -> ArrayConfig {
    let mut config = Shape { zones: 16, capacity: 64, fill_percent: 40, ..raid5() }.config();
    config.geometry.areas = Some(AREAS);
    config.open.append = AppendUse::Areas;
    config.validate().unwrap();
    assert!(config.areas().is_some(), "segments are written in areas");
    config
}

/// The drives after a power failure in which some lost what their windows held.
fn without_windows(rig: &Rig, gone: &[usize]) -> Vec<Option<Device>> {
    let devices = power_cycled(&rig.devices);
    for member in gone {
        devices[*member].as_ref().unwrap().with(|drive| {
            let zones = (2..rig.config.geometry.zones).map(ZoneIndex);
            for zone in zones.filter(|zone| drive.has_area(*zone)).collect::<Vec<ZoneIndex>>() {
                let write_pointer = drive.zone(zone).write_pointer;
                drive.set_window(zone, write_pointer, &[]).unwrap();
            }
        });
    }
    devices
}

fn members(numbers: &[usize]) -> PieceSet {
    numbers.iter().copied().collect()
}

/// An array whose windows hold the newest versions of blocks: so few stripes that no write pointer moved, or more.
fn written(stripes: u64) -> Rig {
    let mut rig = Rig::with_config(in_areas());
    for lba in 0..stripes {
        rig.write_fua(lba % 20, 1);
    }
    rig
}

#[test]
fn windows_of_as_many_members_as_there_are_parities_cost_nothing() {
    for (stripes, gone) in [(1, 0), (3, 3), (30, 1), (45, 2)] {
        let mut rig = written(stripes);
        let devices = without_windows(&rig, &[gone]);
        rig.mount(devices).unwrap();
        assert_eq!(rig.report.windows_gone, members(&[gone]), "{stripes} stripes");
        assert_eq!((rig.report.segments_condemned, rig.report.writes_lost), (1, None));
        rig.verify();
        // What was moved needs nothing of the windows any more: another drive may be lost.
        rig.remount();
        assert_eq!(rig.report.windows_gone, PieceSet::EMPTY);
        let mut devices = power_cycled(&rig.devices);
        devices[(gone + 1) % 4] = None;
        rig.mount(devices).unwrap();
        rig.verify();
    }
}

#[test]
fn windows_of_more_members_are_not_answered_for_with_older_versions() {
    for (stripes, gone) in [(1, vec![0, 1, 2, 3]), (30, vec![0, 2]), (45, vec![1, 2, 3])] {
        let mut rig = written(stripes);
        let devices = without_windows(&rig, &gone);
        let before: Vec<_> = devices.iter().flatten().map(media_of).collect();
        let Err(MountError::WindowsGone(lost)) = rig.mount(devices.clone()) else {
            panic!("{stripes} stripes: mounted without the windows of {gone:?}");
        };
        assert_eq!((lost.members, lost.missing), (members(&gone), PieceSet::EMPTY));
        assert!(lost.blocks_max >= stripes.min(16), "{lost:?}");
        let after: Vec<_> = devices.iter().flatten().map(media_of).collect();
        assert!(before == after, "a mount that is refused changes nothing");
        rig.tuning.accepts_lost_writes = true;
        rig.mount(devices).unwrap();
        assert_eq!(rig.report.writes_lost, Some(lost));
        let last = (stripes - 1) % 20;
        assert_ne!(rig.read(last, 1).unwrap()[0], rig.blocks[usize::try_from(last).unwrap()], "older");
        // The operator is asked once.
        rig.tuning.accepts_lost_writes = false;
        rig.remount();
        rig.fill();
        rig.verify();
        rig.remount();
        rig.verify();
    }
}

#[test]
fn a_drive_that_was_away_is_not_recorded_as_failed_when_the_mount_is_refused() {
    let mut rig = written(30);
    let devices = without_windows(&rig, &[1]);
    let mut without = devices.clone();
    without[3] = None;
    let error = rig.mount(without).unwrap_err();
    assert_eq!(
        error.to_string(),
        "drive 1 lost what random write areas held, as when a buffer loses its power, and drive 3 cannot make up for it; \
         up to 51 blocks would be older than what was acknowledged: bring drive 3 back, or go on with older versions \
         (`zoneweave serve --accept-lost-writes`); nothing was changed"
    );
    rig.mount(devices).unwrap();
    rig.verify();
}
