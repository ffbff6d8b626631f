//! Content of the golden arrays: what md returned, with every combination of missing members that the level survives; and
//! mismatches as md's `check` counts them.

#![allow(clippy::unwrap_used)]

#[path = "support/golden.rs"]
mod golden;

use base::units::BLOCK_BYTES;
use block::md::assembly::{Assembly, judge};
use block::md::journal::MetaBlock;
use block::md::member::Member;
use block::md::reader::{Mismatches, ReadError, Reader};
use block::md::recovered::recover;
use block::md::superblock::Superblock;
use sha2::{Digest, Sha256};

const FIRST: &str = "6b7399d24d83d14b5b85169988014469327e9bac47a2b2344fce6597392ad940";
const SMALL: &str = "965f6c6efa8a1bb62ce30662fabe1fb7bfcc26223740f9b789de18b0f40bbac8";
const REPLACED: &str = "21bacd08b1235df6b8fc039ef6229cc0754ec1d78fd752b232191bd5186ad112";
const CRASHED_PPL: &str = "fd6b4c0fbe58d46703155b6b49bbd44df2be0f03f61f329ba925d457a2f7bf4d";

/// Sums of the content, for arrays other than those that have a layout's name.
const CONTENTS: &[(&str, &str)] = &[
    ("r5-bitmap", "f0e6ca5b0ca6320a28824e275a6979dd31ac5e6dad0b8ad1313d6d05d24b8089"),
    ("r5-3x4k", SMALL),
    ("r5-v1.1", SMALL),
    ("r5-offset", SMALL),
    ("r5-spare", SMALL),
    ("r5-events-1", SMALL),
    ("r5-lbs", SMALL),
    ("r5-ppl-clean", "8b4700d8a688a37a96ff0fe8cbda58fae80f51bfececedc58033f37d413ac0c1"),
    ("r5-journal-clean", "3930a71303e6a0ac0206996de763bae7344aafc07bde43bd3412813d3c1c4785"),
    ("r5-journal-wb-crash", "e9d07bd0e610cde857cff5290a7f1a52d3d6391416c8253c9a643dfab51fbad4"),
];

/// An array with members left out.
struct Given {
    members: Vec<Member>,
    media: Vec<Vec<u8>>,
}

impl Given {
    fn of(all: &[(String, Vec<u8>)], without: &[usize]) -> Given {
        let kept =
            || all.iter().enumerate().filter(|(index, _)| !without.contains(index)).map(|(_, member)| member);
        let members = kept().map(|(name, bytes)| Member::read(name, &bytes[..]).unwrap()).collect();
        Given { members, media: kept().map(|(_, bytes)| bytes.clone()).collect() }
    }

    fn with<T>(&self, then: impl FnOnce(&Assembly<'_>, &Reader<'_, [u8]>) -> T) -> T {
        let arrays = judge(&self.members);
        let media: Vec<&[u8]> = self.media.iter().map(|bytes| &bytes[..]).collect();
        then(&arrays[0], &Reader::new(&arrays[0], &media).unwrap())
    }

    /// Sum of the content, and the blocks that cannot be read, which count as zeros.
    fn content(&self) -> (String, Vec<(u64, ReadError)>) {
        self.with(|_, reader| {
            let (mut sum, mut errors) = (Sha256::new(), Vec::new());
            for number in 0..reader.blocks() {
                let mut block = [0; BLOCK_BYTES];
                if let Err(error) = reader.read(number, &mut block) {
                    errors.push((number, error));
                    block.fill(0);
                }
                sum.update(block);
            }
            (sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect(), errors)
        })
    }

    fn check(&self) -> Mismatches {
        self.with(|_, reader| reader.check())
    }
}

#[track_caller]
fn assert_content(all: &[(String, Vec<u8>)], without: &[usize], sum: &str, what: &str) {
    assert_eq!(Given::of(all, without).content(), (sum.to_owned(), vec![]), "{what} without {without:?}");
}

/// Sets of up to `most` of `count` members.
fn losses(count: usize, most: usize) -> Vec<Vec<usize>> {
    let one = (0..count).map(|member| vec![member]);
    let two = (0..count).flat_map(|member| (0..member).map(move |other| vec![other, member]));
    let two = two.filter(|_| most == 2);
    std::iter::once(vec![]).chain(one).chain(two).collect()
}

#[test]
fn every_layout_is_read_with_any_members_missing() {
    let layouts = ["symmetric", "asymmetric", "first", "last", "N-continue", "symmetric-6"];
    let names = golden::names();
    let of_layouts =
        names.iter().filter(|name| *name == "r4" || layouts.iter().any(|end| name.ends_with(end)));
    let mut arrays = 0;
    for array in of_layouts {
        let all = golden::members(array);
        for without in losses(all.len(), if array.starts_with("r6") { 2 } else { 1 }) {
            assert_content(&all, &without, FIRST, array);
        }
        assert_eq!(Given::of(&all, &[]).check(), Mismatches::default(), "{array}");
        arrays += 1;
    }
    assert_eq!(arrays, 13);
}

