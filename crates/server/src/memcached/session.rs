//! A client's conversation: requests are begun in order, several are under way at a time, answers leave in order.
//!
//! As a session of RESP, one that has much under way, or answers that nobody reads, begins nothing more. `flush_all` is a
//! fence: it begins when all before it are answered, and nothing begins before it is. `mg` looks first, and asks again where
//! somebody has to be told to make the object anew: what changes the key waits until that is asked.

use super::keys::Keys;
use super::operations::{self as ask, Asked, Form, Next};
use super::reader::{Read, Reader};
use super::request::Request;
use super::said::Said;
use super::statistics;
use crate::resp::answer::Output;
use crate::resp::front::{Backend, Delivery, Front};
use crate::resp::session::Pause;
use crate::resp::settings::Settings;
use crate::resp::survey::Wanted;
use crate::slab::Key;
use base::checksum::crc32c;
use cache::request::{Namespace, Op};
use std::collections::VecDeque;
use std::fmt;

/// Requests of one session under way.
const REQUESTS_MAX: usize = 128;
/// Answers that a session may hold before it begins nothing more, in bytes and in number.
const ANSWERS_BYTES_MAX: usize = 1 << 20;
const ANSWERS_MAX: usize = 4096;

/// A request under way.
enum Entry {
    Done(Said),
    Waiting(Form),
    /// A look at a key, by the checksum of it, after which the same may be asked again.
    Looking(Form, u32),
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Entry::Done(_) => "Done",
            Entry::Waiting(_) => "Waiting",
            Entry::Looking(..) => "Looking",
        })
    }
}

/// A retrieval of which keys are still to be asked for.
#[derive(Debug)]
struct Gets {
    keys: Keys,
    tells_cas: bool,
    expiry: Option<i32>,
}

/// A request that waits for looks.
struct Held(Asked);

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Held")
    }
}

/// See the module.
#[derive(Debug)]
pub struct Session {
    /// Number among all clients that ever were.
    pub id: u64,
    /// Namespace of all its keys: a database of Redis'.
    namespace: Namespace,
    reader: Reader,
    gets: Option<Gets>,
    /// A flush that waits for what came before it: its delay, and whether nothing is said of it.
    flush: Option<(i32, bool)>,
    /// What `stats` asks, until it is known.
    statistics: Option<Vec<u8>>,
    /// What changes a key at which somebody looks.
    held: Option<Held>,
    entries: VecDeque<Entry>,
    /// Sequence of the first entry.
    first: u64,
    requests: usize,
    /// Those of them that are looks.
    looks: usize,
    answers_bytes: usize,
    output: Output,
    is_fenced: bool,
    is_leaving: bool,
}

/// A number for a marking, never zero.
fn number(front: &mut Front) -> u32 {
    u32::try_from(front.random.below((1 << 30) - 1)).expect("30 bits") + 1
}

impl Session {
    /// A conversation that begins, about keys of a namespace.
    #[must_use]
    pub fn new((id, namespace): (u64, Namespace), settings: &Settings) -> Session {
        Session {
            id,
            namespace,
            reader: Reader::new(usize::try_from(settings.object_bytes_max).unwrap_or(usize::MAX)),
            gets: None,
            flush: None,
            statistics: None,
            held: None,
            entries: VecDeque::new(),
            first: 0,
            requests: 0,
            looks: 0,
            answers_bytes: 0,
            output: Output::default(),
            is_fenced: false,
            is_leaving: false,
        }
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
        let mut consumed = 0;
        loop {
            assert!(consumed <= input.len(), "{consumed} bytes are consumed of {}", input.len());
            self.write_answers();
            if self.is_leaving && self.has_begun_all() {
                return (input.len(), Pause::Leaving);
            }
            if let Some(pause) = self.pause(key, front) {
                return (consumed, pause);
            }
            if let Some(Held(asked)) = self.held.take() {
                self.send(key, asked, front, cache);
                if self.held.is_some() {
                    return (consumed, Pause::Outcomes);
                }
                continue;
            }
            if let Some((delay, is_quiet)) = self.flush.take() {
                self.send(key, ask::flush(delay, is_quiet, front.wall), front, cache);
                self.is_fenced = true;
                continue;
            }
            if self.go_on_getting(key, front, cache) {
                continue;
            }
            if let Some(what) = self.statistics.take() {
                match statistics::tell(&what, self.namespace, front) {
                    Some(said) => self.say(said),
                    None => {
                        self.statistics = Some(what);
                        return (consumed, Pause::Survey(Wanted::Figures));
                    }
                }
                continue;
            }
            match self.reader.next(&input[consumed..]) {
                Read::Incomplete => return (consumed, Pause::Bytes),
                Read::Nothing(count) => consumed += count,
                Read::Endless => {
                    front.statistics.errors += 1;
                    self.is_leaving = true;
                }
                Read::Request(count, request) => {
                    consumed += count;
                    front.statistics.commands += 1;
                    self.begin(key, request, front, cache);
                }
                Read::Block(count, store, value) => {
                    consumed += count;
                    front.statistics.commands += 1;
                    match value {
                        Some(value) => {
                            front.usage.store(self.namespace, &store.key, front.wall);
                            let asked = ask::store(store, value, number(front), front.wall);
                            self.send(key, asked, front, cache);
                        }
                        None if self.reader.is_too_large(&store) => {
                            self.send(key, ask::too_large(store), front, cache);
                        }
                        None => self.say(Said::line("CLIENT_ERROR bad data chunk")),
                    }
                }
            }
        }
    }

