//! Plan of a run: the array and its disks.

use array::inplace::window::Manner;
use base::random::Random;
use block::md::superblock::Version;

/// Consistency policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// No bitmap.
    Resync,
    /// Bitmap with regions of so many bytes.
    Bitmap(u32),
    /// Partial parity logs of so many sectors.
    Ppl(u16),
    /// Journal with so many sectors for its ring.
    Journal(u64),
}

/// Plan of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Seed of everything that is drawn while it runs.
    pub seed: u64,
    /// RAID level.
    pub level: i32,
    /// Layout.
    pub layout: u32,
    /// Members.
    pub members: u32,
    /// Sectors of a chunk.
    pub chunk: u32,
    /// Chunks of a member.
    pub stripes: u64,
    /// Version of the superblocks.
    pub version: Version,
    /// First sector of the data; zero with version 1.0.
    pub data_offset: u64,
    /// Policy.
    pub policy: Policy,
    /// Disks have a volatile cache.
    pub is_volatile: bool,
    /// Longest time of most commands, in nanoseconds.
    pub latency: u64,
    /// Parities are right at the beginning.
    pub is_clean: bool,
    /// Members have logs of bad blocks.
    pub has_lists: bool,
    /// Manner in which writes wait for the rest of a strip.
    pub window: Manner,
    /// Bytes of the engine's cache, at most.
    pub cache_bytes: u64,
    /// Bytes a second that sweeps take of each member; `None` gives way to clients, and takes what they leave.
    pub rate: Option<u64>,
    /// Shards beside the control shard; 0 for an engine alone.
    pub shards: usize,
    /// Stripes of a unit that a shard has.
    pub unit_stripes: u64,
}

impl Plan {
    /// Plan of a seed.
    #[must_use]
    pub fn draw(seed: u64) -> Plan {
        let mut random = Random::from_seed(seed ^ 0x1a9e_71ce);
        let level = [4, 5, 5, 6, 6][random.index(5)];
        let layout = match level {
            4 => 0,
            5 => random.below(6),
            _ => [0, 1, 2, 3, 4, 5, 8, 9, 10, 16, 17, 18, 19, 20][random.index(14)],
        };
        let least = if level == 6 { 4 } else { 2 };
        let version = [Version::V1_2, Version::V1_2, Version::V1_1, Version::V1_0][random.index(4)];
        let sizes = if random.chance(1, 12) { 9 } else { 4 };
        let chunk = 8 << random.below(sizes);
        // A member has 16 to 128 rows, and at least two chunks.
        let stripes = (2 + random.below(3)).max((16 + random.below(113)) * 8 / chunk);
        let data_offset = if version == Version::V1_0 { 0 } else { 64 + random.below(3) * 5 };
        let policy =
            if random.chance(1, 2) { Policy::Bitmap(4096 << random.below(4)) } else { Policy::Resync };
        let has_logs = level == 5 && version != Version::V1_0 && random.chance(1, 2);
        // A single log, and rings that are soon full.
        let log = u16::try_from([152, 160, 280, 528, 600][random.index(5)]).expect("small");
        let (policy, data_offset) =
            if has_logs { (Policy::Ppl(log), data_offset + u64::from(log)) } else { (policy, data_offset) };
        // Room for a log that comes later, from a source of its own.
        let mut rooms = Random::from_seed(seed ^ 0x0600_d100);
        let gets_room = level == 5 && version != Version::V1_0 && !has_logs && rooms.chance(1, 2);
        let data_offset = data_offset + if gets_room { [170, 290, 600][rooms.index(3)] } else { 0 };
        // A ring that is soon full, and others, from a source of its own.
        let mut journals = Random::from_seed(seed ^ 0x010_9a11);
        let has_journal = journals.chance(1, 5);
        let ring = [424, 600, 1_024, 4_096][journals.index(4)] + journals.below(8);
        let policy = if has_journal { Policy::Journal(ring) } else { policy };
        // A source of its own, so that the others draw what they did.
        let mut waits = Random::from_seed(seed ^ 0xcac4_e000);
        let window = [Manner::Paper, Manner::Md, Manner::Adaptive, Manner::Adaptive][waits.index(4)];
        let cache_bytes = match waits.below(4) {
            0 => 0,
            1 => 200_000,
            _ => 64 << 20,
        };
        // Engines of some plans are several, from a source of its own.
        let mut cores = Random::from_seed(seed ^ 0x5a4d_0000);
        let shards = if cores.chance(1, 2) { 1 + cores.index(4) } else { 0 };
        Plan {
            seed,
            shards,
            unit_stripes: 1 + cores.below(3),
            level,
            layout: u32::try_from(layout).expect("less than 21"),
            members: u32::try_from(least + random.below(5)).expect("less than 9"),
            chunk: u32::try_from(chunk).expect("at most 2^12"),
            stripes,
            version,
            // Where it need not be a multiple of a frame, it sometimes is not.
            data_offset,
            policy,
            is_volatile: random.chance(2, 3),
            latency: 20_000 << random.below(5),
            is_clean: random.chance(2, 3),
            window,
            cache_bytes,
            rate: random.chance(1, 2).then(|| (16 << 10) << random.below(8)),
            has_lists: random.chance(3, 4),
        }
    }

    /// A plan that no array has proves nothing: what every plan, drawn or written by hand, holds.
    pub(super) fn check(&self) {
        let Plan { level, layout, members, chunk, stripes, version, data_offset, .. } = *self;
        assert!((4..=6).contains(&level), "level {level} is none of ours");
        assert!(level != 4 || layout == 0, "level 4 has no layout {layout}");
        assert!(level != 5 || layout < 6, "level 5 has no layout {layout}");
        let parities = u32::try_from(self.parities()).expect("two at most");
        assert!(members > parities, "{members} members of level {level} leave none for data");
        assert!(chunk > 0 && chunk.is_multiple_of(8), "a chunk of {chunk} sectors is no multiple of a block");
        assert!(stripes > 0, "members have no chunks");
        let is_at_start = version == Version::V1_0;
        assert!(is_at_start == (data_offset == 0), "data of {version:?} begin at sector {data_offset}");
        match self.policy {
            Policy::Resync => {}
            Policy::Bitmap(region) => {
                assert!(region.is_power_of_two(), "a bit of the bitmap stands for {region} bytes");
            }
            Policy::Ppl(sectors) => {
                assert!(level == 5, "level {level} has no partial parities");
                assert!(data_offset > u64::from(sectors), "{sectors} sectors of a log before {data_offset}");
            }
            Policy::Journal(sectors) => assert!(sectors > 0, "a journal without a ring"),
        }
        assert!(self.latency > 0, "commands take no time");
        assert!(self.rate != Some(0), "sweeps that may take nothing never end");
        assert!(self.unit_stripes > 0, "shards have units without stripes");
        assert!(self.blocks() > 0, "a volume without blocks");
    }

    /// Parities.
    #[must_use]
    pub fn parities(&self) -> usize {
        if self.level == 6 { 2 } else { 1 }
    }

    /// Blocks of the volume.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        let data = u64::from(self.members) - if self.level == 6 { 2 } else { 1 };
        self.stripes * u64::from(self.chunk) / 8 * data
    }
}
