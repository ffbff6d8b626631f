//! What is particular to runs of the baselines after RAIZN and ZRAID: its volume has zones, its drives have their places, a member
//! is rebuilt while clients wait, and no drive may be needed of those that are there.

use crate::bays::{Bays, Mounted};
use crate::engine::{Array, Volume};
use crate::oracle::stamp_of;
use crate::service::Service;
use crate::tally::Failure;
use array::request::{Outcome, Request, RequestId, RequestOp, Volume as Requests};
use base::time::Instant;
use base::units::{DriveIndex, Lba, ZoneIndex};
use baseline::volume::RaiznVolume;
use baseline::zraid::{self, ZraidVolume};
use baseline::{MountError, RebuildError, mount, replace_member};
use std::collections::BTreeSet;
use zone::device::ZonedDevice;

/// Blocks of one read of everything.
const BLOCKS_AT_ONCE: u32 = 64;
/// Turns of a read that needs no time.
const TURNS_MAX: u32 = 10_000;

type Devices = Vec<Option<Box<dyn ZonedDevice>>>;

/// Mounts the baseline.
pub(crate) fn mount_array(
    service: &mut Service,
    bays: &mut Bays,
    devices: Devices,
) -> Result<Mounted, Failure> {
    let mounted = mount_devices(&service.array, devices, service.now);
    if service.has_lost_power_in_recovery() {
        return Ok(Mounted::Dark);
    }
    match mounted {
        Ok(volume) => {
            if let Volume::Raizn(volume) = &volume {
                service.ledger.count("rows relocated", volume.engine.relocated_rows() as u64);
            }
            service.volume = Some(volume);
            Ok(Mounted::Done)
        }
        Err(MountError::WindowGone { member, .. }) if service.plan.gives_windows_up(member) => {
            service.ledger.blame(member, "drive gives its windows up with the power");
            assert!(bays.leave_out(member, &service.ledger), "it was mounted, and is blamed");
            Ok(Mounted::Again)
        }
        // A mount that is refused changes nothing.
        Err(MountError::WrongDrive { .. }) if put_in_order(service, bays) => Ok(Mounted::Again),
        Err(
            ref error @ (MountError::Drive { member: place, .. } | MountError::Damaged { member: place, .. }),
        ) if may_be_damaged(service, error) && bays.leave_out(place, &service.ledger) => {
            // As the message asks for. Others may have been told who was away.
            bays.blame_the_absent(&mut service.ledger);
            service.ledger.count("mounts without a drive that fails", 1);
            Ok(Mounted::Again)
        }
        // It keeps no more of them than its log holds (ADR 16), and crashes made as many.
        Err(MountError::TooManyRelocated { rows }) if rows as u64 <= rows_relocated_max(service) => {
            service.ledger.count("mounts without room for relocated parity", 1);
            Ok(Mounted::Refused)
        }
        Err(error) => {
            let has_told = matches!(error, MountError::Drive { .. });
            bays.may_try_again(&error.to_string(), has_told, &mut service.ledger)
        }
    }
}

fn mount_devices(array: &Array, devices: Devices, now: Instant) -> Result<Volume, MountError> {
    match array {
        Array::Raizn(_, tuning) => {
            let (engine, drives) = mount(devices, *tuning, now)?;
            Ok(Volume::Raizn(Box::new(RaiznVolume::new(engine, drives))))
        }
        Array::Zraid(_) => {
            let (engine, drives) = zraid::mount(devices, now)?;
            Ok(Volume::Zraid(Box::new(ZraidVolume::new(engine, drives))))
        }
        Array::Log(_) => panic!("only asked of the baseline"),
    }
}

/// False for blocks of ZRAID that are not there while all drives keep their windows: no block rots in its runs, and write pointers tell of
/// nothing that a drive lacks which is still believed.
fn may_be_damaged(service: &Service, error: &MountError) -> bool {
    let keep_windows = !(0..service.plan.members).any(|member| service.plan.gives_windows_up(member));
    let is_damage = matches!(error, MountError::Damaged { .. });
    !(is_damage && keep_windows && matches!(service.array, Array::Zraid(_)))
}

