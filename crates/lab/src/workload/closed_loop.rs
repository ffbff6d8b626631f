//! The loop that runs jobs against a target.

use crate::precise::precise_u64;
use crate::workload::{Job, Manage, ManageOp, Measured, Order, Span, Target, What, whole_ns};
use base::random::Random;
use base::slab::Slab;
use base::time::Instant;
use drive::timing::{Access, Done, ZoneCondition};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Most bytes a scheduler merges into one command.
const MERGED_BYTES_MAX: u64 = 1 << 20;
/// Between the starts of two jobs.
const START_APART_NS: u64 = 317_000;
/// Pause between two management commands, so that each meets an idle drive.
const MANAGE_PAUSE_NS: u64 = 10_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    /// The program submits.
    Ask { job: usize },
    /// The request is at the scheduler.
    Arrive { request: u32 },
    /// The command goes to the drive.
    Send { command: u32 },
    /// The program learns of a command's completion.
    Know { command: u32 },
}

#[derive(Clone, Copy, Debug)]
struct Request {
    job: usize,
    asked: u64,
    zone: u32,
    offset: u64,
}

/// A command: requests that were merged, or a reset of a job's zone.
#[derive(Clone, Debug)]
enum Batch {
    Requests(Vec<u32>),
    Reset { job: usize },
}

struct State {
    job: Job,
    /// Place in `zones`, and how far that zone is.
    zone: usize,
    offset: u64,
    /// Requests of the present half of a window that come next, the last first.
    shuffled: Vec<u64>,
    in_flight: u32,
    resetting: bool,
    /// Requests that wait for a reset.
    held: u32,
    thread_free: u64,
    next_by_rate: u64,
    /// Set while a command of the zone is at the drive, one at a time; further requests wait.
    busy: bool,
    waiting: Vec<u32>,
    measured: Measured,
}

impl State {
    fn new(job: Job) -> State {
        State {
            job,
            zone: 0,
            offset: 0,
            shuffled: Vec::new(),
            in_flight: 0,
            resetting: false,
            held: 0,
            thread_free: 0,
            next_by_rate: 0,
            busy: false,
            waiting: Vec::new(),
            measured: Measured::default(),
        }
    }

    fn zone(&self) -> u32 {
        self.job.zones[self.zone]
    }

    fn is_idle(&self) -> bool {
        self.in_flight == 0 && self.waiting.is_empty()
    }
}

/// Jobs and the target they share.
pub struct Loop<T: Target> {
    target: T,
    capacity: u64,
    jobs: Vec<State>,
    steps: BinaryHeap<Reverse<(u64, u64, Step)>>,
    count: u64,
    requests: Slab<Request>,
    commands: Slab<Batch>,
    random: Random,
    /// Time after which completions count.
    warm: u64,
    started: u64,
}

impl<T: Target> Loop<T> {
    /// Jobs against a target; the seed is for the places of random reads.
    #[must_use]
    pub fn on(target: T, jobs: Vec<Job>, seed: u64) -> Loop<T> {
        Loop {
            capacity: target.zone_capacity_bytes(),
            target,
            jobs: jobs.into_iter().map(State::new).collect(),
            steps: BinaryHeap::new(),
            count: 0,
            requests: Slab::default(),
            commands: Slab::default(),
            random: Random::from_seed(seed ^ 0x5eed),
            warm: 0,
            started: 0,
        }
    }

