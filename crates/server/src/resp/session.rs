//! A client's conversation: commands are begun in order, requests of several are under way at a time,
//! answers leave in order.
//!
//! ```text
//! input  | command being run | next | next, incomplete
//!            cursor ^                                     a command of many keys goes on where it was
//! queue  commands of a transaction that runs; they come before the input
//! pending answers and commands under way, in order -> output
//! ```
//!
//! A session that has much under way, or answers that nobody reads, begins nothing more: what a client can make a
//! server hold is bounded by that, and by the size of what it has sent. [`Pause`] says what it waits for.
//!
//! Commands of one session whose order could matter beyond a single key (FLUSHALL, DBSIZE, MSETNX) are *fences*: they
//! begin when all before them are answered, and nothing begins before they are.

use super::answer::{Answer, Output, Protocol};
use super::call::{Call, Step};
use super::front::{Backend, Delivery, Front};
use super::parser::{Arguments, Limits, OwnedArguments, Parsed, Parser};
use super::pending::{Form, Pending, Tally};
use super::settings::Settings;
use super::survey::Wanted;
use super::table::{self, Command, Refused};
use crate::slab::Key;
use cache::request::{Namespace, WallMillis};
use std::collections::VecDeque;
use std::fmt::Display;

/// Requests of one session under way.
const REQUESTS_MAX: usize = 128;
/// Answers that a session may hold before it begins nothing more, in bytes.
const ANSWERS_BYTES_MAX: usize = 1 << 20;
/// Answers that a session may hold, by number.
const ANSWERS_MAX: usize = 4096;
/// The command that ends a transaction, whatever becomes of it.
const EXEC: &str = "exec";
const NOAUTH: &str = "NOAUTH Authentication required.";

/// What a session waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// More bytes of the client.
    Bytes,
    /// Outcomes of its requests.
    Outcomes,
    /// The sending of its answers.
    Output,
    /// Memory, or the end of another's exclusive command.
    Turn,
    /// [`Front::survey`].
    Survey(Wanted),
    /// Nothing: what is under way will be answered, and nothing else.
    Leaving,
}

/// What is known of a client.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Number among all clients that ever were.
    pub id: u64,
    /// Where it is, and where it came to.
    pub addresses: (String, String),
    /// Its descriptor.
    pub descriptor: i32,
    /// Its name, as CLIENT SETNAME says.
    pub name: Vec<u8>,
    /// Name and version of its library.
    pub library: (Vec<u8>, Vec<u8>),
    /// Database.
    pub namespace: Namespace,
    /// Time of its coming.
    pub since: WallMillis,
    /// Time of its last command.
    pub active: WallMillis,
    /// Its last command.
    pub last: &'static str,
    /// Bytes it has sent that were not parsed when its last command began, and the command.
    pub query_bytes: usize,
}

/// A transaction between MULTI and EXEC.
#[derive(Debug, Default)]
pub struct Transaction {
    pub(super) queue: VecDeque<OwnedArguments>,
    /// A command could not be queued.
    pub(super) is_broken: bool,
    bytes: usize,
}

/// Whether a client is told answers (CLIENT REPLY).
#[derive(Clone, Copy, Debug, Default)]
pub struct Hearing {
    /// Nothing, until it says otherwise.
    pub(super) is_off: bool,
    /// Not that to the next command.
    pub(super) skips_next: bool,
    /// Not those to the command that is being run.
    pub(super) is_muted: bool,
}

impl Hearing {
    /// A command begins.
    fn begin(&mut self) {
        self.is_muted = self.is_off || std::mem::take(&mut self.skips_next);
    }
}

/// All of a session but its parser, which lends out the arguments.
#[derive(Debug)]
pub struct State {
    /// Facts.
    pub facts: Facts,
    pub(super) protocol: Protocol,
    pub(super) is_stranger: bool,
    pub(super) hearing: Hearing,
    pub(super) transaction: Option<Transaction>,
    /// Commands of the transaction that runs.
    pub(super) queue: VecDeque<OwnedArguments>,
    /// No more commands are taken.
    pub(super) is_leaving: bool,
    pending: Pending,
    output: Output,
    /// Nothing begins before what is pending is answered.
    is_fenced: bool,
}

/// Where the arguments of a command are.
#[derive(Debug)]
enum Source {
    /// In the input, with this many bytes.
    Input(usize),
    /// Here.
    Owned(OwnedArguments),
}

