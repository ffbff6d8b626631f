//! Connections that get objects by their popularity, and store what they miss.

use super::rig::{Answer, Load, Objects, must_be_done};
use crate::cache::rig::Popularity;
use anyhow::Result;
use base::random::Random;
use base::time::{Instant, Nanos};
use cache::request::{Op, Outcome};

/// Step of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Idle: the next object is due.
    Idle,
    /// Get of an object under way.
    Gets(u64),
    /// Miss of an object, which is to be stored.
    Missed(u64),
    /// Store under way.
    Stores,
}

/// See the module.
pub(super) struct Aside {
    objects: Objects,
    popularity: Popularity,
    random: Random,
    think: Nanos,
    steps: Vec<Step>,
    /// Gets that are left.
    left: u64,
    found: u64,
}

impl Aside {
    /// So many connections, which get the next object so long after they have the one before.
    pub(super) fn new(
        objects: Objects,
        popularity: Popularity,
        (connections, think): (usize, Nanos),
        seed: u64,
    ) -> Aside {
        let (random, steps) = (Random::from_seed(seed), vec![Step::Idle; connections]);
        Aside { objects, popularity, random, think, steps, left: 0, found: 0 }
    }

    /// So many gets are to come, and none was.
    pub(super) fn begin(&mut self, gets: u64) {
        (self.left, self.found) = (gets, 0);
    }

    /// Gets that found something.
    pub(super) fn found(&self) -> u64 {
        self.found
    }
}

impl Load for Aside {
    fn next(&mut self, _now: Instant, connection: usize) -> Option<Op> {
        if let Step::Missed(number) = self.steps[connection] {
            self.steps[connection] = Step::Stores;
            return Some(self.objects.set(number));
        }
        self.left = self.left.checked_sub(1)?;
        let number = self.popularity.draw(&mut self.random) as u64;
        self.steps[connection] = Step::Gets(number);
        Some(self.objects.get(number))
    }

    fn answered(&mut self, _now: Instant, connection: usize, outcome: Outcome) -> Result<Answer> {
        let step = std::mem::replace(&mut self.steps[connection], Step::Idle);
        let Step::Gets(number) = step else {
            must_be_done(&outcome)?;
            return Ok(Answer::Counts(1));
        };
        match self.objects.is_found(number, &outcome)? {
            true => self.found += 1,
            false => self.steps[connection] = Step::Missed(number),
        }
        Ok(Answer::Counts(0))
    }

    fn think(&self, connection: usize) -> Nanos {
        if matches!(self.steps[connection], Step::Missed(_)) { Nanos(0) } else { self.think }
    }
}