    /// Runs all jobs; one measurement per job.
    ///
    /// # Panics
    /// When a target completes a command it was not given.
    #[must_use]
    pub fn run(mut self, span: Span) -> (Vec<Measured>, T) {
        self.started = self.target.wait(Some(Instant(0))).map_or(0, |now| now.0);
        self.warm = self.started + whole_ns(span.warm_up_us);
        let end = self.warm + whole_ns(span.measured_us);
        for job in 0..self.jobs.len() {
            self.start(job);
        }
        let mut done = Vec::new();
        while let Some(Instant(now)) = {
            let next = self.steps.peek().map(|Reverse((at, ..))| Instant(*at));
            self.target.wait(next)
        } {
            if now > end {
                break;
            }
            self.target.advance(Instant(now), &mut done);
            for Done { tag, at } in done.drain(..) {
                self.delivered(u32::try_from(tag).expect("a tag given by `send`"), at.0);
            }
            while let Some(Reverse((at, _, step))) = self.steps.peek().copied()
                && at <= now
            {
                self.steps.pop();
                self.step(now, step);
            }
        }
        let seconds =
            usize::try_from(whole_ns(span.measured_us) / 1_000_000_000).expect("a usize of seconds");
        let measured = self.jobs.into_iter().map(|state| {
            let mut measured = state.measured;
            measured.span_us = span.measured_us;
            measured.by_second.resize(seconds, 0.0);
            measured
        });
        (measured.collect(), self.target)
    }

    /// Programs do not begin in step, and those with a rate keep to it from the start.
    fn start(&mut self, job: usize) {
        let Job { what, rate_bytes_per_s, bytes, depth, .. } = self.jobs[job].job;
        if let What::Area(_) = what {
            self.target.preset_area(self.jobs[job].zone(), 0);
        }
        let start = self.started + job as u64 * START_APART_NS;
        let apart = rate_bytes_per_s.map_or(10, |rate| whole_ns(precise_u64(bytes) / rate * 1e6));
        for place in 0..u64::from(depth) {
            self.plan(start + place * apart, Step::Ask { job });
        }
        self.jobs[job].next_by_rate = start + u64::from(depth) * apart;
    }

    fn plan(&mut self, at: u64, step: Step) {
        self.count += 1;
        self.steps.push(Reverse((at, self.count, step)));
    }

    fn step(&mut self, now: u64, step: Step) {
        match step {
            Step::Ask { job } => self.ask(now, job),
            Step::Arrive { request } => self.arrive(now, request),
            Step::Send { command } => self.send(now, command),
            Step::Know { command } => self.know(now, command),
        }
    }

    fn ask(&mut self, now: u64, index: usize) {
        let state = &mut self.jobs[index];
        let job = &state.job;
        let is_area = matches!(job.what, What::Area(_));
        let writes = is_area || matches!(job.what, What::Write | What::Append);
        if state.resetting {
            state.held += 1;
            return;
        }
        if writes && state.offset + job.bytes > self.capacity {
            if job.resets {
                state.held += 1;
                if state.is_idle() {
                    state.resetting = true;
                    let zone = state.zone();
                    let command = self.commands.insert(Batch::Reset { job: index });
                    self.target.submit(Instant(now), u64::from(command), Access::Reset { zone });
                }
                return;
            }
            let zone = state.zone();
            state.zone = (state.zone + 1) % state.job.zones.len();
            state.offset = 0;
            let next = state.zone();
            if is_area {
                // The zone that is left gives its area back.
                self.target.preset_zone(zone, 0, ZoneCondition::Empty);
                self.target.preset_area(next, 0);
            } else {
                self.target.preset_zone(zone, 0, ZoneCondition::Open);
            }
        }
        self.issue(now, index);
    }

