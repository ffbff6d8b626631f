//! What is known of all sessions and of the whole cache, however many threads serve it.
//!
//! A command that tells of more than its own session asks for a survey and begins again when it is there. Each loop adds what it knows.

use super::front::{Backend, CacheFacts, Front, Statistics};
use super::settings::DATABASES;
use cache::request::Namespace;

/// Which part of a survey is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Objects by namespace.
    Objects,
    /// These, facts, and all counters.
    Figures,
    /// What CLIENT LIST says of each client.
    Roster,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// Live objects by namespace.
    pub objects: [u64; DATABASES as usize],
    /// Facts about the cache.
    pub facts: CacheFacts,
    /// Statistics.
    pub statistics: Statistics,
    /// Sessions that there are.
    pub clients: usize,
    /// Memory of clients in use, in bytes.
    pub client_memory_bytes: usize,
    /// What CLIENT LIST says.
    pub roster: String,
}

impl Survey {
    /// What one loop knows. The roster is made by whoever has the sessions.
    #[must_use]
    pub fn of(wanted: Wanted, front: &Front, cache: &dyn Backend) -> Survey {
        let mut survey = Survey::default();
        if wanted == Wanted::Roster {
            return survey;
        }
        for (objects, namespace) in survey.objects.iter_mut().zip(0..) {
            *objects = cache.objects(Namespace(namespace));
        }
        if wanted == Wanted::Figures {
            survey.facts = cache.facts();
            survey.statistics = front.statistics.clone();
            survey.clients = front.clients;
            survey.client_memory_bytes = front.memory.used();
        }
        survey
    }

    /// Adds what another loop knows.
    pub fn add(&mut self, other: Survey) {
        for (sum, objects) in self.objects.iter_mut().zip(other.objects) {
            *sum += objects;
        }
        self.facts.add(other.facts);
        self.statistics.add(&other.statistics);
        self.clients += other.clients;
        self.client_memory_bytes += other.client_memory_bytes;
        self.roster += &other.roster;
    }

    /// Live objects of a namespace.
    #[must_use]
    pub fn objects_in(&self, namespace: Namespace) -> u64 {
        self.objects[usize::from(namespace.0)]
    }
}
