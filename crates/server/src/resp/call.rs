//! A command being run, as its code sees it: arguments, session, cache.

use super::answer::Answer;
use super::front::{Backend, Front};
use super::parser::Arguments;
use super::pending::{Form, Tally};
use super::session::State;
use super::survey::{Survey, Wanted};
use crate::slab::Key;
use cache::request::{Change, Decide, Object, Op, Part, WallMillis};
use std::sync::{Arc, OnceLock};

/// How far a command is.
#[derive(Debug)]
pub enum Step {
    /// It is answered.
    Answer(Answer),
    /// All its requests are on their way; their outcomes will answer it.
    Started,
    /// It goes on, once it may, from this argument or stage.
    More(usize),
    /// It goes on from this stage once the outcomes of what it has begun are here.
    Wait(usize),
    /// It needs [`Front::survey`] and begins again.
    Needs(Wanted),
}

/// See the module.
pub struct Call<'a> {
    pub(super) arguments: Arguments<'a>,
    /// Argument or stage from which it goes on; 0 at its beginning.
    pub(super) cursor: usize,
    pub(super) client: Key,
    pub(super) state: &'a mut State,
    pub(super) front: &'a mut Front,
    pub(super) cache: &'a mut dyn Backend,
}

impl<'a> Call<'a> {
    /// The survey, if it is there.
    ///
    /// # Errors
    /// The step by which it is asked for.
    pub(super) fn survey(&mut self, wanted: Wanted) -> Result<Survey, Step> {
        self.front.survey.take().ok_or(Step::Needs(wanted))
    }

    /// Argument `index`; the table has seen to it that it is there.
    pub(super) fn at(&self, index: usize) -> &'a [u8] {
        self.arguments.at(index)
    }

    /// Asks for one thing, whose outcome is the answer in this form.
    pub(super) fn ask(&mut self, op: Op, bytes: usize, form: Form) -> Step {
        let sequence = self.state.expect_one(form);
        self.send(sequence, op, bytes);
        Step::Started
    }

    /// Reads the object of the key that is argument 1.
    pub(super) fn get(&mut self, form: Form) -> Step {
        self.get_at(1, form)
    }

    /// Reads the object of the key that is argument `index`.
    pub(super) fn get_at(&mut self, index: usize, form: Form) -> Step {
        let key = self.at(index).to_vec();
        let bytes = key.len();
        if matches!(form, Form::Bulk | Form::Length) {
            self.note_read(&key);
        }
        self.ask(Op::Get { key }, bytes, form)
    }

    /// Reads a part of the value of the key that is argument 1.
    pub(super) fn get_part(&mut self, part: Part) -> Step {
        let key = self.at(1).to_vec();
        let bytes = key.len();
        self.note_read(&key);
        self.ask(Op::GetPart { key, part }, bytes, Form::Part)
    }

    /// A key is read, as far as its use is told.
    pub(super) fn note_read(&mut self, key: &[u8]) {
        self.front.usage.read(self.state.facts.namespace, key, self.front.wall);
    }

    /// A key is stored, in the same way.
    pub(super) fn note_stored(&mut self, key: &[u8]) {
        self.front.usage.store(self.state.facts.namespace, key, self.front.wall);
    }

    /// Changes the object of the key that is argument 1; the decision says the answer.
    pub(super) fn update(
        &mut self,
        bytes: usize,
        decide: impl FnOnce(Option<&Object>, WallMillis) -> (Change, Answer) + Send + 'static,
    ) -> Step {
        let told = Arc::new(OnceLock::new());
        let tell = Arc::clone(&told);
        let decide: Decide = Box::new(move |object, wall| {
            let (change, answer) = decide(object, wall);
            assert!(tell.set(answer).is_ok(), "an update decides once");
            change
        });
        let key = self.at(1).to_vec();
        self.note_stored(&key);
        let bytes = bytes + key.len();
        self.ask(Op::Update { key, decide }, bytes, Form::Told(told))
    }

    /// Changes the object of the key that is argument 1; its value before is the answer.
    pub(super) fn replace(
        &mut self,
        bytes: usize,
        decide: impl FnOnce(Option<&Object>, WallMillis) -> Change + Send + 'static,
    ) -> Step {
        let key = self.at(1).to_vec();
        self.note_stored(&key);
        let bytes = bytes + key.len();
        self.ask(Op::Update { key, decide: Box::new(decide) }, bytes, Form::Before)
    }

    /// Asks something of every `stride`-th argument from 1 on, as fast as the session may, and answers once
    /// with the `tally` of all.
    pub(super) fn each(
        &mut self,
        stride: usize,
        tally: Tally,
        op: impl Fn(&Arguments<'a>, usize) -> (Op, usize),
    ) -> Step {
        if self.cursor == 0 {
            self.state.expect_many(tally);
            self.cursor = 1;
        }
        let sequence = self.state.last_sequence();
        while self.cursor < self.arguments.len() {
            if !self.may_go_on() {
                return Step::More(self.cursor);
            }
            let (op, bytes) = op(&self.arguments, self.cursor);
            match &op {
                Op::Set { key, .. } => self.note_stored(key),
                Op::Get { key } if tally == Tally::Touched => self.note_read(key),
                _ => {}
            }
            self.state.expect_more(sequence);
            self.send(sequence, op, bytes);
            self.cursor += stride;
        }
        self.state.expect_no_more(sequence);
        Step::Started
    }

    /// True when the session may send one more request on its way.
    pub(super) fn may_go_on(&self) -> bool {
        self.state.has_room() && self.front.may_submit(0)
    }

    pub(super) fn send(&mut self, sequence: u64, op: Op, bytes: usize) {
        let namespace = self.state.facts.namespace;
        self.front.submit(self.cache, (self.client, sequence), namespace, (op, bytes));
    }
}