    fn begin(&mut self, client: Key, request: Request, front: &mut Front, cache: &mut dyn Backend) {
        let asked = match request {
            Request::Say(text) => return self.say(Said::line(text)),
            Request::Statistics(what) => return self.statistics = Some(what),
            Request::Quit => return self.is_leaving = true,
            Request::Get { keys, tells_cas, expiry } => {
                self.gets = Some(Gets { keys, tells_cas, expiry });
                return;
            }
            Request::Flush { delay, is_quiet } => {
                self.flush = Some((delay, is_quiet));
                self.is_fenced = true;
                return;
            }
            Request::Add { key, delta, is_less, is_quiet } => ask::add(key, delta, is_less, is_quiet),
            Request::Delete { key, is_quiet } => ask::delete(key, is_quiet),
            Request::Touch { key, expiry, is_quiet } => ask::touch(key, expiry, is_quiet),
            Request::MetaGet(key, mut meta) => {
                meta.used = front.usage.of(self.namespace, &key, front.wall);
                if !meta.is_no_use {
                    front.usage.read(self.namespace, &key, front.wall);
                }
                let sum = crc32c(&key);
                let (op, form, bytes) = ask::meta_get(key, meta, number(front));
                if matches!(op, Op::Get { .. }) {
                    self.looks += 1;
                    return self.submit(client, (op, bytes), Entry::Looking(form, sum), front, cache);
                }
                (op, form, bytes)
            }
            Request::MetaDelete(key, meta) => ask::meta_delete(key, meta, number(front)),
            Request::MetaAdd(key, meta) => ask::meta_add(key, meta),
            Request::MetaDebug(key, mut meta) => {
                meta.used = front.usage.of(self.namespace, &key, front.wall);
                ask::meta_debug(key, meta)
            }
            Request::Store(_) | Request::Swallow(..) => {
                unreachable!("the reader keeps these for their blocks")
            }
        };
        self.send(client, asked, front, cache);
    }

    /// Asks for the next key of a retrieval; false when there is none.
    fn go_on_getting(&mut self, key: Key, front: &mut Front, cache: &mut dyn Backend) -> bool {
        let Some(gets) = &mut self.gets else { return false };
        match gets.keys.next() {
            Some(name) => {
                front.usage.read(self.namespace, &name, front.wall);
                let asked = ask::get(name, gets.tells_cas, gets.expiry);
                self.send(key, asked, front, cache);
            }
            None => {
                self.gets = None;
                self.say(Said::line("END"));
            }
        }
        true
    }

    /// Asks, or does so later, when nobody looks at the key any more.
    fn send(&mut self, client: Key, asked: Asked, front: &mut Front, cache: &mut dyn Backend) {
        if self.waits_for_looks(&asked) {
            assert!(self.held.is_none(), "one request waits for looks, and all others for it");
            self.held = Some(Held(asked));
            return;
        }
        let (op, form, bytes) = asked;
        self.submit(client, (op, bytes), Entry::Waiting(form), front, cache);
    }

    fn submit(
        &mut self,
        client: Key,
        asked: (Op, usize),
        entry: Entry,
        front: &mut Front,
        cache: &mut dyn Backend,
    ) {
        let sequence =
            self.first + u64::try_from(self.entries.len()).expect("memory has less than 2^64 bytes");
        self.entries.push_back(entry);
        self.requests += 1;
        assert!(self.requests <= self.entries.len(), "{} requests have no place", self.requests);
        front.submit(cache, (client, sequence), self.namespace, asked);
    }

    /// True for what may change a key at which an earlier request looks, and which it may ask for again. Another key of the same
    /// checksum waits for nothing but time.
    fn waits_for_looks(&self, (op, ..): &Asked) -> bool {
        let (Op::Set { key, .. } | Op::Remove { key } | Op::Update { key, .. }) = op else { return false };
        let is_at = |entry: &Entry, sum| matches!(entry, Entry::Looking(_, at) if *at == sum);
        self.looks > 0 && {
            let sum = crc32c(key);
            self.entries.iter().any(|entry| is_at(entry, sum))
        }
    }

