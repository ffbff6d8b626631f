//! The ghost against a model that keeps all levels in plain lists and looks at everything.

use super::*;
use proptest::prelude::*;

#[derive(Clone, Copy, Debug)]
struct Known {
    lba: u64,
    last: u64,
    distance: u64,
    rewrites: u8,
}

/// All that is remembered, by list, in order.
struct Model {
    lists: Vec<Vec<Known>>,
    held_max: [usize; LEVELS],
    near: u64,
    now: u64,
}

impl Model {
    fn new(ghost: &Ghost) -> Model {
        Model { lists: vec![Vec::new(); LISTS], held_max: ghost.held_max, near: ghost.near, now: 0 }
    }

    fn span(&self) -> u64 {
        self.held_max.iter().sum::<usize>() as u64
    }

    fn forecast(&self, known: &Known) -> Forecast {
        let mut rewrites = known.rewrites;
        for _ in 0..((self.now - known.last) / self.span()).min(8) {
            rewrites /= 2;
        }
        let waits = self.now - known.last;
        Forecast {
            rewrites,
            distance: if known.distance == NEVER { NEVER } else { known.distance.max(waits) },
        }
    }

    fn list_of(&self, known: &Known, below: usize) -> usize {
        let Forecast { rewrites, distance } = self.forecast(known);
        if below > 2 && self.held_max[2] > 0 && distance < self.near {
            let class = (0..CLASSES - 1).rev().find(|class| distance >= 1 << class).unwrap_or(0);
            return NEAR_FIRST + class;
        }
        if below > 1 && self.held_max[1] > 0 && rewrites > 3 {
            OFTEN_FIRST + usize::from(rewrites)
        } else {
            RECENT
        }
    }

    fn count(&self, lists: std::ops::Range<usize>) -> usize {
        self.lists[lists].iter().map(Vec::len).sum()
    }

    fn make_room(&mut self) {
        if self.count(NEAR_FIRST..LISTS) > self.held_max[2] {
            let from = (NEAR_FIRST..LISTS).rev().find(|list| !self.lists[*list].is_empty()).unwrap();
            let known = self.lists[from].remove(0);
            let to = self.list_of(&known, 2);
            self.lists[to].push(known);
        }
        if self.count(OFTEN_FIRST..NEAR_FIRST) > self.held_max[1] {
            let from = (OFTEN_FIRST..NEAR_FIRST).find(|list| !self.lists[*list].is_empty()).unwrap();
            let known = self.lists[from].remove(0);
            self.lists[RECENT].push(known);
        }
    }

    fn note(&mut self, lba: u64) -> Forecast {
        self.now += 1;
        let looked_at = usize::try_from(self.now).unwrap() % LISTS;
        if looked_at != RECENT && !self.lists[looked_at].is_empty() {
            let known = self.lists[looked_at].remove(0);
            let to = self.list_of(&known, LEVELS);
            self.lists[to].push(known);
            self.make_room();
        }
        let at = (0..LISTS).find_map(|list| {
            self.lists[list].iter().position(|known| known.lba == lba).map(|place| (list, place))
        });
        let known = match at {
            Some((list, place)) => {
                let known = self.lists[list].remove(place);
                let interval = self.now - known.last;
                let distance = match known.distance {
                    NEVER => interval,
                    before => before - before / 4 + interval / 4,
                };
                let rewrites = (self.forecast(&known).rewrites + 1).min(15);
                Known { lba, last: self.now, distance, rewrites }
            }
            None => {
                if self.count(0..LISTS) as u64 == self.span() {
                    let full = self.lists.iter_mut().find(|list| !list.is_empty()).unwrap();
                    full.remove(0);
                }
                Known { lba, last: self.now, distance: NEVER, rewrites: 0 }
            }
        };
        let to = self.list_of(&known, LEVELS);
        self.lists[to].push(known);
        self.make_room();
        self.forecast(&known)
    }
}

/// Addresses of each list from front to back, and back again.
fn lists_of(ghost: &Ghost) -> Vec<Vec<u64>> {
    let walk = |list: &List| {
        let (mut forth, mut at) = (Vec::new(), list.first);
        while at != NONE {
            forth.push(ghost.entries[at as usize].lba);
            at = ghost.entries[at as usize].next;
        }
        let (mut back, mut at) = (Vec::new(), list.last);
        while at != NONE {
            back.push(ghost.entries[at as usize].lba);
            at = ghost.entries[at as usize].previous;
        }
        back.reverse();
        assert_eq!(forth, back, "links of both directions");
        forth
    };
    ghost.lists.iter().map(walk).collect()
}

proptest! {
    /// Writes of few blocks, some of them hot, with pauses in which others are written.
    #[test]
    fn agrees_with_a_model(
        queues in any::<bool>(),
        slots in 1..6_usize,
        steps in proptest::collection::vec((0..4_u8, 0..60_u64), 1..600),
    ) {
        let lifetimes = if queues { Lifetimes::Queues } else { Lifetimes::Levels };
        let mut ghost = Ghost::new(lifetimes, slots);
        let mut model = Model::new(&ghost);
        let memory = ghost.memory_bytes();
        for (step, number) in steps {
            let lba = if step == 0 { number * 64 } else { number % 4 };
            let expected = model.note(lba);
            prop_assert_eq!(ghost.note(Lba(lba)), expected);
            let known: Vec<Vec<u64>> =
                model.lists.iter().map(|list| list.iter().map(|known| known.lba).collect()).collect();
            prop_assert_eq!(lists_of(&ghost), known);
            for lba in (0..4).chain((0..60).map(|number| number * 64)) {
                let known = model.lists.iter().flatten().find(|known| known.lba == lba);
                let expected = known.map_or(Forecast::UNKNOWN, |known| model.forecast(known));
                prop_assert_eq!(ghost.forecast(Lba(lba)), expected, "block {}", lba);
            }
        }
        prop_assert_eq!(ghost.memory_bytes(), memory, "all memory is taken when it is made");
    }
}

/// What was hot yesterday is not today: its distance grows while others are written, and its rewrites are forgotten.
#[test]
fn distances_age() {
    let mut ghost = Ghost::new(Lifetimes::Levels, 100);
    (0..10).for_each(|_| _ = ghost.note(Lba(7)));
    let hot = ghost.forecast(Lba(7));
    assert_eq!(hot, Forecast { rewrites: 9, distance: 1 });
    assert!(ghost.is_near(&hot));
    (0..300).for_each(|other| _ = ghost.note(Lba(1000 + other)));
    let cooler = ghost.forecast(Lba(7));
    assert_eq!(cooler, Forecast { rewrites: 9, distance: 300 });
    assert!(!ghost.is_near(&cooler), "three times as many blocks were written as there are slots");
    (0..2_000).for_each(|other| _ = ghost.note(Lba(2_000 + other % 10)));
    assert_eq!(ghost.forecast(Lba(7)).rewrites, 4, "half after as many as are remembered");
}

#[test]
fn a_ghost_that_is_off_remembers_nothing() {
    let mut ghost = Ghost::new(Lifetimes::Off, 100);
    (0..10).for_each(|_| _ = ghost.note(Lba(7)));
    assert_eq!((ghost.forecast(Lba(7)), ghost.now()), (Forecast::UNKNOWN, 0));
    assert_eq!(ghost.entries.capacity(), 0);
}

#[test]
fn classes_are_powers_of_two() {
    assert_eq!([0, 1, 2, 3, 4, 1 << 20].map(class_of), [0, 0, 1, 1, 2, 20]);
    assert_eq!([class_of(NEVER - 1), class_of(NEVER)], [CLASSES - 2, CLASSES - 1]);
}
