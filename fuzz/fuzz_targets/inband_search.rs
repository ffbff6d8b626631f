//! Searches for zones that turned, of a drive with identities in-band, beside writes and resets: whatever its device says of zones, each
//! command is answered, and a zone is called turned only if the device said so, or a command of it failed.
//!
//! Each three bytes are an act: zones of the device turn, or a command, with what the device answers when it is asked for zones.
#![no_main]

use base::frame::Frame;
use base::time::Instant;
use base::units::ZoneIndex;
use drive::emulated::EmulatedDrive;
use drive::inband::{InbandDrive, format, open};
use fuzz::seed;
use libfuzzer_sys::fuzz_target;
use std::collections::{BTreeMap, BTreeSet};
use zone::device::{
    Command, Completion, Geometry, Op, Status, Token, ZoneDescriptor, ZoneState, ZonedDevice,
};

const GEOMETRY: Geometry = Geometry {
    zones: 8,
    zone_size_blocks: 512,
    zone_capacity_blocks: 364,
    open_zones_max: 4,
    active_zones_max: 4,
    append_blocks_max: 1,
    transfer_blocks_max: 128,
    volatile_cache: false,
    areas: None,
};

/// Zones of the device that its host does not see.
const JOURNAL_ZONES: u32 = 2;
const ACT_BYTES: usize = 3;
/// Polls after which everything is answered.
const POLLS: usize = 200;

const STATES: [ZoneState; 7] = [
    ZoneState::Empty,
    ZoneState::ImplicitOpen,
    ZoneState::ExplicitOpen,
    ZoneState::Closed,
    ZoneState::Full,
    ZoneState::ReadOnly,
    ZoneState::Offline,
];

/// A device that may answer anything when it is asked for zones.
struct Liar {
    device: EmulatedDrive,
    /// Searches, and reports of a zone, that are not answered.
    asked: BTreeMap<u64, bool>,
    /// Byte that decides what it says.
    lie: u8,
    /// Zones that it called turned, true or not.
    called: Vec<(u32, ZoneState)>,
    /// Zones of the host of which a command failed: where their next block goes nobody knows.
    failed: BTreeSet<u32>,
}

impl Liar {
    fn falsify(&mut self, is_search: bool, answer: &mut Completion) {
        let lie = u32::from(self.lie);
        match self.lie % 8 {
            0..=3 => {}
            4 => (answer.status, answer.report) = (Status::InternalError, Vec::new()),
            5 => answer.offset = if lie > 128 { u32::MAX } else { lie / 8 },
            6 => answer.report.clear(),
            _ => {
                let state = STATES[usize::from(self.lie / 8) % STATES.len()];
                let zone = ZoneDescriptor { state, write_pointer: lie, capacity: 364, has_area: false };
                answer.report = vec![zone; 1 + usize::from(self.lie / 64)];
                answer.offset = lie / 16 % 8;
            }
        }
        if let Some(found) = answer.report.first() {
            let before = if is_search { answer.offset } else { 0 };
            self.called.push((answer.zone.0.saturating_add(before), found.state));
        }
    }
}

impl ZonedDevice for Liar {
    fn geometry(&self) -> &Geometry {
        self.device.geometry()
    }

    fn submit(&mut self, now: Instant, command: Command) {
        let is_search = matches!(command.op, Op::FindTurned { .. });
        if is_search || matches!(command.op, Op::Report { .. }) {
            self.asked.insert(command.token.0, is_search);
        }
        self.device.submit(now, command);
    }

    fn poll(&mut self, now: Instant, completions: &mut Vec<Completion>) {
        let before = completions.len();
        self.device.poll(now, completions);
        for answer in &mut completions[before..] {
            if let Some(is_search) = self.asked.remove(&answer.token.0) {
                self.falsify(is_search, answer);
            }
        }
    }
}

fn carry_out<D: ZonedDevice>(device: &mut D, command: Command) -> Option<Completion> {
    device.submit(Instant(0), command);
    let mut completions = Vec::new();
    device.poll(Instant(0), &mut completions);
    completions.pop()
}

