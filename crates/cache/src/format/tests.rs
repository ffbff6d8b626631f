//! Every structure comes back as it was written, damage is noticed, and no bytes make a parser panic.

use super::directory::{DirectoryBlock, Listed, ListedPage, Listing, ToldExpiries, class_of};
use super::header::{Role, ZoneHeader};
use super::journal::{ENTRIES_MAX, Entry, JournalBlock};
use super::page::{Packer, PageView, PageWriter, ROOM_BYTES, WHOLE_BYTES_MAX};
use super::record::{self, RecordHead};
use super::stamp::{Kind, Life, Stamp};
use super::superblock::{Clears, Member, Standing, Superblock};
use super::*;
use crate::hash::{FullKey, KeyHash, Shape};
use crate::request::{Marks, Namespace, Object, WallMillis};
use base::checksum::crc32c;
use base::fields::with_tables;
use base::frame::Frame;
use base::random::Random;
use base::units::{BLOCK_BYTES, ZoneIndex};
use base::xor::Block;
use proptest::prelude::*;

/// `docs/FORMAT.md` holds exactly these tables; `ZONEWEAVE_BLESS=1` rewrites them.
#[test]
fn the_document_matches_the_code() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/FORMAT.md");
    let document = std::fs::read_to_string(path).expect("docs/FORMAT.md");
    let tables = [
        ("cache-superblock", superblock::FIELDS),
        ("cache-stamp", stamp::FIELDS),
        ("cache-header", header::FIELDS),
        ("cache-directory", directory::FIELDS),
        ("cache-journal", journal::FIELDS),
        ("cache-attendance", crate::attendance::FIELDS),
        ("cache-shared-header", crate::shared::header::FIELDS),
        ("cache-shared-entry", crate::shared::entry::FIELDS),
    ];
    let expected = with_tables(&document, &tables);
    if std::env::var_os("ZONEWEAVE_BLESS").is_some() {
        std::fs::write(path, &expected).expect("docs/FORMAT.md");
    } else {
        assert!(document == expected, "stale: ZONEWEAVE_BLESS=1 cargo test -p zoneweave-cache");
    }
}

fn life() -> Life {
    Life { cache: [7; 16], member: 2, zone: ZoneIndex(9), birth: 1 << 41, stream: 1 }
}

fn golden_superblock() -> Superblock {
    let standings = [Standing::Member, Standing::LeftOut, Standing::Joined];
    let member = |uuid: u8| Member {
        uuid: [uuid; 16],
        standing: standings[usize::from(uuid) - 1],
        zones_lost: u32::from(uuid),
    };
    Superblock {
        cache: [7; 16],
        secret: [8; 16],
        generation: 11,
        epoch: 3,
        wall: WallMillis(1_700_000_000_000),
        members: vec![member(1), member(2), member(3)],
        quorum: 1,
        clears: Clears {
            below: std::array::from_fn(|namespace| namespace as u64 * 5),
            planned: std::array::from_fn(|namespace| {
                (namespace % 3 == 1).then_some(WallMillis(1_700_000_000_000 + namespace as u64))
            }),
        },
        mark: None,
    }
}

fn golden_journal() -> JournalBlock {
    let entry = |bits: u64| Entry { hash: KeyHash::from_bits(bits * 0x1_0001), sequence: bits << 40 };
    JournalBlock { wall: WallMillis(77), closes: true, entries: (0..ENTRIES_MAX as u64).map(entry).collect() }
}

fn listed(bits: u64) -> Listed {
    Listed { hash: KeyHash::from_bits(bits), namespace: Namespace(3), class: 4 }
}

fn told_expiries() -> ToldExpiries {
    let samples = std::array::from_fn(|sample| sample as u64 * 7);
    ToldExpiries { first: 70, last: u64::MAX, bytes: 12_345, samples, count: 16 }
}

/// A directory of pages with no record to 59 of them, behind one of two blocks.
fn golden_directory(closes: bool) -> (Listing, Vec<Box<Block>>) {
    let mut listing = Listing::new(3, 2);
    (0..60).for_each(|count| listing.add(count + 90, (0..count).map(listed).collect::<Vec<_>>().into_iter()));
    let blocks = listing.clone().end_directory(&told_expiries(), closes);
    (listing, blocks)
}

