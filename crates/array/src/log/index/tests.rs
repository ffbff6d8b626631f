//! The index beside ordered maps under random operations, and the rules one by one.

use super::*;
use base::units::BLOCK_BYTES;
use proptest::prelude::*;
use std::collections::BTreeMap;

#[test]
fn a_write_ends_a_trim_and_a_trim_ends_a_mapping() {
    let mut index = Index::new(REGION_BLOCKS + 10, EntryBytes::Four);
    let lba = Lba(REGION_BLOCKS + 3);
    assert_eq!(index.set(Name::Block(lba), Pba(7)), None);
    assert_eq!(index.trim(lba), Some(Pba(7)));
    assert!(index.is_trimmed(lba));
    assert_eq!(index.get(Name::Block(lba)), None);
    assert_eq!(index.set(Name::Block(lba), Pba(8)), None);
    assert!(!index.is_trimmed(lba));
    assert_eq!(index.set(Name::Tombstone(Region(1)), Pba(9)), None);
    assert_eq!(index.mapped().count(), 2);
}

#[test]
fn a_tombstone_names_its_blocks() {
    let mut index = Index::new(REGION_BLOCKS + 10, EntryBytes::Four);
    index.trim(Lba(REGION_BLOCKS + 9));
    index.lose(Lba(REGION_BLOCKS + 1));
    index.lose(Lba(REGION_BLOCKS + 2));
    let mut bitmap = [0; BLOCK_BYTES];
    index.write_tombstone(Region(1), &(REGION_BLOCKS - 5..REGION_BLOCKS + 2), &mut bitmap);
    let blocks: Vec<(u64, Buried)> =
        tombstone_blocks(Region(1), index.blocks(), &bitmap).map(|(lba, why)| (lba.0, why)).collect();
    let expected = [(0, Buried::Trimmed), (1, Buried::Trimmed), (2, Buried::Lost), (9, Buried::Trimmed)];
    assert_eq!(blocks, expected.map(|(lba, why)| (REGION_BLOCKS + lba, why)));
}

/// Blocks of two regions, the second one short and ending in the middle of a word of bits.
const BLOCKS: u64 = REGION_BLOCKS + 70;

#[derive(Clone, Debug)]
enum Step {
    Set(Name, Pba),
    Trim(Lba),
    Lose(Lba),
}

/// State of a block; one in none of these states was never written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    At(Pba),
    Trimmed,
    Lost,
}

/// Model of what the index should say.
#[derive(Default)]
struct Model {
    blocks: BTreeMap<Lba, State>,
    tombstones: BTreeMap<Region, Pba>,
    checkpoint: BTreeMap<u64, Pba>,
}

impl Model {
    fn take(&mut self, lba: Lba, state: State) -> Option<Pba> {
        match self.blocks.insert(lba, state) {
            Some(State::At(pba)) => Some(pba),
            _ => None,
        }
    }

    fn apply(&mut self, step: &Step) -> Option<Pba> {
        match *step {
            Step::Set(Name::Block(lba), pba) => self.take(lba, State::At(pba)),
            Step::Set(Name::Tombstone(region), pba) => self.tombstones.insert(region, pba),
            Step::Set(Name::Mapping(name), pba) => self.checkpoint.insert(name, pba),
            Step::Set(Name::Group(_), _) => unreachable!("this index is not in groups"),
            Step::Trim(lba) => self.take(lba, State::Trimmed),
            Step::Lose(lba) => self.take(lba, State::Lost),
        }
    }

    fn mapped(&self) -> Vec<(Name, Pba)> {
        let blocks = self.blocks.iter().filter_map(|(lba, state)| match state {
            State::At(pba) => Some((Name::Block(*lba), *pba)),
            _ => None,
        });
        let tombstones = self.tombstones.iter().map(|(region, pba)| (Name::Tombstone(*region), *pba));
        let checkpoint = self.checkpoint.iter().map(|(name, pba)| (Name::Mapping(*name), *pba));
        blocks.chain(tombstones).chain(checkpoint).collect()
    }

    /// Returns the contents of a region's tombstone when the blocks of `trim` join it.
    fn buried(&self, region: Region, trim: &Range<u64>) -> Vec<(Lba, Buried)> {
        let of_region = (0..BLOCKS).filter(|lba| Region::of(*lba) == region).map(Lba);
        of_region
            .filter_map(|lba| match self.blocks.get(&lba) {
                _ if trim.contains(&lba.0) => Some((lba, Buried::Trimmed)),
                Some(State::Trimmed) => Some((lba, Buried::Trimmed)),
                Some(State::Lost) => Some((lba, Buried::Lost)),
                Some(State::At(_)) | None => None,
            })
            .collect()
    }
}