fn drive() -> InbandDrive<Liar> {
    let device = EmulatedDrive::on_heap(GEOMETRY, [1; 16]).expect("a geometry that can be");
    let mut device =
        Liar { device, asked: BTreeMap::new(), lie: 0, called: Vec::new(), failed: BTreeSet::new() };
    format(&mut device, [9; 16], &mut carry_out).expect("a device that is empty");
    open(device, 16, &mut carry_out).expect("a drive that was just made")
}

/// Carries commands out, all at once.
fn run(drive: &mut InbandDrive<Liar>, commands: Vec<(u32, Op)>) -> Vec<Completion> {
    let count = commands.len();
    for (token, (zone, op)) in (0..).zip(commands) {
        drive.submit(Instant(0), Command { token: Token(token), zone: ZoneIndex(zone), op });
    }
    let mut completions = Vec::new();
    for _ in 0..POLLS {
        drive.poll(Instant(0), &mut completions);
    }
    assert_eq!(completions.len(), count, "each command is answered once");
    completions.sort_by_key(|answer| answer.token.0);
    let failed = completions.iter().filter(|answer| answer.status != Status::Success);
    drive.device_mut().failed.extend(failed.map(|answer| answer.zone.0));
    completions
}

fn frames(count: u8) -> Vec<Frame> {
    (0..=count % 64).map(|_| Frame::zeroed()).collect()
}

fn search(drive: &mut InbandDrive<Liar>, zone: u32, count: u32, beside: Vec<(u32, Op)>) {
    let commands = std::iter::once((zone, Op::FindTurned { count })).chain(beside);
    let answer = run(drive, commands.collect()).swap_remove(0);
    let Some(found) = answer.report.first() else { return };
    assert!(answer.status == Status::Success && answer.report.len() == 1);
    assert!(answer.offset < count && zone + answer.offset < GEOMETRY.zones - JOURNAL_ZONES);
    let own = zone + answer.offset + JOURNAL_ZONES;
    let Liar { called, failed, .. } = drive.device();
    assert!(
        called.contains(&(own, found.state)) || failed.contains(&(zone + answer.offset)),
        "zone {own} is {:?}",
        found.state
    );
    let report = run(drive, vec![(zone + answer.offset, Op::Report { count: 1 })]);
    assert_eq!(report[0].report[0].state, found.state);
}

fn seeds() {
    let honest = [4, 0x23, 0, 0, 0x01, 0, 1, 0x03, 0, 0, 0x60, 0, 2, 0x03, 0, 0, 0x60, 0];
    let lies = [1, 0x05, 0, 0, 0x60, 0x2f, 0, 0x61, 0xad, 3, 0x05, 0x7f, 1, 0x05, 0x0d, 0, 0x60, 4];
    seed("inband_search", &[honest.to_vec(), lies.to_vec()]);
}

fuzz_target!(init: seeds(), |data: &[u8]| {
    let mut drive = drive();
    for act in data.chunks_exact(ACT_BYTES) {
        let (zone, count) = (u32::from(act[1] % 8), u32::from(act[1] / 16));
        drive.device_mut().lie = act[2];
        match act[0] % 5 {
            0 => search(&mut drive, zone, count, Vec::new()),
            1 => {
                run(&mut drive, vec![(zone, Op::Append { frames: frames(act[0] / 5) })]);
            }
            2 => {
                run(&mut drive, vec![(zone, if act[1] & 8 == 0 { Op::Reset } else { Op::Finish })]);
            }
            3 => search(&mut drive, 0, 6, vec![(zone, Op::Append { frames: frames(act[0] / 5) }), (zone, Op::Reset)]),
            _ => {
                let state = if act[1] & 8 == 0 { ZoneState::ReadOnly } else { ZoneState::Offline };
                drive.device_mut().device.fail_zone(ZoneIndex(zone), state);
            }
        }
    }
});
