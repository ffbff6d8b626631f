//! Clients without an engine: each request is some member commands at once, and others when those are done.

use super::Setup;
use super::rig::device;
use crate::precise::precise_u64;
use crate::workload::{Measured, whole_ns};
use anyhow::Result;
use base::frame::Frame;
use base::random::Random;
use base::time::Instant;
use base::units::BLOCK_BYTES_U64;
use block::device::{BlockDevice, Command, Op, Token};
use block::md::SECTOR_BYTES_U64;

/// Command for a member.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    pub member: usize,
    pub is_read: bool,
    /// First block, and how many.
    pub block: u64,
    pub blocks: u64,
}

/// Commands in steps: those of a step go together, the next step when all of them are done.
pub type Steps = Vec<Vec<Part>>;

/// Clients and members.
struct Bare<'a> {
    devices: Vec<Box<dyn BlockDevice>>,
    now: Instant,
    random: Random,
    draw: &'a mut dyn FnMut(&mut Random) -> Steps,
    clients: Vec<Client>,
}

#[derive(Default)]
struct Client {
    /// Steps to come, the next one last.
    steps: Steps,
    waits_for: usize,
    began: Instant,
}

/// Runs clients for a while, with the warm-up of the engine's; each request counts as so many bytes.
pub fn run(
    setup: &Setup,
    (members, sectors): (u32, u64),
    (clients, bytes): (u32, u64),
    draw: &mut dyn FnMut(&mut Random) -> Steps,
) -> Result<Measured> {
    let devices: Result<Vec<_>> =
        (0..u64::from(members)).map(|number| device(setup, sectors, number)).collect();
    let mut bare = Bare {
        devices: devices?,
        now: Instant(0),
        random: Random::from_seed(setup.seed),
        draw,
        clients: (0..clients).map(|_| Client::default()).collect(),
    };
    let warm = Instant(whole_ns(setup.span_us / 4.0));
    let end = Instant(warm.0 + whole_ns(setup.span_us));
    let mut measured = Measured { span_us: setup.span_us, ..Measured::default() };
    (0..bare.clients.len()).for_each(|client| bare.begin(client));
    let mut completions = Vec::new();
    while let Some(next) =
        bare.devices.iter().filter_map(|device| device.next_event()).min().filter(|next| *next < end)
    {
        bare.now = next;
        bare.devices.iter_mut().for_each(|device| device.poll(next, &mut completions));
        for completion in completions.drain(..) {
            let index = usize::try_from(completion.token.0)?;
            bare.clients[index].waits_for -= 1;
            if bare.clients[index].waits_for > 0 || bare.step(index) {
                continue;
            }
            if next > warm {
                measured.latencies_us.push(precise_u64(next.since(bare.clients[index].began).0) / 1000.0);
                measured.bytes += bytes;
            }
            bare.begin(index);
        }
    }
    Ok(measured)
}

impl Bare<'_> {
    fn begin(&mut self, client: usize) {
        let mut steps = (self.draw)(&mut self.random);
        steps.reverse();
        self.clients[client] = Client { steps, waits_for: 0, began: self.now };
        let has_begun = self.step(client);
        assert!(has_begun, "a request without commands");
    }

    /// Begins with the next step; false when there is none.
    fn step(&mut self, client: usize) -> bool {
        let Some(parts) = self.clients[client].steps.pop() else { return false };
        self.clients[client].waits_for = parts.len();
        for part in parts {
            let frames = (0..part.blocks).map(|_| Frame::zeroed()).collect();
            let sector = part.block * (BLOCK_BYTES_U64 / SECTOR_BYTES_U64);
            let op = match part.is_read {
                true => Op::Read { sector, frames },
                false => Op::Write { sector, frames, durable: false },
            };
            let token = Token(u64::try_from(client).expect("a client's number"));
            self.devices[part.member].submit(self.now, Command { token, op });
        }
        true
    }
}