#[derive(Debug)]
struct Running {
    source: Source,
    command: &'static Command,
    cursor: usize,
    waits: bool,
}

/// See the module.
#[derive(Debug)]
pub struct Session {
    key: Option<Key>,
    state: State,
    parser: Parser,
    running: Option<Running>,
}

impl State {
    /// True when one more request may be sent on its way, or one more answer given.
    pub(super) fn has_room(&self) -> bool {
        self.pending.requests() < REQUESTS_MAX && self.answers_bytes() < ANSWERS_BYTES_MAX
    }

    /// A command that one outcome will answer.
    pub(super) fn expect_one(&mut self, form: Form) -> u64 {
        self.pending.push_one(self.tongue(), form)
    }

    /// A command that many outcomes will answer.
    pub(super) fn expect_many(&mut self, tally: Tally) {
        self.pending.push_many(self.tongue(), tally);
    }

    /// One more outcome for a command of many.
    pub(super) fn expect_more(&mut self, sequence: u64) {
        self.pending.expect_more(sequence);
    }

    /// No more requests for a command of many.
    pub(super) fn expect_no_more(&mut self, sequence: u64) {
        self.pending.expect_no_more(sequence);
    }

    /// Outcomes still to come for a command of many, and how many counted.
    pub(super) fn standing(&mut self, sequence: u64) -> (usize, i64) {
        self.pending.standing(sequence)
    }

    /// Sequence of the last command.
    pub(super) fn last_sequence(&self) -> u64 {
        self.pending.last_sequence()
    }

    /// An answer, behind all that came before.
    pub(super) fn answer(&mut self, answer: Answer) {
        let Some(protocol) = self.tongue() else { return };
        if self.pending.is_empty() {
            answer.write(protocol, &mut self.output);
        } else {
            self.pending.push_answer(protocol, answer);
        }
    }

    /// Protocol of the answers to the command that is being run; `None` when they are not told.
    fn tongue(&self) -> Option<Protocol> {
        (!self.hearing.is_muted).then_some(self.protocol)
    }

    /// Nothing begins before all that was begun is answered.
    pub(super) fn fence(&mut self) {
        self.is_fenced = true;
    }

    /// Bytes of answers that the client has not taken.
    pub(super) fn answers_held(&self) -> usize {
        self.answers_bytes()
    }

    fn answers_bytes(&self) -> usize {
        self.output.len() + self.pending.bytes_held()
    }

    fn write_answers(&mut self) {
        while let Some((protocol, answer)) = self.pending.next_answer() {
            if let Some(protocol) = protocol {
                answer.write(protocol, &mut self.output);
            }
        }
        self.is_fenced &= !self.pending.is_empty();
    }
}

impl Session {
    /// A conversation that begins. `facts` are those of a client that has said nothing.
    #[must_use]
    pub fn new(facts: Facts, settings: &Settings) -> Session {
        let limits = Limits {
            bulk_bytes_max: settings.object_bytes_max,
            command_bytes_max: settings.command_bytes_max(),
        };
        let state = State {
            facts,
            protocol: Protocol::Two,
            is_stranger: settings.password.is_some(),
            hearing: Hearing::default(),
            transaction: None,
            queue: VecDeque::new(),
            is_leaving: false,
            pending: Pending::default(),
            output: Output::default(),
            is_fenced: false,
        };
        Session { key: None, state, parser: Parser::new(limits), running: None }
    }

    /// Facts about the client.
    #[must_use]
    pub fn facts(&self) -> &Facts {
        &self.state.facts
    }

    /// What CLIENT LIST says of it.
    #[must_use]
    pub fn line(&self, front: &Front) -> String {
        super::commands::client::line(&self.state, front)
    }