    fn issue(&mut self, now: u64, index: usize) {
        let random = &mut self.random;
        let state = &mut self.jobs[index];
        let job = &state.job;
        let (zone, offset) = match job.what {
            What::ReadRandom | What::WriteRandom => {
                let zone = job.zones[random.index(job.zones.len())];
                (zone, random.below(self.capacity / job.bytes) * job.bytes)
            }
            What::Manage(manage) => {
                let zone = state.zone();
                match manage.op {
                    ManageOp::Commit => self.target.preset_area(zone, manage.written_bytes),
                    _ => self.target.preset_zone(zone, manage.written_bytes, manage.condition),
                }
                (zone, manage.written_bytes)
            }
            What::Area(Order::Again { window_bytes }) => {
                (state.zone(), random.below(window_bytes / job.bytes) * job.bytes)
            }
            What::Area(Order::Shuffled { window_bytes }) => {
                if state.shuffled.is_empty() {
                    state.shuffled =
                        shuffled(random, &state.job, window_bytes / 2, self.capacity - state.offset);
                }
                let within = state.shuffled.pop().expect("half a window has a request");
                let start = state.offset;
                if state.shuffled.is_empty() {
                    let bytes = (window_bytes / 2).min(self.capacity - start);
                    state.offset = start + bytes / state.job.bytes * state.job.bytes;
                }
                (state.zone(), start + within)
            }
            What::Write | What::Append | What::ReadSequential | What::Area(Order::Growing) => {
                (state.zone(), state.offset)
            }
        };
        let job = &state.job;
        match job.what {
            What::ReadRandom | What::WriteRandom => {}
            What::Area(Order::Again { .. } | Order::Shuffled { .. }) => {}
            What::Manage(_) => state.zone = (state.zone + 1) % job.zones.len(),
            What::Write | What::Append | What::ReadSequential | What::Area(Order::Growing) => {
                state.offset += job.bytes;
                if job.what == What::ReadSequential && state.offset + job.bytes > self.capacity {
                    state.offset = 0;
                    state.zone = (state.zone + 1) % job.zones.len();
                }
            }
        }
        state.in_flight += 1;
        let submit = whole_ns(state.job.costs.submit_us);
        let request = self.requests.insert(Request { job: index, asked: now, zone, offset });
        match submit {
            0 => self.arrive(now, request),
            _ => self.plan(now + submit, Step::Arrive { request }),
        }
    }

    fn arrive(&mut self, now: u64, request: u32) {
        let job = self.requests.get(request).job;
        let state = &mut self.jobs[job];
        if state.job.costs.merges {
            state.waiting.push(request);
            if !state.busy {
                self.dispatch(now, job);
            }
            return;
        }
        let command = self.commands.insert(Batch::Requests(vec![request]));
        self.map(now, command);
    }

    /// The scheduler lets one command per zone go, made of all that waits and fits.
    fn dispatch(&mut self, now: u64, job: usize) {
        let state = &mut self.jobs[job];
        let most = usize::try_from((MERGED_BYTES_MAX / state.job.bytes).max(1)).expect("few requests");
        let count = state.waiting.len().min(most);
        state.busy = count > 0;
        if count > 0 {
            let requests = state.waiting.drain(..count).collect();
            let command = self.commands.insert(Batch::Requests(requests));
            self.map(now, command);
        }
    }

    fn requests_of(&self, command: u32) -> &[u32] {
        match self.commands.get(command) {
            Batch::Requests(requests) => requests,
            Batch::Reset { .. } => &[],
        }
    }

    fn map(&mut self, now: u64, command: u32) {
        let requests = self.requests_of(command);
        let job = &self.jobs[self.requests.get(requests[0]).job].job;
        let costs = job.costs;
        let bytes = job.bytes * requests.len() as u64;
        let segments_us = if bytes > costs.segment_bytes { costs.segments_us } else { 0.0 };
        let merge_us = if requests.len() > 1 { costs.merge_us } else { 0.0 };
        match whole_ns(segments_us + merge_us) {
            0 => self.send(now, command),
            before => self.plan(now + before, Step::Send { command }),
        }
    }

    fn send(&mut self, now: u64, command: u32) {
        let requests = self.requests_of(command);
        let Request { job, zone, offset, .. } = *self.requests.get(requests[0]);
        let job = &self.jobs[job].job;
        let bytes = job.bytes * requests.len() as u64;
        let access = match job.what {
            What::Write | What::WriteRandom | What::Area(_) => {
                Access::Write { zone, offset_bytes: offset, bytes }
            }
            What::Append => Access::Append { zone, bytes },
            What::ReadRandom | What::ReadSequential => Access::Read { zone, offset_bytes: offset, bytes },
            What::Manage(Manage { op, .. }) => match op {
                ManageOp::Reset => Access::Reset { zone },
                ManageOp::Finish => Access::Finish { zone },
                ManageOp::Open => Access::Open { zone },
                ManageOp::Close => Access::Close { zone },
                ManageOp::Commit => Access::ZrwaCommit { zone, end_bytes: offset },
                ManageOp::Write => Access::Write { zone, offset_bytes: offset, bytes },
                ManageOp::Append => Access::Append { zone, bytes },
            },
        };
        self.target.submit(Instant(now), u64::from(command), access);
    }

