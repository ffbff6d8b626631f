//! Stamps: out-of-band bytes of every block, which say what the block was written for.

use base::bytes::{array_at, put, u32_at, u64_at};
use base::checksum::crc32c;
use base::frame::Frame;
use base::record_fields;
use base::units::{OOB_BYTES, ZoneIndex};

record_fields! { OOB_BYTES;
    CACHE: 0, 16, "cache UUID";
    BIRTH: 16, 8, "birth number of the zone: the sequence at which this life of it began; zero in the superblock log";
    SEQUENCE: 24, 8, "sequence of the block, from one counter for blocks, entries and births; of a superblock, its generation";
    ZONE: 32, 4, "zone that the block was written for";
    PAGE: 36, 4, "block within the zone";
    KIND: 40, 1, "1 zone header, 2 page of records, 3 directory, 4 journal, 5 superblock";
    MEMBER: 41, 1, "member that the block was written for";
    STREAM: 42, 1, "0 journal and superblocks, 1 objects that clients stored, 2 objects that were written anew, 3, 4, 5 objects that expire soon, of the first, second and third group, 16 to 31 objects of namespace 0 to 15, which has zones of its own";
    RESERVED_0: 43, 1, "zero";
    DATA_CRC: 44, 4, "CRC32C of the block's data";
    ORIGIN: 48, 8, "sequence of the page in which the record begins whose bytes this page begins with; zero when it begins with none";
    RESERVED_1: 56, 4, "zero";
    CRC: 60, 4, "CRC32C of the stamp with this field zero";
}

/// Kind of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// First block of a zone.
    Header,
    /// Records.
    Records,
    /// A part of a directory.
    Directory,
    /// Journal entries.
    Journal,
    /// A superblock.
    Superblock,
}

impl Kind {
    fn code(self) -> u8 {
        match self {
            Kind::Header => 1,
            Kind::Records => 2,
            Kind::Directory => 3,
            Kind::Journal => 4,
            Kind::Superblock => 5,
        }
    }

    fn from_code(code: u8) -> Option<Kind> {
        let kinds = [Kind::Header, Kind::Records, Kind::Directory, Kind::Journal, Kind::Superblock];
        kinds.into_iter().find(|kind| kind.code() == code)
    }
}

/// Life of a zone: which cache, drive and zone, and since when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    /// Identity of the cache.
    pub cache: [u8; 16],
    /// Member whose drive it is.
    pub member: u8,
    /// The zone.
    pub zone: ZoneIndex,
    /// Sequence at which it began.
    pub birth: u64,
    /// Stream of its blocks.
    pub stream: u8,
}

/// Stamp of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Life of the zone that the block was written in.
    pub life: Life,
    /// Block within the zone.
    pub page: u32,
    /// Kind of the block.
    pub kind: Kind,
    /// Sequence of the block.
    pub sequence: u64,
    /// Sequence of the page in which the record begins whose bytes this page begins with, or zero.
    pub origin: u64,
}

impl Stamp {
    /// Writes the stamp over the data of a frame.
    pub fn seal(&self, frame: &mut Frame) {
        let data_crc = crc32c(&frame.data);
        let oob = &mut frame.oob;
        oob.fill(0);
        put(oob, at::CACHE, &self.life.cache);
        put(oob, at::BIRTH, &self.life.birth.to_le_bytes());
        put(oob, at::SEQUENCE, &self.sequence.to_le_bytes());
        put(oob, at::ZONE, &self.life.zone.0.to_le_bytes());
        put(oob, at::PAGE, &self.page.to_le_bytes());
        oob[at::KIND] = self.kind.code();
        oob[at::MEMBER] = self.life.member;
        oob[at::STREAM] = self.life.stream;
        put(oob, at::DATA_CRC, &data_crc.to_le_bytes());
        put(oob, at::ORIGIN, &self.origin.to_le_bytes());
        let crc = crc32c(oob);
        put(oob, at::CRC, &crc.to_le_bytes());
    }

    /// Reads the stamp of a frame; `None` when there is none that is whole, of data that is whole.
    #[must_use]
    pub fn read(frame: &Frame) -> Option<Stamp> {
        let mut oob = frame.oob;
        put(&mut oob, at::CRC, &[0; 4]);
        if crc32c(&oob) != u32_at(&frame.oob, at::CRC) || crc32c(&frame.data) != u32_at(&oob, at::DATA_CRC) {
            return None;
        }
        let life = Life {
            cache: array_at(&oob, at::CACHE),
            member: oob[at::MEMBER],
            zone: ZoneIndex(u32_at(&oob, at::ZONE)),
            birth: u64_at(&oob, at::BIRTH),
            stream: oob[at::STREAM],
        };
        let kind = Kind::from_code(oob[at::KIND])?;
        let (sequence, origin) = (u64_at(&oob, at::SEQUENCE), u64_at(&oob, at::ORIGIN));
        Some(Stamp { life, page: u32_at(&oob, at::PAGE), kind, sequence, origin })
    }

    /// Reads the stamp of a frame that came from a place; `None` when it was written for another place, cache or life.
    #[must_use]
    pub fn read_at(frame: &Frame, life: &Life, page: u32) -> Option<Stamp> {
        Stamp::read(frame).filter(|stamp| stamp.life == *life && stamp.page == page)
    }
}
