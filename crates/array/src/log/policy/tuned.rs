//! Tuned constants: numbers of the adaptive policy that were chosen by measurement, for no rule gives them.
//!
//! ```text
//!   Shape   segments that an array has open, and their chunks      `ArrayConfig::adaptive`
//!   Tuned   what is decided while it is served                     `Tuning::tuned`
//! ```
//! Each says what it was chosen from: the drives, a measurement, or nothing but judgement. What each costs when it is halved and
//! doubled tells `lab contest --sensitivity`, with a table in docs/experiments.md. Arrays are always served with the defaults.

/// Open segments of an array and their chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Open segments of small chunks: a measured drive is at its limit with three or four writes in flight.
    pub small_segments_max: u32,
    /// Open segments of large chunks beside those: 64 requests of 4 KiB are five stripes, each in zones of its own, as many on
    /// each of two channel groups.
    pub large_segments_max: u32,
    /// Segments without data for each two that may be open for clients. Chosen by `lab contest` of seed 7: three for one over eight
    /// for one (docs/experiments.md). Zones that are open are throughput where each is a die, and half of what is open holds data.
    pub spare_per_two_segments: u32,
    /// C_s: the smallest there is, so that a lone write pads least.
    pub small_chunk_blocks: u32,
    /// C_l: beyond 16 KiB, bytes cost a drive the same in chunks of any size.
    pub large_chunk_blocks: u32,
    /// G: a zone runs empty at the end of each group, which small chunks reach soon.
    pub append_group_stripes: u32,
}

impl Default for Shape {
    fn default() -> Shape {
        Shape {
            small_segments_max: 4,
            large_segments_max: 6,
            spare_per_two_segments: 6,
            small_chunk_blocks: 1,
            large_chunk_blocks: 4,
            append_group_stripes: 1024,
        }
    }
}

/// Constants of what is decided while an array is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuned {
    /// Writes go to large chunks from so many sixths of a stripe of them under way on: 64 requests of 4 KiB are five stripes then,
    /// not 22 (docs/adr/0015).
    pub large_fill_sixths: u32,
    /// Stripes under Zone Append in flight from which on a drive gains little: emulated ones without a write buffer have 16
    /// dies, measured ones reach their limit at 4 to 8.
    pub appends_worth: u32,
    /// Writes, or twice as many, after which what was under way is forgotten: requests in flight are fewer, mostly. A demand that
    /// decays by a 32nd with each write had 0.88 of Zone Write's throughput at 4 KiB and depth 8.
    pub demand_writes: u32,
    /// Time that a client on the same machine takes to send another request after an answer, in nanoseconds.
    pub reaction_ns: u32,
    /// Stripes in flight from which on a segment under Zone Write takes no more while few wait: one is being written,
    /// and the other follows it drive by drive.
    pub stripes_in_flight_least: u32,
    /// And while many do: as many chunks of 4 KiB as one command takes, so that a long queue is two commands.
    pub stripes_in_flight_most: u32,
    /// Blocks of chunks joined in one command: beyond 64 KiB bytes cost a drive the same however many there are.
    pub joined_blocks_max: u32,
    /// Fewest stripes loaded at once while the collector works. Chosen by judgement.
    pub loads_min: u32,
    /// What clients may be ahead of the collector, in eighths of what they may spend during a victim: more makes them stand still at
    /// its end, less while drives have room for both (ten settings of `lab contest --seed 20261201`, experiment 8; docs/experiments.md).
    pub lead_eighths: u32,
    /// Most live blocks for each overwritten one: until 1/64 as many were overwritten, nothing is known. Chosen by judgement.
    pub live_per_evidence: u32,
    /// Writes are skewed when moved blocks are overwritten at less than so many eighths of the rate of clients' blocks. Chosen by
    /// judgement.
    pub skew_eighths: u32,
    /// Skew is strong, and survivors get a second segment, when they live so many times as long. Chosen by judgement; what two segments
    /// are worth is in docs/experiments.md.
    pub strong_times: u32,
}

impl Default for Tuned {
    fn default() -> Tuned {
        Tuned {
            large_fill_sixths: 4,
            appends_worth: 16,
            demand_writes: 128,
            reaction_ns: 2_000,
            stripes_in_flight_least: 2,
            stripes_in_flight_most: 16,
            joined_blocks_max: 16,
            loads_min: 4,
            lead_eighths: 3,
            live_per_evidence: 64,
            skew_eighths: 6,
            strong_times: 10,
        }
    }
}