/// An operator puts every drive where it belongs; false when they all were.
fn put_in_order(service: &mut Service, bays: &mut Bays) -> bool {
    service.ledger.count("drives in the wrong place", 1);
    bays.put_in_order()
}

/// Rows of parity that crashes may have left out of their place: those of the stripes that were in flight.
fn rows_relocated_max(service: &Service) -> u64 {
    let Array::Raizn(config, tuning) = service.array else { return 0 };
    let stripes = u64::from(config.open_logical_zones_max()) * u64::from(tuning.stripes_in_flight);
    (service.tally.power_failures + 1) * stripes * u64::from(config.chunk_blocks)
}

/// An empty drive is given for a member that failed, and clients wait until it holds everything.
pub(crate) fn replace(service: &mut Service, bays: &mut Bays, member: usize) -> Result<(), Failure> {
    service.come_to_rest()?;
    if service.is_dark() {
        return Ok(());
    }
    let drive = bays.empty_drive(member, service);
    let device = service.rack.device(drive);
    service.rack.lock().power.recovering = true;
    let now = service.now;
    let place = DriveIndex::at(member);
    let rebuilt = match service.volume() {
        Volume::Raizn(volume) => replace_member(volume, now, place, device),
        Volume::Zraid(volume) => zraid::replace_member(volume, now, place, device),
        Volume::Log(_) => panic!("only asked of the baseline"),
    };
    service.rack.lock().power.recovering = false;
    let rebuilt = match rebuilt {
        Err(RebuildError::Refused(_)) => return service.turn(),
        Err(RebuildError::Stopped(error)) => {
            judge_stopped(service, member, error)?;
            false
        }
        Ok(()) => true,
    };
    // Half of it may be there: then it is not believed.
    bays.unplug(member);
    bays.away.remove(&member);
    assert!(bays.drive_of[member] != drive, "the drive is a new one");
    bays.shelf.insert(member, bays.drive_of[member]);
    bays.drive_of[member] = drive;
    bays.plug_in(member);
    if rebuilt {
        service.rack.lock().drives[drive].learn();
        service.rack.lock().power.disarm(member);
    }
    service.ledger.blame(member, "drive replaced");
    bays.replaced.insert(member);
    if service.is_dark() { Ok(()) } else { service.turn() }
}

/// A rebuild may stop because of the new drive, of the power, or of another one that is to blame.
fn judge_stopped(service: &mut Service, member: usize, error: MountError) -> Result<(), Failure> {
    let (MountError::Drive { member: other, .. } | MountError::Damaged { member: other, .. }) = error else {
        return Err(Failure::new(format!("a rebuild stopped: {error}")));
    };
    if service.is_dark() || other == member || service.ledger.is_blamed(other) {
        service.ledger.count("rebuilds stopped", 1);
        return Ok(());
    }
    Err(Failure::new(format!("a rebuild stopped without cause: {error}")))
}

/// Checks what must hold at rest.
pub(crate) fn check(service: &mut Service, bays: &mut Bays) -> Result<(), Failure> {
    let Some(engine) = service.volume().zoned() else { return Ok(()) };
    engine.check_invariants();
    let (failed, is_broken) = (engine.failed_member(), engine.is_broken());
    if let Some(member) = failed.filter(|member| !service.ledger.is_blamed(*member)) {
        return Err(Failure::new(format!("member {member} was failed without cause")));
    }
    for member in std::mem::take(&mut bays.replaced) {
        if failed != Some(member) && !is_broken {
            service.ledger.forgive(member);
            service.ledger.count("rebuilds finished", 1);
        }
    }
    audit(service, bays)?;
    if is_broken || !service.ledger.is_tolerable() {
        return Ok(());
    }
    check_copy(service, bays, None)?;
    for lost in 0..service.plan.members {
        if service.ledger.is_tolerable_without(&BTreeSet::from([lost])) {
            check_copy(service, bays, Some(lost))?;
        }
    }
    Ok(())
}

