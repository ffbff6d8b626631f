//! What an operator asks of a served cache and takes it several turns: he asks the same again until it is done.
//!
//! Each asker adds a word of his own to the line, so that two who want the same have an errand each. What is done waits for him who asked;
//! of those who never come back the oldest are forgotten.

use cache::format::NAMESPACES;
use cache::request::{Op, Outcome, Reply, RequestId};
use serde_json::Value;
use std::collections::VecDeque;

/// Errands at a time: what is told of one may be some MiB.
const ERRANDS_MAX: usize = 4;
/// Requests of clients have smaller numbers.
const FIRST_ID: u64 = 1 << 63;

/// Says what came of an errand.
type Say = fn(Outcome) -> Value;

struct Errand {
    line: String,
    id: RequestId,
    say: Say,
    done: Option<Value>,
}

/// See the module.
#[derive(Default)]
pub struct Errands {
    errands: VecDeque<Errand>,
    ever: u64,
}

impl Errands {
    fn find(&self, line: &str) -> Option<&Errand> {
        self.errands.iter().find(|errand| errand.line == line)
    }

    /// True when somebody has asked for an errand, and not taken what came of it.
    pub fn is_known(&self, line: &str) -> bool {
        self.find(line).is_some()
    }

    /// True when it is known what came of an errand.
    pub fn is_done(&self, line: &str) -> bool {
        self.find(line).is_some_and(|errand| errand.done.is_some())
    }

    /// Takes what came of an errand.
    pub fn take_done(&mut self, line: &str) -> Option<Value> {
        let place = self.errands.iter().position(|errand| errand.line == line && errand.done.is_some())?;
        self.errands.remove(place)?.done
    }

    /// Begins an errand, if one has room; a request for it is to be submitted then.
    pub fn begin(&mut self, line: &str, say: Say) -> Option<RequestId> {
        if self.errands.len() == ERRANDS_MAX {
            let left = self.errands.iter().position(|errand| errand.done.is_some())?;
            self.errands.remove(left);
        }
        let id = RequestId(FIRST_ID + self.ever);
        self.ever += 1;
        self.errands.push_back(Errand { line: line.to_owned(), id, say, done: None });
        Some(id)
    }

    /// Takes the replies that are for errands out of those for clients.
    pub fn take(&mut self, replies: &mut Vec<Reply>) {
        if self.errands.is_empty() {
            return;
        }
        for reply in replies.extract_if(.., |reply| reply.id.0 >= FIRST_ID) {
            let errand = self.errands.iter_mut().find(|errand| errand.id == reply.id);
            if let Some(errand) = errand {
                errand.done = Some((errand.say)(reply.outcome));
            }
        }
    }
}

/// A word by which an asker knows his errands.
pub fn own_word() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}

/// Word by which a line names a database, or all of them.
pub fn word_of(namespace: Option<u8>) -> String {
    namespace.map_or_else(|| "all".to_owned(), |namespace| namespace.to_string())
}

/// The database that a word of a line names, or all of them; `None` when it names none.
pub fn named(word: &str) -> Option<Option<u8>> {
    match word {
        "all" => Some(None),
        number => number.parse().ok().filter(|namespace| usize::from(*namespace) < NAMESPACES).map(Some),
    }
}

/// A request of an operator that takes several turns.
pub struct Wish {
    /// Shard that is asked; all are when none is named.
    pub shard: Option<usize>,
    /// Database that it is about.
    pub namespace: u8,
    /// Makes what is asked of each shard.
    pub op: Box<dyn Fn() -> Op>,
    /// Says what came of it in one of them.
    pub say: Say,
    /// Makes one of what is said of those that were asked, in a cache with so many shards.
    pub sum: fn(Vec<Value>, usize) -> Value,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn say(outcome: Outcome) -> Value {
        Value::from(format!("{outcome:?}"))
    }

    #[test]
    fn those_who_never_come_back_make_room() {
        let mut errands = Errands::default();
        let ids: Vec<RequestId> =
            (0..ERRANDS_MAX).map(|number| errands.begin(&number.to_string(), say).expect("room")).collect();
        assert!(errands.begin("more", say).is_none(), "all are under way");
        let client = Reply { id: RequestId(7), outcome: Outcome::Stored };
        let mut replies = vec![client.clone(), Reply { id: ids[1], outcome: Outcome::Cleared }];
        errands.take(&mut replies);
        assert_eq!(replies, [client]);
        assert!(errands.is_known("0") && !errands.is_done("0") && !errands.is_known("none"));
        assert!(errands.begin("more", say).is_some(), "one is done that nobody came for");
        assert!(!errands.is_known("1"));
        errands.take(&mut vec![Reply { id: ids[0], outcome: Outcome::Cleared }]);
        assert!(errands.is_done("0"));
        assert_eq!(errands.take_done("0"), Some(Value::from("Cleared")));
        assert_eq!(errands.take_done("0"), None);
    }
}
