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
    /// What is known of an errand: `Some(None)` while it is under way, `None` when nobody has asked for it.
    pub fn find(&mut self, line: &str) -> Option<Option<Value>> {
        let place = self.errands.iter().position(|errand| errand.line == line)?;
        if self.errands[place].done.is_none() {
            return Some(None);
        }
        let errand = self.errands.remove(place).expect("seen above");
        Some(errand.done)
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
    /// Database that it is about.
    pub namespace: u8,
    /// What is asked.
    pub op: Op,
    /// Says what came of it.
    pub say: Say,
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
        assert_eq!((errands.find("0"), errands.find("none")), (Some(None), None));
        assert!(errands.begin("more", say).is_some(), "one is done that nobody came for");
        assert_eq!(errands.find("1"), None);
        errands.take(&mut vec![Reply { id: ids[0], outcome: Outcome::Cleared }]);
        assert_eq!(errands.find("0"), Some(Some(Value::from("Cleared"))));
    }
}