    /// True when all that was read was begun.
    fn has_begun_all(&self) -> bool {
        self.gets.is_none() && self.flush.is_none() && self.statistics.is_none() && self.held.is_none()
    }

    fn say(&mut self, said: Said) {
        if self.entries.is_empty() {
            said.write(&mut self.output);
        } else {
            self.answers_bytes += said.bytes_held();
            self.entries.push_back(Entry::Done(said));
        }
    }

    /// An outcome of the cache for this session.
    pub fn on_outcome(&mut self, delivery: Delivery, front: &mut Front, cache: &mut dyn Backend) {
        let (sequence, first, count) = (delivery.sequence, self.first, self.entries.len());
        assert!(sequence >= first, "request {sequence} was answered before {first}");
        let index = usize::try_from(sequence - first).expect("places in memory");
        assert!(index < count, "request {sequence} is not among the {count} from {first} on");
        let entry = &mut self.entries[index];
        let form = match std::mem::replace(entry, Entry::Done(Said::nothing())) {
            Entry::Waiting(form) => form,
            Entry::Looking(form, _) => {
                assert!(self.looks > 0, "a look ends that was not begun");
                self.looks -= 1;
                form
            }
            Entry::Done(_) => unreachable!("a request is answered once"),
        };
        let said = match form(delivery.outcome, front.wall) {
            Next::Say(said) => said,
            Next::Ask((op, form, bytes)) => {
                *entry = Entry::Waiting(form);
                return front.submit(
                    cache,
                    (delivery.client, delivery.sequence),
                    self.namespace,
                    (op, bytes),
                );
            }
        };
        self.answers_bytes += said.bytes_held();
        *entry = Entry::Done(said);
        assert!(self.requests > self.looks, "{} requests, of which {} look", self.requests, self.looks);
        self.requests -= 1;
        self.write_answers();
    }

    fn write_answers(&mut self) {
        while let Some(Entry::Done(_)) = self.entries.front() {
            let Some(Entry::Done(said)) = self.entries.pop_front() else { unreachable!("seen above") };
            self.first += 1;
            assert!(self.answers_bytes >= said.bytes_held(), "an answer is counted while it waits");
            self.answers_bytes -= said.bytes_held();
            said.write(&mut self.output);
        }
        let (requests, entries) = (self.requests, self.entries.len());
        assert!(requests <= entries, "{requests} requests are under way in {entries} places");
        self.is_fenced &= !(self.entries.is_empty() && self.flush.is_none());
    }

    /// What keeps the session from beginning anything, if something does.
    fn pause(&self, key: Key, front: &Front) -> Option<Pause> {
        if self.is_fenced && !self.entries.is_empty() {
            return Some(Pause::Outcomes);
        }
        if self.output.len() + self.answers_bytes >= ANSWERS_BYTES_MAX
            || self.requests >= REQUESTS_MAX
            || self.entries.len() >= ANSWERS_MAX
        {
            return Some(if self.entries.is_empty() { Pause::Output } else { Pause::Outcomes });
        }
        (!front.admits(key) || !front.may_submit(0)).then_some(Pause::Turn)
    }

    /// Answers to send.
    pub fn output(&mut self) -> &mut Output {
        &mut self.output
    }

    /// True when all has been said and the output is empty.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.is_leaving && self.is_at_rest() && self.output.is_empty()
    }

    /// True when the client has a request half sent.
    #[must_use]
    pub fn is_mid_command(&self) -> bool {
        !self.reader.is_at_rest()
    }

    /// True when nothing is under way.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        self.entries.is_empty() && self.has_begun_all()
    }

    /// Bytes of what is arriving, as far as is known.
    #[must_use]
    pub fn bytes_needed(&self) -> usize {
        self.reader.bytes_needed()
    }

    /// Takes no more requests; what is under way will be answered.
    pub fn leave(&mut self) {
        self.is_leaving = true;
    }

    /// Memory that the session takes, but for its input, in bytes.
    #[must_use]
    pub fn bytes_held(&self) -> usize {
        let keys = self.gets.as_ref().map_or(0, |gets| gets.keys.bytes_held());
        let entries = self.entries.len() * size_of::<Entry>() + self.answers_bytes;
        let held = self.held.as_ref().map_or(0, |Held((_, _, bytes))| *bytes);
        self.reader.bytes_held() + keys + held + entries + self.output.bytes_held()
    }
}

#[cfg(test)]
mod tests;