/// The engine's account of zones is that of the drives.
fn audit(service: &mut Service, bays: &Bays) -> Result<(), Failure> {
    for member in 0..service.plan.members {
        if service.ledger.is_blamed(member) {
            continue;
        }
        let states: Vec<zone::rules::Zone> = {
            let rack = service.rack.lock();
            let media = rack.drives[bays.drive_of[member]].media();
            (0..media.geometry().zones).map(|zone| media.zone(ZoneIndex(zone))).collect()
        };
        if let Some(what) = service.engine().audit_zones(DriveIndex::at(member), &states) {
            return Err(Failure::new(format!("drive {member}: {what}")));
        }
    }
    Ok(())
}

/// A copy of the drives, one of them lost, mounts and holds what was acknowledged: parity is right, in its place and
/// in the logs.
fn check_copy(service: &mut Service, bays: &Bays, lost: Option<usize>) -> Result<(), Failure> {
    let mut copies = bays.copies(&service.rack.lock());
    if let Some(lost) = lost {
        copies[lost] = None;
    }
    let about = |what: String| match lost {
        Some(lost) => format!("if member {lost} were lost at rest: {what}"),
        None => format!("if the power failed at rest: {what}"),
    };
    let mut volume = match mount_devices(&service.array, copies, service.now) {
        Ok(mounted) => mounted,
        Err(MountError::TooManyRelocated { rows }) if rows as u64 <= rows_relocated_max(service) => {
            return Ok(());
        }
        // A drive that nobody has asked since it died, or will refuse a write.
        Err(MountError::Drive { member, .. }) if service.ledger.is_blamed(member) => return Ok(()),
        Err(error) => return Err(Failure::new(about(format!("the array does not mount: {error}")))),
    };
    volume.engine().check_invariants();
    // What was not flushed may be gone, where that is so.
    let mut oracle = service.clients.oracle.clone();
    oracle.power_failed();
    let blocks = oracle.blocks();
    for lba in (0..blocks).step_by(BLOCKS_AT_ONCE as usize) {
        let count = u32::try_from(blocks - lba).map_or(BLOCKS_AT_ONCE, |left| left.min(BLOCKS_AT_ONCE));
        for (lba, stamp) in (lba..).zip(read_at_once(volume.clients_view(), lba, count, service.now)?) {
            let floor = oracle.floor(lba);
            if stamp.is_none_or(|stamp| !oracle.may_read(lba, floor, stamp, false)) {
                return Err(Failure::at(lba, about(format!("block {lba} would read as {stamp:?}"))));
            }
        }
    }
    Ok(())
}

/// Returns the stamps of blocks of a volume whose drives take no time.
fn read_at_once(
    volume: &mut dyn Requests,
    lba: u64,
    blocks: u32,
    now: Instant,
) -> Result<Vec<Option<u64>>, Failure> {
    volume.submit(now, Request { id: RequestId(0), op: RequestOp::Read { lba: Lba(lba), blocks } });
    let mut replies = Vec::new();
    for _ in 0..TURNS_MAX {
        volume.turn(now, &mut replies);
        let Some(mut reply) = replies.pop() else { continue };
        assert!(replies.is_empty(), "one request has one answer");
        if reply.outcome != Outcome::Done {
            return Err(Failure::at(lba, format!("a read of {lba}+{blocks} fails on a copy of the drives")));
        }
        let stamps = (lba..).zip(&reply.frames).map(|(lba, frame)| stamp_of(&frame.data, lba)).collect();
        volume.frames().give_many(&mut reply.frames);
        return Ok(stamps);
    }
    Err(Failure::at(lba, "a read of a copy of the drives is never answered"))
}