    /// Goes on as far as it can with `input`, all bytes of the client that were not consumed. Returns how many are now,
    /// and what it waits for.
    pub fn advance(
        &mut self,
        key: Key,
        input: &[u8],
        front: &mut Front,
        cache: &mut dyn Backend,
    ) -> (usize, Pause) {
        self.key = Some(key);
        let mut consumed = 0;
        loop {
            assert!(consumed <= input.len(), "{consumed} bytes are consumed of {}", input.len());
            self.state.write_answers();
            if self.state.is_leaving && self.running.is_none() {
                front.admit_others(key);
                return (input.len(), Pause::Leaving);
            }
            if let Some(pause) = self.pause(key, front) {
                return (consumed, pause);
            }
            match self.find_command(&input[consumed..], front) {
                Found::Ready => {}
                Found::Nothing(count) => {
                    consumed += count;
                    continue;
                }
                Found::Incomplete => return (consumed, Pause::Bytes),
            }
            match self.run(key, &input[consumed..], front, cache) {
                Ok(count) => consumed += count,
                Err(pause) => return (consumed, pause),
            }
        }
    }

    /// An outcome of the cache for this session.
    pub fn on_outcome(&mut self, delivery: Delivery, front: &mut Front) {
        self.state.pending.on_outcome(delivery.sequence, delivery.outcome, front.wall);
        if let Some(running) = &mut self.running {
            running.waits = false;
        }
        self.state.write_answers();
    }

    /// Answers to send.
    pub fn output(&mut self) -> &mut Output {
        &mut self.state.output
    }

    /// True when all has been said and the output is empty.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.state.is_leaving && self.state.pending.is_empty() && self.state.output.is_empty()
    }

    /// True when the client has a command half sent.
    #[must_use]
    pub fn is_mid_command(&self) -> bool {
        self.running.is_none() && !self.parser.is_at_rest()
    }

    /// True when nothing is under way.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        self.running.is_none() && self.state.pending.is_empty() && self.state.queue.is_empty()
    }

    /// Bytes of the command that is arriving, as far as is known.
    #[must_use]
    pub fn bytes_needed(&self) -> usize {
        self.parser.bytes_needed()
    }

    /// Takes no more commands; what is under way will be answered.
    pub fn leave(&mut self) {
        self.state.is_leaving = true;
    }

    /// The client is gone.
    pub fn close(&mut self, front: &mut Front) {
        self.state.is_leaving = true;
        if let Some(key) = self.key {
            front.admit_others(key);
        }
    }

    /// Memory that the session takes, but for its input, in bytes.
    #[must_use]
    pub fn bytes_held(&self) -> usize {
        let state = &self.state;
        let queued: usize = state.queue.iter().map(OwnedArguments::bytes_held).sum();
        let transaction = state.transaction.as_ref().map_or(0, |transaction| transaction.bytes);
        let answers = state.output.bytes_held() + state.pending.bytes_held();
        self.parser.bytes_held() + queued + transaction + answers
    }

    /// What keeps the session from beginning anything, if something does.
    fn pause(&self, key: Key, front: &Front) -> Option<Pause> {
        let state = &self.state;
        let goes_on = self.running.as_ref().is_some_and(|running| running.cursor > 0);
        if self.running.as_ref().is_some_and(|running| running.waits) {
            return Some(Pause::Outcomes);
        }
        if state.is_fenced && !goes_on {
            return Some(Pause::Outcomes);
        }
        if state.output.len() >= ANSWERS_BYTES_MAX {
            return Some(Pause::Output);
        }
        if !state.has_room() || state.pending.bytes_held() / size_of::<Answer>() >= ANSWERS_MAX {
            return Some(if state.pending.is_empty() { Pause::Output } else { Pause::Outcomes });
        }
        let is_short = goes_on && !front.may_submit(0);
        (!front.admits(key) || is_short).then_some(Pause::Turn)
    }

    /// Sees to it that there is a command to run.
    fn find_command(&mut self, input: &[u8], front: &mut Front) -> Found {
        if self.running.is_some() {
            return Found::Ready;
        }
        if let Some(owned) = self.state.queue.pop_front() {
            let found = table::find(owned.arguments()).expect("only commands that exist are queued");
            self.running =
                Some(Running { source: Source::Owned(owned), command: found, cursor: 0, waits: false });
            return Found::Ready;
        }
        match self.parser.parse(input, self.state.is_stranger) {
            Parsed::Incomplete => Found::Incomplete,
            Parsed::Failed(error) => {
                front.statistics.errors += 1;
                self.state.answer(Answer::error(error));
                self.state.is_leaving = true;
                Found::Nothing(input.len())
            }
            Parsed::Command(count) => {
                self.state.facts.query_bytes = input.len();
                self.state.hearing.begin();
                let arguments = self.parser.arguments(input);
                match admit(arguments, &mut self.state, front) {
                    Some(command) => {
                        let source = Source::Input(count);
                        self.running = Some(Running { source, command, cursor: 0, waits: false });
                        Found::Ready
                    }
                    None => Found::Nothing(count),
                }
            }
        }
    }

    /// Runs the command as far as it goes. Returns the bytes of input that it took once it is through.
    fn run(
        &mut self,
        key: Key,
        input: &[u8],
        front: &mut Front,
        cache: &mut dyn Backend,
    ) -> Result<usize, Pause> {
        let running = self.running.as_mut().expect("a command was found");
        assert!(!running.waits, "`{}` goes on, and waits for outcomes", running.command.full_name);
        let command = running.command;
        if running.cursor == 0 {
            if command.is_fence && !self.state.pending.is_empty() {
                return Err(Pause::Outcomes);
            }
            if command.keys.first != 0 && !front.may_submit(0) {
                return Err(Pause::Turn);
            }
            self.state.facts.last = command.full_name;
            self.state.facts.active = front.wall;
        }
        let arguments = match &running.source {
            Source::Input(_) => self.parser.arguments(input),
            Source::Owned(owned) => owned.arguments(),
        };
        let (cursor, state) = (running.cursor, &mut self.state);
        let step = (command.run)(&mut Call { arguments, cursor, client: key, state, front, cache });
        match step {
            Step::More(cursor) => {
                assert!(cursor >= running.cursor, "`{}` goes back to {cursor}", command.full_name);
                running.cursor = cursor;
                return Ok(0);
            }
            Step::Wait(cursor) => {
                let is_owed = cursor >= running.cursor && !self.state.pending.is_empty();
                assert!(is_owed, "`{}` waits at {cursor} for nothing", command.full_name);
                (running.cursor, running.waits) = (cursor, true);
                return Err(Pause::Outcomes);
            }
            Step::Needs(wanted) => return Err(Pause::Survey(wanted)),
            Step::Answer(answer) => {
                front.statistics.errors += u64::from(matches!(answer, Answer::Error(_)));
                self.state.answer(answer);
            }
            Step::Started => {}
        }
        front.statistics.commands += 1;
        if command.is_fence && !self.state.pending.is_empty() {
            self.state.fence();
        }
        let source = self.running.take().map(|running| running.source);
        let count = if let Some(Source::Input(count)) = source { count } else { 0 };
        assert!(count <= input.len(), "a command of {count} bytes in an input of {}", input.len());
        Ok(count)
    }
}

