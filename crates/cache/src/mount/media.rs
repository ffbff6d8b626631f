//! Drives as a mount sees them: commands one after the other, and readers of many zones side by side.
//!
//! ```text
//!   job --begins--> reader --Seat::ask--> desk --> drives, each with as many commands as it has readers
//!                     ^------- answer ------'
//! ```
//! A reader is a future that waits for nothing but the answers to what it has asked, so it is written as if it were alone. The next job
//! of a drive begins where a reader of that drive ends.

use super::MountError;
use base::time::Instant;
use base::units::{DriveIndex, ZoneIndex};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use zone::device::{Command, Completion, Geometry, Op, Status, Token};
use zone::drives::{DriveCommand, DriveSet};

/// Readers on each drive: transfers of 128 KiB for so many keep any drive busy, and take 2 MiB of memory, or 8 where all of them ask for
/// [`COMMANDS`] at once.
const READERS: usize = 16;
/// Commands that a reader asks for at once at most: so many transfers keep a drive busy for one who is left alone.
pub const COMMANDS: usize = 4;

/// See the module.
pub struct Media<'a> {
    drives: &'a mut DriveSet,
    now: Instant,
}

impl<'a> Media<'a> {
    /// Drives, from a time on.
    pub fn new(drives: &'a mut DriveSet, now: Instant) -> Media<'a> {
        Media { drives, now }
    }

    /// Time of the last answer.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Geometry of each drive; `None` where one is missing.
    pub fn geometries(&self) -> Vec<Option<Geometry>> {
        (0..self.drives.len()).map(|place| self.drives.geometry(DriveIndex::at(place)).copied()).collect()
    }

    /// Runs a command of a drive to its end.
    pub fn run(&mut self, place: usize, zone: ZoneIndex, op: Op) -> Result<Completion, MountError> {
        let command = Command { token: Token(0), zone, op };
        self.drives.submit(self.now, DriveCommand { drive: DriveIndex::at(place), command });
        let mut answers = Vec::new();
        self.now = self.drives.await_answers(self.now, &mut answers);
        let (_, completion) = answers.pop().expect("an answer has come");
        well(place, completion)
    }

    /// Does jobs side by side, each of which asks the drive in the place that stands for it in `places`; the results are in their
    /// order.
    pub fn side_by_side<T, R: Future<Output = T>>(
        &mut self,
        places: &[usize],
        begin: impl Fn(usize, Seat) -> R,
    ) -> Vec<T> {
        let mut waiting: Vec<VecDeque<usize>> = vec![VecDeque::new(); self.drives.len()];
        places.iter().enumerate().for_each(|(job, place)| waiting[*place].push_back(job));
        let mut results: Vec<Option<T>> = places.iter().map(|_| None).collect();
        let seats = self.drives.len() * READERS;
        let desk = Rc::new(Desk::default());
        desk.seats.borrow_mut().resize_with(seats, Answers::default);
        let mut readers: Vec<Option<(usize, Pin<Box<R>>)>> = (0..seats).map(|_| None).collect();
        let mut due: Vec<usize> = (0..seats).collect();
        let mut answers = Vec::new();
        loop {
            for number in due.drain(..) {
                let place = number / READERS;
                loop {
                    if readers[number].is_none() {
                        let Some(job) = waiting[place].pop_front() else { break };
                        let seat = Seat { desk: Rc::clone(&desk), number, place };
                        readers[number] = Some((job, Box::pin(begin(job, seat))));
                    }
                    let (job, reader) = readers[number].as_mut().expect("one sits there");
                    match reader.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                        Poll::Pending => break,
                        Poll::Ready(result) => results[*job] = Some(result),
                    }
                    readers[number] = None;
                }
            }
            desk.asked.borrow_mut().drain(..).for_each(|command| self.drives.submit(self.now, command));
            if readers.iter().all(Option::is_none) {
                return results.into_iter().map(|result| result.expect("no reader is left")).collect();
            }
            self.now = self.drives.await_answers(self.now, &mut answers);
            for (_, completion) in answers.drain(..) {
                let token = usize::try_from(completion.token.0).expect("made of a seat");
                if desk.seats.borrow_mut()[token / COMMANDS].take(token % COMMANDS, completion) {
                    due.push(token / COMMANDS);
                }
            }
        }
    }
}

fn well(place: usize, completion: Completion) -> Result<Completion, MountError> {
    match completion.status {
        Status::Success => Ok(completion),
        status => Err(MountError::Drive { place, status }),
    }
}

/// Commands of readers, and answers to them by seat.
#[derive(Default)]
struct Desk {
    asked: RefCell<Vec<DriveCommand>>,
    seats: RefCell<Vec<Answers>>,
}

/// Answers to what a reader has asked.
#[derive(Default)]
struct Answers {
    there: Vec<Option<Completion>>,
    missing: usize,
}

impl Answers {
    /// Takes an answer; true when it was the last.
    fn take(&mut self, number: usize, completion: Completion) -> bool {
        let before = self.there[number].replace(completion);
        assert!(before.is_none(), "a command is answered once");
        self.missing -= 1;
        self.missing == 0
    }
}