/// Few blocks, at the ends of words, regions and the volume.
fn lba() -> impl Strategy<Value = Lba> {
    let ends = prop_oneof![0..3_u64, 62..66_u64, REGION_BLOCKS - 2..REGION_BLOCKS + 2, BLOCKS - 3..BLOCKS];
    ends.prop_map(Lba)
}

fn step() -> impl Strategy<Value = Step> {
    let name = prop_oneof![
        4 => lba().prop_map(Name::Block),
        1 => (0..2_u64).prop_map(|region| Name::Tombstone(Region(region))),
        1 => (0..3_u32).prop_map(|block| Name::Mapping(name_of(7, block))),
    ];
    prop_oneof![
        (name, 0..100_u64).prop_map(|(name, pba)| Step::Set(name, Pba(pba))),
        lba().prop_map(Step::Trim),
        lba().prop_map(Step::Lose),
    ]
}

proptest! {
    #[test]
    fn it_says_what_two_maps_say(
        steps in proptest::collection::vec(step(), 0..40),
        from in lba(),
        to in lba(),
        entry_bytes in prop_oneof![Just(EntryBytes::Four), Just(EntryBytes::Five)],
    ) {
        let (mut index, mut model) = (Index::new(BLOCKS, entry_bytes), Model::default());
        index.begin_checkpoint(7, 3);
        for step in &steps {
            let before = match *step {
                Step::Set(name, pba) => index.set(name, pba),
                Step::Trim(lba) => index.trim(lba),
                Step::Lose(lba) => index.lose(lba),
            };
            prop_assert_eq!(before, model.apply(step), "{:?}", step);
        }
        let mapped = model.mapped();
        let others = model.tombstones.len() + model.checkpoint.len();
        prop_assert_eq!(index.mapped_blocks(), (mapped.len() - others) as u64);
        prop_assert!(mapped.iter().all(|(name, pba)| index.get(*name) == Some(*pba)));
        prop_assert_eq!(index.mapped().collect::<Vec<_>>(), mapped);
        let in_state = |wanted| {
            let blocks = model.blocks.iter().filter(move |(_, state)| **state == wanted);
            blocks.map(|(lba, _)| *lba).collect::<Vec<_>>()
        };
        prop_assert_eq!(index.lost().collect::<Vec<_>>(), in_state(State::Lost));
        let all = || (0..BLOCKS).map(Lba);
        prop_assert_eq!(all().filter(|lba| index.is_lost(*lba)).collect::<Vec<_>>(), in_state(State::Lost));
        let trimmed: Vec<Lba> = all().filter(|lba| index.is_trimmed(*lba)).collect();
        prop_assert_eq!(trimmed, in_state(State::Trimmed));
        let range = from.min(to).0..from.max(to).0;
        let is_zeros = range.clone().all(|lba| {
            !matches!(model.blocks.get(&Lba(lba)), Some(State::At(_) | State::Lost))
        });
        prop_assert_eq!(index.is_zeros(&range), is_zeros, "{:?}", range);
        for region in (0..index.regions()).map(Region) {
            let mut bitmap = [0xaa; BLOCK_BYTES];
            index.write_tombstone(region, &range, &mut bitmap);
            let buried: Vec<_> = tombstone_blocks(region, BLOCKS, &bitmap).collect();
            prop_assert_eq!(buried, model.buried(region, &range));
        }
        prop_assert_eq!(index.end_checkpoint(7), model.checkpoint.into_values().collect::<Vec<_>>());
        prop_assert!(!index.knows(Name::Mapping(name_of(7, 0))) && index.checkpoint_blocks() == 0);
    }
}

#[test]
fn only_blocks_of_the_volume_and_its_tombstones_have_names() {
    let index = Index::new(BLOCKS, EntryBytes::Four);
    let name = |kind, lba| Name::of(&Protected { lba, sequence: 1, kind }, &index);
    for kind in [Kind::User, Kind::Lost] {
        assert_eq!(name(kind, BLOCKS - 1), Some(Name::Block(Lba(BLOCKS - 1))));
        assert_eq!(name(kind, BLOCKS), None);
    }
    assert_eq!(name(Kind::Tombstone, Region::of(BLOCKS - 1).0), Some(Name::Tombstone(Region(1))));
    assert_eq!(name(Kind::Tombstone, 2), None);
    assert_eq!((name(Kind::Padding, 0), name(Kind::Mapping, 0)), (None, None));
}