enum Found {
    /// A command is to be run.
    Ready,
    /// These bytes of the input are done with.
    Nothing(usize),
    /// The command is not whole.
    Incomplete,
}

/// Decides whether a command is run now. Else it is answered here.
fn admit(arguments: Arguments<'_>, state: &mut State, front: &mut Front) -> Option<&'static Command> {
    if arguments.is_empty() {
        return None;
    }
    if table::is_http(arguments.at(0)) {
        log::warn!("client {}: closed, because it speaks HTTP", state.facts.id);
        state.is_leaving = true;
        return None;
    }
    let found = table::find(arguments);
    let answer = match found {
        Err(Refused::Arity(name)) if name == EXEC => {
            state.transaction = None;
            aborted(&Refused::Arity(name))
        }
        Err(refused) => {
            if let Some(transaction) = &mut state.transaction {
                transaction.is_broken = true;
            }
            Answer::error(refused)
        }
        Ok(command) if state.is_stranger && !command.has_flag("no_auth") => {
            if command.name == EXEC {
                aborted(&NOAUTH)
            } else {
                Answer::Error(NOAUTH.into())
            }
        }
        Ok(command) => match &mut state.transaction {
            Some(transaction) if !command.is_at_once => {
                let owned = arguments.to_owned();
                transaction.bytes += owned.bytes_held() + size_of::<OwnedArguments>();
                transaction.queue.push_back(owned);
                Answer::Simple("QUEUED")
            }
            _ => return Some(command),
        },
    };
    front.statistics.errors += u64::from(matches!(answer, Answer::Error(_)));
    state.answer(answer);
    None
}

/// Answer to an EXEC that is refused: there is no transaction any more.
fn aborted(why: &dyn Display) -> Answer {
    Answer::Error(format!("EXECABORT Transaction discarded because of: {why}").into())
}

#[cfg(test)]
mod tests;