/// Seat of a reader: through it, the reader asks one drive and awaits answers.
pub struct Seat {
    desk: Rc<Desk>,
    number: usize,
    place: usize,
}

impl Seat {
    /// Place of the drive.
    pub fn place(&self) -> usize {
        self.place
    }

    /// Runs a command of the drive to its end.
    pub async fn ask(&self, zone: ZoneIndex, op: Op) -> Result<Completion, MountError> {
        self.ask_all(zone, vec![op]).await.pop().expect("one answer for one command")
    }

    /// Runs commands of the drive to their ends, at most [`COMMANDS`] at a time; the answers are in their order.
    pub async fn ask_all(&self, zone: ZoneIndex, ops: Vec<Op>) -> Vec<Result<Completion, MountError>> {
        assert!((1..=COMMANDS).contains(&ops.len()), "{} commands at once", ops.len());
        let answers = Answers { there: ops.iter().map(|_| None).collect(), missing: ops.len() };
        let before = std::mem::replace(&mut self.desk.seats.borrow_mut()[self.number], answers);
        assert!(before.there.is_empty(), "a reader waits for what it has asked");
        let drive = DriveIndex::at(self.place);
        for (number, op) in ops.into_iter().enumerate() {
            let token = Token((self.number * COMMANDS + number) as u64);
            self.desk.asked.borrow_mut().push(DriveCommand { drive, command: Command { token, zone, op } });
        }
        let all = poll_fn(|_| match &mut self.desk.seats.borrow_mut()[self.number] {
            Answers { missing: 0, there } => Poll::Ready(std::mem::take(there)),
            _ => Poll::Pending,
        });
        all.await.into_iter().flatten().map(|answer| well(self.place, answer)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::time::Nanos;
    use zone::device::ZonedDevice;

    const ANSWER: Nanos = Nanos::from_micros(100);

    /// A drive that answers each command as long after it came, and no more than it may have readers.
    struct Slow {
        geometry: Geometry,
        under_way: VecDeque<(Instant, Completion)>,
    }

    impl ZonedDevice for Slow {
        fn geometry(&self) -> &Geometry {
            &self.geometry
        }

        fn submit(&mut self, now: Instant, Command { token, zone, op }: Command) {
            let Op::Read { offset, frames } = op else { panic!("readers read") };
            let completion =
                Completion { token, status: Status::Success, zone, offset, frames, report: Vec::new() };
            self.under_way.push_back((now + ANSWER, completion));
            assert!(self.under_way.len() <= READERS * COMMANDS);
        }

        fn poll(&mut self, now: Instant, completions: &mut Vec<Completion>) {
            let due = self.under_way.iter().take_while(|(due, _)| *due <= now).count();
            completions.extend(self.under_way.drain(..due).map(|(_, completion)| completion));
        }

        fn next_event(&self) -> Option<Instant> {
            self.under_way.front().map(|(due, _)| *due)
        }
    }

    fn slow() -> Option<Box<dyn ZonedDevice>> {
        let geometry = Geometry {
            zones: 64,
            zone_size_blocks: 16,
            zone_capacity_blocks: 16,
            open_zones_max: 0,
            active_zones_max: 0,
            append_blocks_max: 8,
            transfer_blocks_max: 8,
            volatile_cache: false,
            areas: None,
        };
        Some(Box::new(Slow { geometry, under_way: VecDeque::new() }))
    }

    #[test]
    fn readers_of_all_drives_wait_side_by_side() {
        let mut drives = DriveSet::new(vec![slow(), None, slow()]);
        let mut media = Media::new(&mut drives, Instant(0));
        // 20 zones of the first drive, each two reads and then one; one of the last drive.
        let mut places = vec![0; 20];
        places.push(2);
        let read = media.side_by_side(&places, async |job, seat: Seat| {
            let zone = ZoneIndex(u32::try_from(job).expect("few jobs"));
            let read = |offset| Op::Read { offset, frames: Vec::new() };
            let first = seat.ask_all(zone, vec![read(3), read(4)]).await;
            let second = seat.ask(zone, read(5)).await;
            let seen = first.into_iter().chain([second]).map(|read| read.expect("it reads"));
            seen.map(|read| (seat.place(), read.zone.0, read.offset)).collect::<Vec<_>>()
        });
        assert_eq!(read.len(), 21);
        assert_eq!(read[7], [(0, 7, 3), (0, 7, 4), (0, 7, 5)]);
        assert_eq!(read[20], [(2, 20, 3), (2, 20, 4), (2, 20, 5)]);
        // Twice for each of 16 zones at a time, then for the other four.
        assert_eq!(media.now(), Instant(0) + ANSWER + ANSWER + ANSWER + ANSWER);
    }

    #[test]
    fn a_drive_that_is_missing_answers_so() {
        let mut drives = DriveSet::new(vec![slow(), None]);
        let mut media = Media::new(&mut drives, Instant(0));
        let refused = media.run(1, ZoneIndex(0), Op::Flush).map(|_| ());
        assert_eq!(refused, Err(MountError::Drive { place: 1, status: Status::DeviceGone }));
    }
}
