//! Places and sizes beside those that mdadm 4.2 chose on Linux 6.1 for RAID-5 over three members.

use super::*;
use crate::md::Role;
use crate::md::member::Member;

const MIB: u64 = 2048;

fn wish(version: Version, chunk_kib: u32, bitmap: BitmapWish, clean: bool) -> Wish {
    let array = Identity { uuid: Uuid([7; 16]), name: [0; 32], created: 1_795_412_760 };
    let shape = Shape { level: 5, layout: 2, size: 0, chunk: chunk_kib * 2, members: 3 };
    Wish { version, array, shape, data_offset: None, bitmap, ppl: None, journal: false, clean }
}

fn blanks(sectors: u64) -> Vec<Option<Blank>> {
    (1..=3).map(|device| Some(Blank { sectors, uuid: Uuid([device; 16]) })).collect()
}

/// Data offset, sectors for data, sectors used, and where bitmap and bad-block log lie from the superblock.
fn chosen(wish: &Wish, sectors: u64) -> (u64, u64, u64, i32, i32) {
    let plans = plan(wish, &blanks(sectors)).expect("a plan");
    let superblock = &plans[0].as_ref().expect("a member").superblock;
    let device = &superblock.device;
    let log = i32::from_le_bytes(superblock.log.to_le_bytes());
    (device.data_offset, device.data_size, superblock.shape.size, log, device.bad_blocks.offset)
}

#[test]
fn defaults_are_those_of_mdadm() {
    use Version::{V1_0, V1_1, V1_2};
    let internal = BitmapWish::Internal(None);
    for (mib, version, chunk, bitmap, expected) in [
        (4, V1_2, 64, internal, (2048, 6144, 6144, 8, 16)),
        (4, V1_2, 512, BitmapWish::None, (4096, 4096, 4096, 0, 16)),
        (4, V1_0, 64, internal, (0, 8160, 8064, -16, -8)),
        (4, V1_1, 64, internal, (2048, 6144, 6144, 8, 16)),
        (4, V1_0, 64, BitmapWish::None, (0, 8160, 8064, 0, -8)),
        (40, V1_2, 512, BitmapWish::None, (4096, 77824, 77824, 0, 16)),
        (40, V1_0, 64, internal, (0, 81888, 81792, -16, -8)),
        (1200, V1_2, 64, internal, (4096, 2_453_504, 2_453_504, 8, 16)),
        (20 << 10, V1_2, 64, internal, (34816, 41_908_224, 41_908_224, 8, 16)),
        (20 << 10, V1_2, 512, BitmapWish::None, (34816, 41_908_224, 41_908_224, 0, 136)),
        (20 << 10, V1_0, 64, internal, (0, 41_943_008, 41_942_784, -16, -8)),
        (20 << 10, V1_0, 64, BitmapWish::None, (0, 41_942_888, 41_942_784, 0, -8)),
        (500 << 10, V1_2, 64, internal, (264_192, 1_048_311_808, 1_048_311_808, 8, 16)),
        (500 << 10, V1_2, 512, BitmapWish::None, (264_192, 1_048_311_808, 1_048_311_808, 0, 264)),
    ] {
        let wish = wish(version, chunk, bitmap, true);
        assert_eq!(chosen(&wish, mib * MIB), expected, "{mib} MiB, {version}, {chunk} KiB, {bitmap:?}");
    }
}

