//! What memory an index asks for.

use super::*;

#[test]
fn memory_that_is_asked_for_holds_the_index() {
    let policies = [Eviction::S3Fifo, Eviction::Fifo];
    let admissions = [Admission::All, Admission::Second];
    for (admission, eviction) in admissions.into_iter().flat_map(|one| policies.map(|policy| (one, policy))) {
        for (memory_bytes, object_mean, flash_gib) in
            [(6 << 20, 1024, 1), (48 << 20, 100, 7), (1 << 30, 300, 900)]
        {
            let options = Options { memory_bytes, object_mean, admission, eviction, ..Options::default() };
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