#[test]
fn every_policy_is_read_with_any_member_missing() {
    for (array, sum) in CONTENTS {
        let all = golden::members(array);
        let members = if array.contains("journal") { 4 } else { all.len() };
        for without in losses(members, 1) {
            assert_content(&all, &without, sum, array);
        }
        assert_eq!(Given::of(&all, &[]).check(), Mismatches::default(), "{array}");
    }
}

#[test]
fn degraded_arrays_do_without_their_stale_members() {
    for (array, sum) in [
        ("r5-stale-bitmap", "e60f94b34ebc7b07669fa3b6cd7d7d4cea553af9d3847de485b5e49f2f714915"),
        ("r5-stale-nobitmap", "e60f94b34ebc7b07669fa3b6cd7d7d4cea553af9d3847de485b5e49f2f714915"),
        ("r6-two-lost", "1760343f62de2705c97d880939f7fcc5c90ecde6b6c6ba3d8489280e91a603d2"),
        ("r5-events-2", SMALL),
        ("r5-mid-recovery", REPLACED),
        ("r5-mid-replace", REPLACED),
    ] {
        assert_content(&golden::members(array), &[], sum, array);
    }
    // Recovered rows of the newcomer count where another member is lost; others cannot be read.
    let all = golden::members("r5-mid-recovery");
    let given = Given::of(&all, &[0, 1]);
    assert!(!judge(&given.members)[0].can_be_served());
}

#[test]
fn dirty_arrays_are_read_and_their_mismatches_counted() {
    for (array, sum, stripes) in [
        (
            "r5-crash-bitmap",
            "238dab39abd45826fd6cce0168214efdf0b29520fd368a084d4eee6e4adb7b9b",
            vec![2, 5, 10, 12, 13, 20],
        ),
        (
            "r5-crash-nobitmap",
            "40810d78fb46ececc2ae537d66466dd625d3d29460793d8dacb37734702083b3",
            vec![2, 10, 12, 20],
        ),
    ] {
        let all = golden::members(array);
        assert_content(&all, &[], sum, array);
        let found = Given::of(&all, &[]).check();
        assert_eq!(found.stripes.iter().map(|stripe| stripe.0).collect::<Vec<_>>(), stripes, "{array}");
    }
    let all = golden::members("r5-mid-resync");
    assert_content(
        &all,
        &[],
        "eb095ad7181ba86147aeb53622ce78ceb588fff54f4f3f8432c370ab4bbf419b",
        "r5-mid-resync",
    );
    let found = Given::of(&all, &[]).check();
    assert_eq!(found.stripes.len(), 20);
    assert!(found.stripes[0].0 >= 12);
    let all = golden::members("r5-assume-clean");
    let found = Given::of(&all, &[]).check();
    assert_eq!((found.sectors, found.stripes.len()), (3880, 31));
    assert_content(
        &all,
        &[],
        "6786921758651650b909ccd000d047b10f222fda0a47d17e58bdc2060d44b75c",
        "r5-assume-clean",
    );
}

/// Rows of the newest header of a member that modify all of a stripe: nobody can tell whether they were written as a whole.
fn whole_stripes_in_flight(given: &Given) -> usize {
    let entries = given
        .members
        .iter()
        .filter_map(|member| member.newest_ppl(member.superblock()))
        .flat_map(|found| &found.header.entries);
    entries.filter(|entry| entry.pp_bytes == 0).map(|entry| entry.data_bytes as usize / BLOCK_BYTES / 3).sum()
}

#[test]
fn a_partial_parity_log_closes_the_write_hole() {
    let all = golden::members("r5-ppl-crash");
    assert_eq!(Given::of(&all, &[]).check(), Mismatches::default());
    assert_content(&all, &[], CRASHED_PPL, "r5-ppl-crash");
    let other = "9bfe181c6a4d0b620540403f455777bcc9a656494c0061451e73aa7f62049e4b";
    for (without, expected) in [(0, CRASHED_PPL), (1, CRASHED_PPL), (2, other), (3, CRASHED_PPL)] {
        let given = Given::of(&all, &[without]);
        let (_, errors) = given.content();
        let is_doubt = |error: &ReadError| matches!(error, ReadError::InDoubt { without: role, .. } if role.index() == without);
        assert!(errors.iter().all(|(_, error)| is_doubt(error)), "{errors:?}");
        // A row of a whole stripe has one block on the missing member, unless its parity is there.
        assert!(errors.len() <= whole_stripes_in_flight(&given), "{} without {without}", errors.len());
        let as_md_has_it = given.with(|_, reader| {
            let mut sum = Sha256::new();
            for number in 0..reader.blocks() {
                let mut block = [0; BLOCK_BYTES];
                reader.read(number, &mut block).or_else(|_| reader.decode(number, &mut block)).unwrap();
                sum.update(block);
            }
            sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect::<String>()
        });
        assert_eq!(as_md_has_it, expected, "without {without}");
    }
}

