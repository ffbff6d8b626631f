//! A conventional drive that is cut into zones, in virtual time: an emulated drive keeps the data, the model of a drive that translates
//! addresses tells when a command is done.
//!
//! A zone is a range of addresses, and to reset it is to write there anew: the drive is not told what is garbage (no discard). What
//! keeps identities of blocks costs nothing here.

use anyhow::Result;
use base::slab::Slab;
use base::time::Instant;
use base::units::BLOCK_BYTES_U64;
use drive::emulated::EmulatedDrive;
use drive::timing::{Access, Done, Model, ModelOptions, Profile};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use zone::device::{Command, Completion, Geometry, Status, Token, ZonedDevice};

/// A drive that appears as one range of addresses, and what it has programmed.
#[derive(Clone, Debug)]
pub(super) struct Flat {
    profile: Profile,
    programmed: Arc<AtomicU64>,
}

impl Flat {
    /// Conventional drive: the zones of `geometry` are its addresses, with so much spare flash and erase blocks of so many bytes. What
    /// does not follow from that is as with zones: reads that go on in one of them are read ahead.
    pub(super) fn of(profile: &Profile, geometry: &Geometry, spare: f64, block_bytes: u64) -> Result<Flat> {
        let like = Profile::named("conventional-nvme").expect("a built-in profile");
        let bytes = u64::from(geometry.zones) * u64::from(geometry.zone_capacity_blocks) * BLOCK_BYTES_U64;
        let flat = profile.as_conventional(&like, bytes, (spare, block_bytes))?;
        let profile = flat.collecting_as(&like).following(geometry.zones);
        Ok(Flat { profile, programmed: Arc::default() })
    }

    /// Bytes that the drive has programmed so far: those of the host, and those that its collector moved.
    pub(super) fn programmed(&self) -> u64 {
        self.programmed.load(Ordering::Relaxed)
    }

    /// The drive, with these zones.
    pub(super) fn drive(
        &self,
        geometry: Geometry,
        uuid: [u8; 16],
        options: ModelOptions,
    ) -> Result<FlatDrive> {
        let drive = EmulatedDrive::on_heap(geometry, uuid)?;
        Ok(FlatDrive {
            drive,
            model: Model::new(&self.profile, options),
            held: Slab::default(),
            executed: Vec::new(),
            done: Vec::new(),
            programmed: self.programmed.clone(),
        })
    }
}

/// See the module.
pub(super) struct FlatDrive {
    drive: EmulatedDrive,
    model: Model,
    /// Commands whose time has not come, with whom they belong to.
    held: Slab<(Token, Completion)>,
    /// Kept for their memory.
    executed: Vec<Completion>,
    done: Vec<Done>,
    programmed: Arc<AtomicU64>,
}

impl FlatDrive {
    /// A command to a zone as one to a range of addresses.
    fn flat(&self, access: Access, completion: &Completion) -> Access {
        let zone_bytes = u64::from(self.drive.geometry().zone_capacity_blocks) * BLOCK_BYTES_U64;
        let place = |zone: u32, offset: u64| u64::from(zone) * zone_bytes + offset;
        match access {
            _ if completion.status != Status::Success => Access::Refused,
            Access::Read { zone, offset_bytes, bytes } => {
                Access::Read { zone: 0, offset_bytes: place(zone, offset_bytes), bytes }
            }
            Access::Write { zone, offset_bytes, bytes } => {
                Access::Write { zone: 0, offset_bytes: place(zone, offset_bytes), bytes }
            }
            Access::Append { zone, bytes } => {
                let offset = u64::from(completion.offset) * BLOCK_BYTES_U64;
                Access::Write { zone: 0, offset_bytes: place(zone, offset), bytes }
            }
            // Pointers of zones are kept by the host.
            _ => Access::Flush,
        }
    }
}

impl ZonedDevice for FlatDrive {
    fn geometry(&self) -> &Geometry {
        self.drive.geometry()
    }

    fn submit(&mut self, now: Instant, command: Command) {
        let (token, access) = (command.token, Access::of(command.zone, &command.op));
        self.drive.submit(now, command);
        self.drive.poll(now, &mut self.executed);
        let completion = self.executed.pop().expect("a drive in memory executes at once");
        assert!(completion.token == token && self.executed.is_empty(), "one command, one completion");
        let access = self.flat(access, &completion);
        let slot = self.held.insert((token, completion));
        self.model.submit(now, u64::from(slot), access);
    }

    fn poll(&mut self, now: Instant, completions: &mut Vec<Completion>) {
        self.model.advance(now, &mut self.done);
        for Done { tag, .. } in self.done.drain(..) {
            let (_, completion) = self.held.remove(u32::try_from(tag).expect("tags are slots"));
            completions.push(completion);
        }
        let placed = self.model.bytes_placed().expect("a drive that translates addresses");
        self.programmed.store(placed, Ordering::Relaxed);
    }

    fn next_event(&self) -> Option<Instant> {
        self.model.next_event()
    }
}