/// The bytes of one of each structure, by their checksums: a change of the format changes these.
#[test]
fn the_format_does_not_change_unnoticed() {
    let mut block: Block = [0; BLOCK_BYTES];
    let mut found = Vec::new();
    let with_plans = golden_superblock();
    let mut without = with_plans.clone();
    without.clears.planned = [None; NAMESPACES];
    for superblock in [without, with_plans] {
        superblock.encode(1, &mut block);
        found.push(crc32c(&block));
    }
    let shape = Shape::new(1000, 12).unwrap();
    ZoneHeader { role: Role::Journal, shape, wall: WallMillis(5) }.encode(&mut block);
    found.push(crc32c(&block));
    golden_journal().encode(&mut block);
    found.push(crc32c(&block));
    found.push(crc32c(&*golden_directory(true).1[1]));
    let mut frame = Frame::zeroed();
    Stamp { life: life(), page: 3, kind: Kind::Records, sequence: 99, origin: 98 }.seal(&mut frame);
    found.push(crc32c(&frame.oob));
    for marks in [Marks::default(), Marks::stale(5, true)] {
        let object =
            Object { value: b"value"[..].into(), flags: 300, marks, expires: Some(WallMillis(1 << 33)) };
        let bytes = record::encode(&FullKey::new(Namespace(2), b"key"), &object);
        found.push(crc32c(&bytes));
    }
    assert_eq!(found, GOLDEN, "{found:#010x?}");
}

const GOLDEN: [u32; 8] =
    [0xc96b_a404, 0x37ca_bfe1, 0xa736_cb9e, 0x16bf_1656, 0xfde8_31a1, 0xe1b5_53a4, 0x7150_6e61, 0xd8d9_c100];

#[test]
fn structures_come_back() {
    let mut block: Block = [0; BLOCK_BYTES];
    golden_superblock().encode(1, &mut block);
    assert_eq!(Superblock::decode(&block), Some((golden_superblock(), 1)));
    golden_journal().encode(&mut block);
    assert_eq!(JournalBlock::decode(&block), Some(golden_journal()));
    for role in [Role::Data, Role::Journal] {
        let header = ZoneHeader { role, shape: Shape::new(12, 3).unwrap(), wall: WallMillis(5) };
        header.encode(&mut block);
        assert_eq!(ZoneHeader::decode(&block), Some(header));
    }
    assert_eq!([1, 64, 65, 4096, 1 << 29].map(class_of), [0, 0, 1, 6, 15]);
}

#[test]
fn directories_come_back() {
    let (listing, blocks) = golden_directory(false);
    assert!(blocks.len() > 2 && blocks.len() == listing.extent().blocks() as usize);
    let read: Vec<DirectoryBlock> =
        blocks.iter().map(|block| DirectoryBlock::decode(block).expect("a directory")).collect();
    let mut next = 3;
    for (place, block) in read.iter().enumerate() {
        let is_last = place + 1 == blocks.len();
        assert_eq!((block.run, block.covers, block.before, block.first), (63, 3, 2, next));
        assert_eq!((block.is_last, block.closes, block.expiries), (is_last, false, told_expiries()));
        next = block.end();
    }
    let pages: Vec<&ListedPage> = read.iter().flat_map(|block| &block.pages).collect();
    assert_eq!((next, pages.len()), (63, 60));
    for (count, page) in (0..60).zip(pages) {
        assert_eq!(*page, ListedPage { sequence: count + 90, records: (0..count).map(listed).collect() });
    }
}

#[test]
fn the_next_directory_lies_behind_the_one_before() {
    let (mut listing, _) = golden_directory(false);
    let blocks = u32::try_from(listing.end_directory(&told_expiries(), false).len()).unwrap();
    assert_eq!((listing.end(), listing.pages()), (63 + blocks, 0));
    let closing = listing.end_directory(&told_expiries(), true);
    let closing: Vec<DirectoryBlock> =
        closing.iter().map(|block| DirectoryBlock::decode(block).unwrap()).collect();
    assert_eq!(closing.len(), 1, "one that covers nothing has a block");
    assert!(closing[0].closes && closing[0].is_last && closing[0].pages.is_empty());
    assert_eq!((closing[0].before, closing[0].run), (blocks, 63 + blocks));
}

#[test]
fn a_stamp_is_believed_in_its_place_only() {
    let mut frame = Frame::zeroed();
    frame.data[5] = 1;
    let stamp = Stamp { life: life(), page: 3, kind: Kind::Journal, sequence: 99, origin: 0 };
    stamp.seal(&mut frame);
    assert_eq!(Stamp::read_at(&frame, &life(), 3), Some(stamp));
    assert_eq!(Stamp::read_at(&frame, &life(), 4), None);
    for other in [
        Life { cache: [6; 16], ..life() },
        Life { member: 1, ..life() },
        Life { zone: ZoneIndex(8), ..life() },
        Life { birth: 5, ..life() },
    ] {
        assert_eq!(Stamp::read_at(&frame, &other, 3), None);
    }
    frame.data[5] = 2;
    assert_eq!(Stamp::read(&frame), None);
    frame.data[5] = 1;
    frame.oob[40] ^= 1;
    assert_eq!(Stamp::read(&frame), None);
    assert_eq!(Stamp::read(&Frame::zeroed()), None);
}

