//! Superblocks of a cache: what is decoded is encoded as it was.
#![no_main]

use cache::format::superblock::{Clears, FIELDS, Member, Standing, Superblock};
use cache::request::WallMillis;
use cache::shared::Mark;
use fuzz::{assert_same_fields, block, seed, trimmed};
use libfuzzer_sys::fuzz_target;

fn seeds() {
    let standings = [Standing::Member, Standing::LeftOut, Standing::Joined];
    let members =
        (1..).zip(standings).map(|(uuid, standing)| Member { uuid: [uuid; 16], standing, zones_lost: 2 });
    let superblock = Superblock {
        cache: [7; 16],
        secret: [8; 16],
        generation: 11,
        epoch: 3,
        wall: WallMillis(1 << 40),
        members: members.collect(),
        quorum: 1,
        clears: Clears { below: [5; 16], planned: [Some(WallMillis(6)); 16] },
        mark: None,
    };
    let marked = Superblock { mark: Some(Mark { boot: [9; 16], log: 4 }), ..superblock.clone() };
    let seeds = [superblock, marked].map(|record| {
        let mut encoded = block(&[]);
        record.encode(1, &mut encoded);
        trimmed(&encoded)
    });
    seed("cache_superblock", &seeds);
}

fuzz_target!(init: seeds(), |data: &[u8]| {
    let raw = block(data);
    let Some((found, member)) = Superblock::decode(&raw) else { return };
    let mut anew = block(&[]);
    found.encode(member, &mut anew);
    assert_eq!(Superblock::decode(&anew), Some((found, member)));
    // Of places beyond the last, nothing means anything, and of a start of the machine neither without a log.
    assert_same_fields(FIELDS, &anew, &raw, &["RESERVED", "MEMBER_", "ZONES_LOST", "BOOT"]);
});
