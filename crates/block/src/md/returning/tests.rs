//! Devices of an array of three: one as it was made, others with something wrong.

use super::super::create::{BitmapWish, Blank, Wish, plan};
use super::super::superblock::{Identity, SUPERBLOCK_BYTES, Shape, Version};
use super::super::{Media, ReadFailed};
use super::*;
use base::bytes::put;

struct Bytes(Vec<u8>);

impl Media for Bytes {
    fn sectors(&self) -> u64 {
        u64::try_from(self.0.len() / 512).unwrap()
    }

    fn read(&self, sector: u64, into: &mut [u8]) -> Result<(), ReadFailed> {
        let start = usize::try_from(sector).unwrap() * 512;
        into.copy_from_slice(&self.0[start..start + into.len()]);
        Ok(())
    }
}

/// Superblocks of an array of three, and a device with the last of them after `change`.
fn device(bitmap: BitmapWish, change: impl Fn(&mut Superblock)) -> (Superblock, Member) {
    let wish = Wish {
        version: Version::V1_2,
        array: Identity { uuid: Uuid([7; 16]), name: [0; 32], created: 5 },
        shape: Shape { level: 5, layout: 2, size: 0, chunk: 128, members: 3 },
        data_offset: None,
        bitmap,
        ppl: None,
        journal: false,
        clean: true,
    };
    let blank = |role| Some(Blank { sectors: 50_000, uuid: Uuid([role; 16]) });
    let plans = plan(&wish, &[blank(1), blank(2), blank(3)]).unwrap();
    let [first, .., last] = &plans[..] else { panic!("three members") };
    let last = last.clone().unwrap();
    let mut bytes = Bytes(vec![0; 50_000 * 512]);
    for (sector, before) in &last.before {
        put(&mut bytes.0, usize::try_from(sector * 512).unwrap(), before);
    }
    let mut superblock = last.superblock;
    change(&mut superblock);
    let mut record = [0; SUPERBLOCK_BYTES];
    superblock.encode(&mut record);
    put(&mut bytes.0, usize::try_from(superblock.device.super_offset * 512).unwrap(), &record);
    (first.clone().unwrap().superblock, Member::read("device", &bytes).unwrap())
}

const BITMAP: BitmapWish = BitmapWish::Internal(Some(1 << 16));

#[test]
fn a_member_comes_back_in_its_role_with_its_places() {
    let (mut member, device) = device(BITMAP, |own| own.device.data_size -= 8);
    member.state.events = 40;
    let (role, superblock) = returning(&member, &device, 4096).unwrap();
    assert_eq!(role, Role(2));
    assert_eq!(superblock.device, device.superblock().device);
    assert_eq!((superblock.state, superblock.features), (member.state, feature::BITMAP));
}

#[test]
fn what_is_no_member_does_not_come_back() {
    type Change = fn(&mut Superblock);
    let cases: [(Change, CannotReturn); 6] = [
        (|own| own.array.uuid = Uuid([8; 16]), CannotReturn::OtherArray(Uuid([8; 16]))),
        (|own| own.shape.size -= 128, CannotReturn::OtherShape),
        (|own| own.roles[2] = 0xffff, CannotReturn::NoMember),
        (
            |own| {
                own.features |= feature::RECOVERY_OFFSET;
                own.device.recovery_offset = 64;
            },
            CannotReturn::Rebuilt(64),
        ),
        (|own| own.features |= feature::REPLACEMENT, CannotReturn::Replacement(Role(2))),
        (|own| own.features |= 1 << 30, CannotReturn::Fault(Fault::Features(1 << 30))),
    ];
    for (change, expected) in cases {
        let (member, mut device) = device(BITMAP, change);
        // The bitmap names the size of the array before it was changed.
        if expected == CannotReturn::OtherShape {
            device.bitmap = None;
        }
        assert_eq!(returning(&member, &device, 4096), Err(expected));
    }
    let (member, device) = device(BitmapWish::None, |_| {});
    assert_eq!(returning(&member, &device, 4096), Err(CannotReturn::NoBitmap));
}

#[test]
fn one_that_was_brought_up_to_date_by_bits_may_begin_anew() {
    let (member, device) = device(BITMAP, |own| {
        own.features |= feature::RECOVERY_OFFSET | feature::RECOVERY_BITMAP;
        own.device.recovery_offset = 64;
    });
    let (_, superblock) = returning(&member, &device, 4096).unwrap();
    assert_eq!((superblock.features, superblock.device.recovery_offset), (feature::BITMAP, 0));
}
