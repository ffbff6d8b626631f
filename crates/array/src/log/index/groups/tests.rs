//! Groups beside an ordinary map, and the rules one by one.

use super::*;
use base::units::BLOCK_BYTES;
use proptest::prelude::*;
use std::collections::BTreeMap;

const BLOCKS: usize = 50;
const LIMIT: GroupLimit =
    GroupLimit { entries: 8, resident_max: 3, held_by_collector_max: 1, mapping_segments: 3 };

fn groups(bytes: EntryBytes) -> Groups {
    Groups::of(&Entries::new(bytes, BLOCKS), LIMIT)
}

/// A drive for mapping blocks: where each lies, and what it holds.
#[derive(Default)]
struct Media {
    blocks: BTreeMap<u64, Block>,
    next: u64,
}

impl Media {
    fn write(&mut self, groups: &mut Groups, group: IndexGroup) {
        let mut block = [0; BLOCK_BYTES];
        if !groups.begin_write(group, &mut block) {
            groups.set_place(group, None);
            return;
        }
        let place = Pba(1_000 + self.next);
        self.next += 1;
        self.blocks.insert(place.0, block);
        groups.end_write(group, false);
        groups.set_place(group, Some(place));
    }

    fn bring(&mut self, groups: &mut Groups, lba: Lba) {
        let group = groups.group_of(lba);
        while groups.residence(group) == Residence::Absent {
            while !groups.has_room() && !groups.evict() {
                let dirty = groups.next_to_write().expect("nobody holds any");
                self.write(groups, dirty);
            }
            match groups.place(group) {
                None => groups.install_empty(group),
                Some(place) => {
                    groups.begin_load(group);
                    assert!(groups.end_load(group, Some(&self.blocks[&place.0])));
                }
            }
        }
        groups.end_turn();
    }
}

proptest! {
    #[test]
    fn what_was_evicted_comes_back(
        steps in proptest::collection::vec((0..BLOCKS as u64, proptest::option::of(0..900_u64)), 1..200),
        wide in any::<bool>(),
    ) {
        let mut groups = groups(if wide { EntryBytes::Five } else { EntryBytes::Four });
        let (mut media, mut model) = (Media::default(), BTreeMap::new());
        for (lba, pba) in steps {
            let (lba, pba) = (Lba(lba), pba.map(Pba));
            media.bring(&mut groups, lba);
            let before = match pba {
                Some(pba) => model.insert(lba, pba),
                None => model.remove(&lba),
            };
            prop_assert_eq!(groups.replace(lba, pba), before);
            groups.check_invariants();
        }
        for lba in (0..BLOCKS as u64).map(Lba) {
            media.bring(&mut groups, lba);
            prop_assert_eq!(groups.get(lba), model.get(&lba).copied());
        }
    }
}

#[test]
fn what_is_held_dirty_or_being_written_stays() {
    let mut groups = groups(EntryBytes::Four);
    assert_eq!((groups.count(), groups.resident()), (7, 7));
    assert!(groups.is_over() && groups.should_write() && !groups.evict(), "all are new");
    let mut media = Media::default();
    groups.replace(Lba(0), Some(Pba(5)));
    groups.pin(IndexGroup(0), Holder::Client);
    for _ in 1..7 {
        let group = groups.next_to_write().expect("they are dirty");
        media.write(&mut groups, group);
    }
    assert_eq!(groups.next_to_write(), None, "the last one is held");
    while groups.evict() {}
    assert_eq!(groups.resident(), 1);
    groups.unpin(IndexGroup(0), Holder::Client);
    assert!(groups.begin_write(IndexGroup(0), &mut [0; BLOCK_BYTES]));
    assert!(!groups.evict(), "it is being written");
    groups.replace(Lba(1), Some(Pba(6)));
    groups.end_write(IndexGroup(0), false);
    groups.set_place(IndexGroup(0), Some(Pba(1_000)));
    assert!(!groups.evict(), "it changed meanwhile");
    media.write(&mut groups, IndexGroup(0));
    assert!(groups.evict() && groups.residence(IndexGroup(0)) == Residence::Absent);
    assert_eq!(groups.placed(), 1);
}

#[test]
fn what_was_read_stays_until_the_turn_ends() {
    let (mut groups, mut media) = (groups(EntryBytes::Four), Media::default());
    groups.replace(Lba(0), Some(Pba(7)));
    groups.all().for_each(|group| media.write(&mut groups, group));
    while groups.evict() {}
    groups.begin_load(IndexGroup(0));
    let block = media.blocks[&groups.place(IndexGroup(0)).expect("it maps something").0];
    assert!(groups.end_load(IndexGroup(0), Some(&block)));
    assert!(!groups.evict(), "who asked for it had no turn yet");
    assert_eq!(groups.get(Lba(0)), Some(Pba(7)));
    assert!(groups.end_turn());
    assert!(groups.evict() && !groups.end_turn());
}

#[test]
fn the_collector_holds_its_share_and_clients_half_of_the_rest() {
    let mut groups = groups(EntryBytes::Four);
    for (holder, other) in [(Holder::Client, Holder::Collector), (Holder::Collector, Holder::Client)] {
        assert!(groups.may_pin(IndexGroup(3), holder));
        groups.pin(IndexGroup(3), holder);
        assert!(groups.may_pin(IndexGroup(3), holder) && !groups.may_pin(IndexGroup(4), holder));
        groups.pin(IndexGroup(4), other);
        groups.pin(IndexGroup(3), holder);
        groups.unpin(IndexGroup(3), holder);
        assert!(!groups.may_pin(IndexGroup(4), holder));
        groups.unpin(IndexGroup(3), holder);
        assert!(groups.may_pin(IndexGroup(4), holder));
        groups.unpin(IndexGroup(4), other);
    }
    groups.check_invariants();
}

#[test]
fn without_its_mapping_block_a_group_is_lost() {
    let mut groups = groups(EntryBytes::Four);
    groups.replace(Lba(9), Some(Pba(5)));
    let mut media = Media::default();
    groups.all().for_each(|group| media.write(&mut groups, group));
    while groups.evict() {}
    groups.begin_load(IndexGroup(1));
    assert_eq!((groups.residence(IndexGroup(1)), groups.loading()), (Residence::Coming, 1));
    assert!(!groups.end_load(IndexGroup(1), None));
    groups.lose(IndexGroup(1));
    assert!(groups.is_incomplete() && groups.residence(IndexGroup(1)) == Residence::Lost);
    groups.check_invariants();
}
