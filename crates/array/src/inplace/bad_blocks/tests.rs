//! Lists of bad blocks: what is listed, cleared, and fits a log.

use super::*;

fn list(entries: &[(u64, u64)]) -> List {
    let entries = entries.iter().map(|(sector, sectors)| Entry { sector: *sector, sectors: *sectors });
    List { entries: entries.collect(), has_log: true }
}

fn covered(list: &List) -> Vec<u64> {
    let mut sectors: Vec<u64> =
        list.entries.iter().flat_map(|entry| entry.sector..entry.sector + entry.sectors).collect();
    sectors.sort_unstable();
    sectors.dedup();
    sectors
}

#[test]
fn neighbours_become_one_entry_and_long_ones_are_cut() {
    let mut list = list(&[]);
    assert!(list.add(&(100..108)) && list.add(&(116..124)) && list.add(&(108..116)));
    assert_eq!(list.entries, [Entry { sector: 100, sectors: 24 }]);
    assert!(list.add(&(1000..2030)));
    assert_eq!(list.entries[1..].iter().map(|entry| entry.sectors).collect::<Vec<_>>(), [512, 512, 6]);
}

#[test]
fn what_is_written_is_listed_no_more() {
    let mut list = list(&[(100, 24), (200, 8), (300, 600)]);
    assert!(list.clear(&(108..116)) && list.clear(&(200..208)) && list.clear(&(296..304)));
    let expected: Vec<u64> = (100..108).chain(116..124).chain(304..900).collect();
    assert_eq!(covered(&list), expected);
    assert!(list.clear(&(0..10_000)) && list.entries.is_empty());
}

#[test]
fn a_log_that_is_full_takes_no_more_and_a_member_without_one_nothing() {
    let full: Vec<(u64, u64)> = (0..64).map(|index| (index * 100, 16)).collect();
    let mut full = list(&full);
    let before = full.clone().entries;
    assert!(!full.add(&(9000..9008)) && !full.clear(&(108..110)), "no room for another entry");
    assert_eq!(full.entries, before);
    assert!(full.add(&(116..124)) && full.clear(&(100..108)), "what was there is longer, then shorter");
    assert!(!List::default().add(&(0..8)));
}

#[test]
fn a_list_of_several_sectors_shrinks_entry_by_entry() {
    let many: Vec<(u64, u64)> = (0..100).map(|index| (index * 100, 16)).collect();
    let mut many = list(&many);
    let all = covered(&many);
    assert!(!many.add(&(116..124)) && !many.clear(&(104..108)), "neither longer nor cut in two");
    assert!(many.clear(&(100..116)) && many.clear(&(200..208)) && many.clear(&(9908..9916)));
    let is_left =
        |sector: &u64| !(100..116).contains(sector) && !(200..208).contains(sector) && *sector < 9908;
    assert_eq!(covered(&many), all.into_iter().filter(is_left).collect::<Vec<_>>());
    assert_eq!(many.entries.len(), 100, "one that went is another one twice");
    assert!(many.clear(&(0..10_000)) && many.entries.is_empty());
}

#[test]
fn features_follow_what_is_on_the_media() {
    let mut bad = BadBlocks::default();
    bad.lists.insert(2, list(&[]));
    assert!(bad.is_empty() && bad.is_recorded() && !bad.add(Role(1), &(8..16)), "no such member");
    assert!(bad.add(Role(2), &(8..16)) && !bad.is_recorded() && bad.is_bad(Role(2), &(0..9)));
    assert!(bad.clear(Role(2), &(16..24)) && !bad.is_bad(Role(2), &(16..24)));
    bad.begin();
    assert!(bad.empty().is_empty() && !bad.is_recorded());
    bad.check_invariants();
    bad.forget(2);
    assert!(bad.is_recorded() && bad.entries(2).is_empty());
}