#[test]
fn bad_blocks_are_errors_and_nothing_else_is() {
    let all = golden::members("r5-badblocks");
    let (_, errors) = Given::of(&all, &[]).content();
    assert_eq!(errors.iter().map(|(block, _)| *block).collect::<Vec<_>>(), [108, 109, 484]);
}

/// Pieces and blocks that a server writes for a journal of write-back mode, some of them, and then a member is lost.
#[test]
fn a_replay_of_a_journal_that_is_cut_off_loses_nothing_with_a_member() {
    let all = golden::members("r5-journal-wb-crash");
    let (_, sum) = CONTENTS[CONTENTS.len() - 1];
    let given = Given::of(&all, &[]);
    let arrays = judge(&given.members);
    let media: Vec<&[u8]> = given.media.iter().map(|bytes| &bytes[..]).collect();
    let recovered = recover(&arrays[0], &media).unwrap();
    let end = recovered.journal.as_ref().unwrap();
    let start = |member: &Member| member.superblock().device.data_offset;
    let put = |bytes: &mut [u8], sector: u64, block: &[u8]| {
        let at = usize::try_from(sector * 512).unwrap();
        bytes[at..at + BLOCK_BYTES].copy_from_slice(block);
    };
    assert!(!end.appended.is_empty() && recovered.pieces.len() > 28 && recovered.in_doubt.is_empty());
    let mut crashed = all.clone();
    let journal_start = start(&given.members[4]);
    // The journal alone, in part: it ends as before, whatever got there.
    put(&mut crashed[4].1, journal_start + end.position, &[0; BLOCK_BYTES]);
    for cut in 0..=end.appended.len() {
        let mut torn = crashed.clone();
        for (position, block) in end.appended.iter().skip(cut) {
            put(&mut torn[4].1, journal_start + position, &block[..]);
        }
        assert_content(&torn, &[cut % 4], sum, "a journal that was cut off");
    }
    for (position, block) in &end.appended {
        put(&mut crashed[4].1, journal_start + position, &block[..]);
    }
    for cut in 0..recovered.pieces.len() {
        let mut torn = crashed.clone();
        let arrived = recovered.pieces.iter().enumerate().filter(|(index, _)| index % 7 != cut % 7);
        for (_, (role, row, block)) in arrived.take(cut) {
            let member = &mut torn[role.index()].1;
            put(member, start(&given.members[role.index()]) + row.0, &block[..]);
        }
        assert_content(&torn, &[cut % 4], sum, "a replay that was cut off");
    }
}

/// The kernel has several metadata blocks on their way: where one is torn, those behind may be whole.
#[test]
fn blocks_behind_a_torn_one_cannot_follow_what_is_written_there() {
    let all = golden::members("r5-journal-wb-crash");
    let blocks_of = |bytes: &[u8], journal: &Superblock| -> Vec<MetaBlock> {
        let first = usize::try_from(journal.device.data_offset * 512).unwrap();
        let blocks = bytes[first..].chunks_exact(BLOCK_BYTES);
        blocks
            .filter_map(|block| MetaBlock::decode(journal.array.uuid, block.first_chunk().unwrap()))
            .collect()
    };
    let given = Given::of(&all, &[]);
    let journal = given.members[4].superblock();
    let (blocks, tail) = (blocks_of(&all[4].1, journal), journal.device.recovery_offset);
    let mut tried = 0;
    for torn in blocks.iter().filter(|block| block.position > tail) {
        let mut crashed = all.clone();
        let at = usize::try_from((journal.device.data_offset + torn.position) * 512).unwrap();
        crashed[4].1[at..at + BLOCK_BYTES].fill(0);
        let given = Given::of(&crashed, &[]);
        let arrays = judge(&given.members);
        let media: Vec<&[u8]> = given.media.iter().map(|bytes| &bytes[..]).collect();
        let end = recover(&arrays[0], &media).unwrap().journal.unwrap();
        let left = blocks_of(&crashed[4].1, journal);
        tried += usize::from(left.iter().any(|block| block.sequence > torn.sequence));
        assert!(left.iter().all(|block| block.sequence < end.sequence), "torn at {}", torn.position);
    }
    assert!(tried > 3, "{tried} of {} blocks have others behind them", blocks.len());
}
