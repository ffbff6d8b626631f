//! What memory an index asks for.

use super::*;

#[test]
fn memory_that_is_asked_for_holds_the_index() {
    for admission in [Admission::All, Admission::Second] {
        for (memory_bytes, object_mean, flash_gib) in
            [(6 << 20, 1024, 1), (48 << 20, 100, 7), (1 << 30, 300, 900)]
        {
            let options = Options { memory_bytes, object_mean, admission, ..Options::default() };
            let flash = flash_gib << 30;
            let wanted = options.buckets_wanted(flash);
            let short = options.check_memory(flash).expect_err("all of these are too little");
            assert!(options.shape(flash).buckets() < wanted, "an index that does not fit is cut short");
            let more = Options { memory_bytes: short.needed, ..options };
            assert_eq!((more.check_memory(flash), more.shape(flash).buckets()), (Ok(()), wanted));
            let less = Options { memory_bytes: short.needed - 64, ..options };
            assert!(less.shape(flash).buckets() < wanted, "no less would do: {short:?}");
            let larger = Options { object_mean: short.enough, ..options };
            assert_eq!(larger.check_memory(flash), Ok(()));
            let smaller = Options { object_mean: short.enough - 1, ..options };
            assert!(smaller.check_memory(flash).is_err(), "no smaller objects would do: {short:?}");
        }
    }
}

#[test]
fn the_default_memory_does_for_the_drives_of_a_new_cache() {
    assert_eq!(Options::default().check_memory(5 << 30), Ok(()));
}

#[test]
fn what_is_evicted_is_remembered_by_a_byte_for_each_slot_where_there_is_room() {
    let options = Options { memory_bytes: 64 << 20, ..Options::default() };
    let slots = |index: u64| index / BUCKET_BYTES as u64 * SLOTS as u64;
    assert_eq!(options.evicted(16 << 20).bytes(), slots(16 << 20));
    assert_eq!(options.evicted(42 << 20).bytes(), 1 << 20, "a quarter of what is left");
    assert_eq!(options.evicted(46 << 20).bytes(), 0, "nothing is left");
    assert_eq!(Options { eviction: Eviction::Fifo, ..options }.evicted(16 << 20).bytes(), 0);
}