    fn delivered(&mut self, command: u32, at: u64) {
        let requests = match self.commands.get(command) {
            Batch::Reset { job } => {
                let index = *job;
                self.commands.remove(command);
                let state = &mut self.jobs[index];
                state.resetting = false;
                state.offset = 0;
                if let What::Area(_) = state.job.what {
                    let zone = state.zone();
                    self.target.preset_area(zone, 0);
                }
                let state = &mut self.jobs[index];
                for _ in 0..std::mem::take(&mut state.held) {
                    self.plan(at, Step::Ask { job: index });
                }
                return;
            }
            Batch::Requests(requests) => requests,
        };
        let costs = self.jobs[self.requests.get(requests[0]).job].job.costs;
        let count = u32::try_from(requests.len()).expect("few requests");
        let after = whole_ns(costs.complete_us + costs.request_us * f64::from(count));
        match after {
            0 => self.know(at, command),
            _ => self.plan(at + after, Step::Know { command }),
        }
    }

    fn know(&mut self, now: u64, command: u32) {
        let Batch::Requests(requests) = self.commands.remove(command) else {
            unreachable!("resets are not known to the program")
        };
        let index = self.requests.get(requests[0]).job;
        for request in requests {
            let asked = self.requests.remove(request).asked;
            self.ended(now, index, asked);
        }
        if self.jobs[index].job.costs.merges {
            self.dispatch(now, index);
        }
    }

    fn ended(&mut self, now: u64, index: usize, asked: u64) {
        let state = &mut self.jobs[index];
        state.in_flight -= 1;
        if now > self.warm {
            state.count(now - self.warm, now - asked);
        }
        state.thread_free = state.thread_free.max(now) + whole_ns(state.job.costs.think_us);
        let mut at = state.thread_free;
        if matches!(state.job.what, What::Manage(_)) {
            at += MANAGE_PAUSE_NS;
        }
        if let Some(rate) = state.job.rate_bytes_per_s {
            at = at.max(state.next_by_rate);
            // As fio does it: what a stall cost is made up for.
            state.next_by_rate += whole_ns(precise_u64(state.job.bytes) / rate * 1e6);
        }
        // The last completion before a reset wakes one of those that wait for it.
        let wakes = state.held > 0 && state.is_idle() && !state.resetting;
        state.held -= u32::from(wakes);
        self.plan(at, Step::Ask { job: index });
        if wakes {
            self.plan(at, Step::Ask { job: index });
        }
    }
}

impl State {
    /// A request has ended `since` the warm-up.
    fn count(&mut self, since: u64, latency: u64) {
        let measured = &mut self.measured;
        measured.latencies_us.push(precise_u64(latency) / 1000.0);
        measured.bytes += self.job.bytes;
        let second = usize::try_from(since / 1_000_000_000).expect("a usize of seconds");
        if measured.by_second.len() <= second {
            measured.by_second.resize(second + 1, 0.0);
        }
        measured.by_second[second] += precise_u64(self.job.bytes) / 1_048_576.0;
    }
}

/// Requests within a stretch of `bytes`, or what is `left` of the zone, in any order.
fn shuffled(random: &mut Random, job: &Job, bytes: u64, left: u64) -> Vec<u64> {
    let count = (bytes.min(left) / job.bytes).max(1);
    let mut places: Vec<u64> = (0..count).map(|place| place * job.bytes).collect();
    for place in (1..places.len()).rev() {
        places.swap(place, random.index(place + 1));
    }
    places
}
