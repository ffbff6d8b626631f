//! What loops that serve one cache tell one another beside requests: surveys, and what a command changes for all.
//!
//! ```text
//! a command --needs--> asks of all others --> parts of all others --> their sum, and the command begins again
//! a command --changes--> notices to all others
//! ```
//!
//! Letters of one loop to another arrive in order, so a survey tells what a notice before it has changed. A loop that stops asks nobody: it
//! tells what it knows itself.

use crate::mailbox::Mailbox;
use crate::resp::front::Notice;
use crate::resp::survey::{Survey, Wanted};
use crate::slab::Key;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// What one loop tells another.
#[derive(Debug)]
pub(super) enum Letter {
    /// A command has changed this.
    Notice(Notice),
    /// What do you know?
    Question {
        /// Loop that asks.
        from: usize,
        /// Its number for the survey.
        number: u64,
        /// Part that is wanted.
        wanted: Wanted,
    },
    /// This.
    Part {
        /// Number of the survey.
        number: u64,
        /// Part of the sum.
        part: Box<Survey>,
    },
}

#[derive(Debug)]
struct UnderWay {
    client: Key,
    parts_missing: usize,
    sum: Survey,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Peers {
    me: usize,
    boxes: Vec<Arc<Mailbox<Letter>>>,
    surveys: BTreeMap<u64, UnderWay>,
    numbers: u64,
}

impl Peers {
    /// Loops that know one another.
    ///
    /// # Errors
    /// When the system has no descriptors left.
    pub(super) fn of(count: usize) -> io::Result<Vec<Peers>> {
        let boxes: Vec<_> = (0..count).map(|_| Mailbox::new().map(Arc::new)).collect::<io::Result<_>>()?;
        let peers = |me| Peers { me, boxes: boxes.clone(), surveys: BTreeMap::new(), numbers: 0 };
        Ok((0..count).map(peers).collect())
    }

    /// Descriptor that wakes the loop.
    pub(super) fn bell(&self) -> io::Result<OwnedFd> {
        self.boxes[self.me].bell()
    }

    /// True when no letter is there; whoever writes one from now on rings.
    pub(super) fn may_sleep(&self) -> bool {
        self.is_alone() || self.boxes[self.me].may_sleep()
    }

    /// Takes the letters that have come.
    pub(super) fn collect(&self, into: &mut Vec<Letter>) {
        if !self.is_alone() {
            self.boxes[self.me].collect(into);
        }
    }

    /// True when there is nobody to ask.
    pub(super) fn is_alone(&self) -> bool {
        self.boxes.len() == 1
    }

    /// Tells all others of a change.
    pub(super) fn announce(&self, notice: &Notice) {
        self.others().for_each(|mailbox| mailbox.post(&mut vec![Letter::Notice(notice.clone())]));
    }

    /// Asks all others, for a client, to add to what is known here.
    pub(super) fn ask(&mut self, client: Key, wanted: Wanted, known: Survey) {
        let (from, number) = (self.me, self.numbers);
        self.numbers += 1;
        let parts_missing = self.boxes.len() - 1;
        assert!(parts_missing > 0, "one who is alone knows all");
        self.surveys.insert(number, UnderWay { client, parts_missing, sum: known });
        self.others().for_each(|mailbox| mailbox.post(&mut vec![Letter::Question { from, number, wanted }]));
    }

    /// Answers another loop.
    pub(super) fn answer(&self, from: usize, number: u64, part: Survey) {
        assert!(from != self.me, "nobody asks itself");
        self.boxes[from].post(&mut vec![Letter::Part { number, part: Box::new(part) }]);
    }

    /// A part has come; the survey and its client when it was the last.
    pub(super) fn on_part(&mut self, number: u64, part: Survey) -> Option<(Key, Survey)> {
        // A loop that stops has given up its surveys.
        let survey = self.surveys.get_mut(&number)?;
        survey.sum.add(part);
        assert!(survey.parts_missing > 0, "a survey that is whole is answered");
        survey.parts_missing -= 1;
        if survey.parts_missing > 0 {
            return None;
        }
        self.surveys.remove(&number).map(|survey| (survey.client, survey.sum))
    }

    /// Gives up all surveys: what is known so far, and for whom.
    pub(super) fn give_up(&mut self) -> Vec<(Key, Survey)> {
        std::mem::take(&mut self.surveys).into_values().map(|survey| (survey.client, survey.sum)).collect()
    }

    fn others(&self) -> impl Iterator<Item = &Arc<Mailbox<Letter>>> {
        self.boxes.iter().enumerate().filter(|(number, _)| *number != self.me).map(|(_, mailbox)| mailbox)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slab::Slab;

    #[test]
    fn a_survey_is_whole_when_all_have_answered_and_tells_of_notices_before_it() {
        let mut peers = Peers::of(3).unwrap();
        let client = Slab::new().insert(());
        let known = Survey { clients: 1, roster: "a".to_owned(), ..Survey::default() };
        peers[0].announce(&Notice::Timeout(7));
        peers[0].ask(client, Wanted::Figures, known);
        for (me, name) in [(1, "b"), (2, "c")] {
            let mut letters = Vec::new();
            assert!(!peers[me].may_sleep());
            peers[me].collect(&mut letters);
            assert!(matches!(letters[0], Letter::Notice(Notice::Timeout(7))), "{letters:?}");
            let Letter::Question { from, number, wanted } = letters[1] else { panic!("{letters:?}") };
            assert_eq!(wanted, Wanted::Figures);
            let part = Survey { clients: 2, roster: name.to_owned(), ..Survey::default() };
            peers[me].answer(from, number, part);
        }
        let mut letters = Vec::new();
        peers[0].collect(&mut letters);
        let mut whole = None;
        for letter in letters {
            let Letter::Part { number, part } = letter else { panic!("{letter:?}") };
            assert!(whole.is_none(), "not before the last part");
            whole = peers[0].on_part(number, *part);
        }
        let (for_whom, survey) = whole.expect("all have answered");
        assert_eq!((for_whom, survey.clients, survey.roster.as_str()), (client, 5, "abc"));
        assert!(peers[0].may_sleep());
    }

    #[test]
    fn one_who_stops_has_what_is_known_so_far() {
        let mut peers = Peers::of(2).unwrap();
        let client = Slab::new().insert(());
        peers[0].ask(client, Wanted::Objects, Survey { clients: 3, ..Survey::default() });
        let given_up = peers[0].give_up();
        assert_eq!(given_up.len(), 1);
        assert_eq!((given_up[0].0, given_up[0].1.clients), (client, 3));
        assert!(peers[0].on_part(0, Survey::default()).is_none(), "a late part is nobody's");
    }
}
