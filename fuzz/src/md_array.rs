//! Small arrays of md for the targets that replay logs and journals: what `md create` plans of them.

use block::md::create::{BitmapWish, Blank, MemberPlan, Wish, plan};
use block::md::superblock::{Identity, Shape, Version};
use block::md::{SECTOR_BYTES, Uuid};

/// Identity of the arrays.
pub const ARRAY: Uuid = Uuid([7; 16]);

/// Plans of members with so many sectors, whose identities count from 1; with a partial parity log of so many sectors, or for a journal.
///
/// # Panics
/// When there can be no such array.
#[must_use]
pub fn planned(shape: Shape, sectors: u64, data_offset: u64, ppl: Option<u16>) -> Vec<MemberPlan> {
    let wish = Wish {
        version: Version::V1_2,
        array: Identity { uuid: ARRAY, name: [0; 32], created: 1_700_000_000 },
        shape,
        data_offset: Some(data_offset),
        bitmap: BitmapWish::None,
        ppl,
        journal: ppl.is_none(),
        clean: true,
    };
    let uuid = |number: u32| Uuid([u8::try_from(number).expect("few members"); 16]);
    let blanks: Vec<Option<Blank>> =
        (1..=shape.members).map(|number| Some(Blank { sectors, uuid: uuid(number) })).collect();
    plan(&wish, &blanks).expect("an array that can be").into_iter().flatten().collect()
}

/// Bytes of sectors.
///
/// # Panics
/// When memory has no room for them.
#[must_use]
pub fn bytes(sectors: u64) -> usize {
    usize::try_from(sectors).expect("few") * SECTOR_BYTES
}
