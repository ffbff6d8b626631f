//! A cache on the heap: the model that tests hold front ends against.
//!
//! Requests of one key are answered in order, those of different keys in an order of chance, a few in each turn. Nothing is
//! ever forgotten, so answers are those of Redis.

use base::random::Random;
use base::time::Instant;
use cache::request::{
    Cache, Change, Kind, Namespace, Object, Op, Outcome, Refusal, Reply, Request, Told, Walk, WallMillis,
};
use std::collections::BTreeMap;

type Place = (Namespace, Vec<u8>);

/// See the module.
pub struct MemoryCache {
    objects: BTreeMap<Place, Object>,
    /// Times at which namespaces are cleared.
    planned: BTreeMap<Namespace, WallMillis>,
    waiting: Vec<Request>,
    random: Random,
    /// Most requests answered in a turn.
    pub answers_per_turn: usize,
    /// Writes are refused, as without drives.
    pub is_read_only: bool,
}

impl MemoryCache {
    /// An empty cache; `seed` decides the order of answers.
    pub fn new(seed: u64) -> MemoryCache {
        let (objects, planned, waiting) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        let random = Random::from_seed(seed);
        MemoryCache { objects, planned, waiting, random, answers_per_turn: 4, is_read_only: false }
    }

    /// The first request that nobody has to answer before the chosen one.
    fn next(&mut self) -> usize {
        let chosen = self.random.index(self.waiting.len());
        let blocks = |request: &Request, other: &Request| match (place(request), place(other)) {
            (Some(a), Some(b)) => a == b,
            _ => true,
        };
        let chosen_request = &self.waiting[chosen];
        self.waiting[..chosen].iter().position(|earlier| blocks(earlier, chosen_request)).unwrap_or(chosen)
    }

    fn live(&mut self, place: &Place, wall: WallMillis) -> Option<Object> {
        let is_over = |object: &Object| object.expires.is_some_and(|end| end <= wall);
        if self.objects.get(place).is_some_and(is_over) {
            self.objects.remove(place);
        }
        self.objects.get(place).cloned()
    }

    fn serve(&mut self, request: Request, wall: WallMillis) -> Outcome {
        let namespace = request.namespace;
        if self.is_read_only && !matches!(request.op, Op::Get { .. } | Op::GetPart { .. } | Op::Walk(_)) {
            return Outcome::Refused(Refusal::NoDrive);
        }
        match request.op {
            Op::Get { key } => Outcome::Found(self.live(&(namespace, key), wall)),
            Op::GetPart { key, part } => {
                Outcome::Found(self.live(&(namespace, key), wall).map(|object| part.cut(object)))
            }
            Op::Set { key, object } => {
                self.objects.insert((namespace, key), object);
                Outcome::Stored
            }
            Op::Remove { key } => {
                let place = (namespace, key);
                let was_there = self.live(&place, wall).is_some();
                self.objects.remove(&place);
                Outcome::Removed(was_there)
            }
            Op::Update { key, decide } => {
                let place = (namespace, key);
                let before = self.live(&place, wall);
                let change = match decide(before.as_ref(), wall) {
                    Change::Keep => Kind::Kept,
                    Change::Store(object) => {
                        self.objects.insert(place, object);
                        Kind::Stored
                    }
                    Change::Remove => {
                        self.objects.remove(&place);
                        Kind::Removed
                    }
                };
                Outcome::Updated { before, change }
            }
            Op::Walk(walk) => self.walk(namespace, &walk, wall),
            Op::Clear { namespace } => {
                self.objects.retain(|place, _| namespace.is_some_and(|namespace| place.0 != namespace));
                Outcome::Cleared
            }
            Op::ClearAt { at } => {
                self.planned.insert(namespace, at);
                self.clear_due(wall);
                Outcome::Cleared
            }
        }
    }
}

impl MemoryCache {
    /// Clears what is due.
    fn clear_due(&mut self, wall: WallMillis) {
        let due = self.planned.extract_if(.., |_, at| *at <= wall);
        for (namespace, _) in due {
            self.objects.retain(|place, _| place.0 != namespace);
        }
    }

    /// Keys in their order, from the one whose number is `from` on.
    fn walk(&mut self, namespace: Namespace, walk: &Walk, wall: WallMillis) -> Outcome {
        let own = self.objects.iter().filter(|(place, _)| place.0 == namespace);
        let told = |(place, object): (&Place, &Object)| Told {
            namespace,
            key: place.1.clone(),
            value_bytes: object.value.len() as u64,
            expires: object.expires,
        };
        let mut keys: Vec<Told> = own.map(told).collect();
        let from = if walk.wraps { walk.from % 1000 } else { walk.from };
        let from = usize::try_from(from).unwrap_or(usize::MAX).min(keys.len());
        if walk.wraps {
            keys.rotate_left(from);
        } else {
            keys.drain(..from);
        }
        let count = usize::try_from(walk.idents_max).unwrap_or(usize::MAX).min(keys.len());
        let rest = keys.split_off(count);
        let next = u64::try_from(from + count).expect("memory has less than 2^64 bytes");
        keys.retain(|told| {
            self.live(&(namespace, told.key.clone()), wall).is_some() && walk.chosen.chooses(&told.key)
        });
        Outcome::Walked { keys, next: (!rest.is_empty()).then_some(next) }
    }
}

fn place(request: &Request) -> Option<(Namespace, &[u8])> {
    match &request.op {
        Op::Get { key }
        | Op::GetPart { key, .. }
        | Op::Set { key, .. }
        | Op::Remove { key }
        | Op::Update { key, .. } => Some((request.namespace, key)),
        Op::Walk(_) | Op::Clear { .. } | Op::ClearAt { .. } => None,
    }
}

impl Cache for MemoryCache {
    fn submit(&mut self, _: Instant, _: WallMillis, request: Request) {
        self.waiting.push(request);
    }

    fn turn(&mut self, _: Instant, wall: WallMillis, replies: &mut Vec<Reply>) -> bool {
        self.clear_due(wall);
        for _ in 0..self.answers_per_turn.min(self.waiting.len()) {
            let index = self.next();
            let request = self.waiting.remove(index);
            let id = request.id;
            let outcome = self.serve(request, wall);
            replies.push(Reply { id, outcome });
        }
        !self.waiting.is_empty()
    }

    fn next_deadline(&self) -> Option<Instant> {
        None
    }

    fn objects(&self, namespace: Namespace) -> u64 {
        let count = self.objects.keys().filter(|place| place.0 == namespace).count();
        u64::try_from(count).expect("memory has less than 2^64 bytes")
    }
}