#[test]
fn members_read_back_as_planned() {
    for version in Version::ALL {
        for clean in [false, true] {
            let wish = wish(version, 64, BitmapWish::Internal(Some(4096)), clean);
            let mut devices = blanks(8 * MIB);
            devices[1] = None;
            let plans = plan(&wish, &devices).expect("a plan");
            assert!(plans[1].is_none());
            let plan = plans[2].as_ref().expect("a member");
            let mut media = vec![0xee; 8 << 20];
            let superblock = (plan.superblock.device.super_offset, plan.record().to_vec());
            for (sector, bytes) in plan.before.iter().chain([&superblock]) {
                let start = usize::try_from(*sector).expect("small") * SECTOR_BYTES;
                media[start..start + bytes.len()].copy_from_slice(bytes);
            }
            let member = Member::read("m", &media[..]).expect("a member");
            assert_eq!((member.superblock(), member.version), (&plan.superblock, version));
            assert_eq!(member.reading.stored, member.reading.computed);
            assert_eq!(member.superblock().roles[..4], [0, NOBODY, 2, NOBODY]);
            let bitmap = member.bitmap.clone().expect("a bitmap").expect("a good one");
            let set = if clean { 0 } else { bitmap.head.regions() };
            assert_eq!(u64::try_from(bitmap.bits.set().count()), Ok(set));
            assert_eq!(member.superblock().is_clean(), clean);
        }
    }
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let wish = wish(Version::V1_2, 64, BitmapWish::Internal(None), true);
    let refused = |change: &dyn Fn(&mut Wish)| {
        let mut wish = wish.clone();
        change(&mut wish);
        plan(&wish, &blanks(8 * MIB)).expect_err("a refusal")
    };
    assert!(matches!(refused(&|wish| wish.shape.chunk = 24), Impossible::Shape(_)));
    assert!(matches!(refused(&|wish| wish.shape.chunk = 4), Impossible::Shape(_)));
    assert!(matches!(refused(&|wish| wish.shape.level = 1), Impossible::Shape(_)));
    assert_eq!(refused(&|wish| wish.shape.members = 4), Impossible::Devices(3));
    assert_eq!(refused(&|wish| wish.shape.size = 8 * MIB), Impossible::Size(8 * MIB, 7 * MIB));
    assert_eq!(refused(&|wish| wish.data_offset = Some(24)), Impossible::DataOffset(24, 32));
    assert!(matches!(refused(&|wish| wish.data_offset = Some(u64::MAX)), Impossible::TooSmall(0, ..)));
    assert_eq!(
        refused(&|wish| wish.bitmap = BitmapWish::Internal(Some(2048))),
        Impossible::Region(2048, 4096)
    );
    let mut at_end = wish.clone();
    (at_end.version, at_end.data_offset) = (Version::V1_0, Some(MIB));
    assert_eq!(plan(&at_end, &blanks(8 * MIB)).expect_err("a refusal"), Impossible::DataOffsetOf10);
    let small = plan(&wish, &blanks(100)).expect_err("a refusal");
    assert!(matches!(small, Impossible::TooSmall(0, 100, _)), "{small}");
}

#[test]
fn a_partial_parity_log_lies_where_mdadm_puts_it_and_its_last_member_is_rebuilt() {
    use crate::md::assembly::{Part, Policy, judge};
    let logged = |clean| Wish { ppl: Some(2048), ..wish(Version::V1_2, 64, BitmapWish::None, clean) };
    // As golden array r5-ppl-clean.
    let word = 8 | 2048 << 16;
    assert_eq!(chosen(&logged(true), 4 * MIB), (4096, 4096, 4096, word, 2056));
    for clean in [false, true] {
        let plans = plan(&logged(clean), &blanks(4 * MIB)).expect("a plan");
        let read = |plan: &Option<MemberPlan>| {
            let plan = plan.as_ref().expect("a member");
            let mut media = vec![0; 4 << 20];
            for (sector, bytes) in &plan.before {
                base::bytes::put(&mut media, usize::try_from(sector * 512).unwrap(), bytes);
            }
            base::bytes::put(&mut media, 4096, &plan.record());
            Member::read("new", &media[..]).expect("a member")
        };
        let members: Vec<Member> = plans.iter().map(read).collect();
        assert!(members.iter().all(|member| member.ppl.as_ref().is_ok_and(|found| found.len() == 1)));
        let arrays = judge(&members);
        assert!(arrays[0].can_be_served() && arrays[0].policy() == Policy::Ppl, "{}", arrays[0].in_words());
        let last = if clean { Part::Active(Role(2)) } else { Part::Recovering(Role(2), 0) };
        assert_eq!(arrays[0].devices[2].1, last);
    }
    let with = |change: &dyn Fn(&mut Wish)| {
        let mut wish = logged(true);
        change(&mut wish);
        plan(&wish, &blanks(4 * MIB)).err()
    };
    assert_eq!(with(&|wish| wish.version = Version::V1_0), Some(Impossible::Ppl(5)));
    assert_eq!(with(&|wish| wish.bitmap = BitmapWish::Internal(None)), Some(Impossible::Ppl(5)));
    let level_4 = |wish: &mut Wish| (wish.shape.level, wish.shape.layout) = (4, 0);
    assert_eq!(with(&level_4), Some(Impossible::Ppl(4)));
}