/// Lays records out, writes the pages, and reads all records from them.
fn round_trip(objects: &[(FullKey, Object)]) {
    let mut packer = Packer::new(usize::MAX);
    let places: Vec<_> = objects
        .iter()
        .map(|(key, object)| {
            let (bytes, head) = record::sizes(key, object);
            packer.place(bytes, head).expect("pages enough")
        })
        .collect();
    let mut pages: Vec<Block> = vec![[0; BLOCK_BYTES]; packer.pages()];
    for ((key, object), place) in objects.iter().zip(&places) {
        let (front, value) = (record::encode_front(key, object), &object.value);
        let mut done = PageWriter::resume(&mut pages[place.page]).begin(place.offset, &front, value);
        let mut page = place.page;
        assert!(done == value.len() || front.len() + value.len() > WHOLE_BYTES_MAX);
        while done < value.len() {
            page += 1;
            done += PageWriter::resume(&mut pages[page]).go_on(&value[done..]);
        }
    }
    let mut found = Vec::new();
    for (number, page) in pages.iter().enumerate() {
        for start in PageView::parse(page).expect("a page as it was written").records() {
            let head = RecordHead::parse(start).expect("a record's head");
            let key = FullKey::new(head.namespace, head.key(start).expect("a key in the page of its head"));
            let (front, value) = head.split(start);
            let (mut value, mut next) = (value.to_vec(), number);
            while value.len() < head.value_bytes {
                next += 1;
                value.extend_from_slice(PageView::parse(&pages[next]).expect("a page").lead());
            }
            found.push((key, head.object(front, value.into()).expect("a whole record")));
        }
    }
    let expected: Vec<_> = objects.iter().map(|(key, object)| (key.clone(), object.clone())).collect();
    assert!(found == expected);
}

#[test]
fn small_records_share_pages_and_take_seven_bytes_beyond_key_and_value() {
    let object = Object { value: vec![1; 100].into(), flags: 0, marks: Marks::default(), expires: None };
    let (bytes, _) = record::sizes(&FullKey::new(Namespace(0), &[b'k'; 32]), &object);
    assert_eq!(bytes, 32 + 100 + 7);
    let mut packer = Packer::new(1);
    let fit = std::iter::from_fn(|| packer.place(bytes, bytes - 100)).count();
    assert_eq!(fit, 29);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn pages_hold_what_was_written(
        sizes in proptest::collection::vec((1_usize..40, 0_usize..9000, any::<u32>(), any::<bool>()), 1..60)
    ) {
        let mut random = Random::from_seed(1);
        let objects: Vec<_> = sizes.into_iter().map(|(key_bytes, value_bytes, flags, expires)| {
            let (mut key, mut value) = (vec![0; key_bytes], vec![0; value_bytes]);
            random.fill(&mut key);
            random.fill(&mut value);
            let expires = expires.then_some(WallMillis(u64::from(flags) << 8));
            // Half of them are not marked.
            let marks = Marks::from_bits(if flags % 2 == 0 { flags } else { 0 });
            (FullKey::new(Namespace(1), &key), Object { value: value.into(), flags: flags >> 9, marks, expires })
        }).collect();
        round_trip(&objects);
    }

    #[test]
    fn no_bytes_make_a_parser_panic(
        mut block in proptest::collection::vec(any::<u8>(), BLOCK_BYTES), kind in 0..5_usize, count in any::<u16>()
    ) {
        let magics = [&b"ZWCDIRE1"[..], b"ZWCJRNL1", b"ZWCZONE1", b"ZWCACHE1", b""];
        block[..magics[kind].len()].copy_from_slice(magics[kind]);
        let mut bytes: Block = block.try_into().expect("a block");
        for count in [count, count >> 5, count >> 9] {
            bytes[BLOCK_BYTES - 2..].copy_from_slice(&count.to_le_bytes());
            bytes[24..26].copy_from_slice(&count.to_le_bytes());
            bytes[8..12].copy_from_slice(&1_u32.to_le_bytes());
            let _ = DirectoryBlock::decode(&bytes);
            let _ = ZoneHeader::decode(&bytes);
            let _ = Superblock::decode(&bytes);
            bytes[8..10].copy_from_slice(&count.to_le_bytes());
            let _ = JournalBlock::decode(&bytes);
            if let Some(page) = PageView::parse(&bytes) {
                prop_assert!(page.lead().len() <= ROOM_BYTES);
                for start in page.records() {
                    if let Some(head) = RecordHead::parse(start) {
                        let _ = head.key(start);
                        if head.record_bytes() <= start.len() {
                            let (front, value) = head.split(start);
                            let _ = head.object(front, value.into());
                        }
                    }
                }
            }
        }
    }
}
