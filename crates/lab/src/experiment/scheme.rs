//! Schemes: how stripes are placed in zones.

use array::log::config::AppendUse;
use array::log::policy::adaptive::Policy;
use array::log::policy::victim::GcPolicy;
use serde::{Serialize, Serializer};

/// Stripes of a group unless an experiment varies them (ZapRAID section 5.2).
pub const GROUP_STRIPES: u32 = 256;

/// A way to place stripes, as the ZapRAID paper compares them (section 5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scheme {
    /// Zone Append in groups of stripes.
    ZapRaid,
    /// Zone Write: a group is one stripe.
    ZoneWriteOnly,
    /// Zone Append without groups: a group is a whole segment.
    ZoneAppendOnly,
    /// Random write areas where drives have them: chunks of a window are in flight, in any order (ADR 52).
    Area,
    /// Our own: chunks, segments and modes are the engine's choice, whatever the setting says.
    Adaptive,
    /// BIZA's policy on our mechanisms (ADR 68): blocks by lifetime, and a write area.
    BizaPolicy,
    /// Parities updated in place, in md's format: the engine of ordinary drives.
    InPlace(InPlace),
    /// BIZA as published, which persists nothing: `crates/lab/src/biza.rs`.
    Biza,
    /// A baseline after RAIZN, which is no log: see [`Raizn`].
    Raizn(Raizn),
    /// ZRAID: `crates/baseline/src/zraid.rs`.
    Zraid,
    /// A stack of layers: see [`Stack`].
    Stack(Stack),
}

/// Window and cache of the in-place engine, as the StRAID paper's parts are told from one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum InPlace {
    /// Ours: what a stream is about to fill waits. As it is served.
    Adaptive,
    /// The paper's window: writes join while the first reads of their stripe are in flight.
    Straid,
    /// The window of Linux md: all that is partial waits.
    MdWindow,
    /// No window: each write of a stripe is done on its own.
    NoTwoPhase,
    /// Ours without a cache.
    NoCache,
}

/// Stacks of layers that BIZA is compared with (`stacks.rs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stack {
    /// The in-place engine over dm-zap on each drive.
    MdDmZap,
    /// The same, and writes that wait for a zone leave together.
    MdDmZapMerged,
    /// The latter behind 56 MiB of memory that a power failure empties.
    MdDmZapVolatile,
    /// The in-place engine over conventional drives.
    MdConventional,
    /// dm-zap over the logical zones of the baseline after RAIZN.
    DmZapRaizn,
    /// The same, and writes that wait for a logical zone leave together.
    DmZapRaiznMerged,
}

/// Variant of the baseline after RAIZN (`crates/baseline`, docs/adr/0016). Its volume has zones itself: clients write
/// to one of them in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Raizn {
    /// Partial parity with a header block, as RAIZN was released; a command for each chunk, as in the other schemes.
    HeaderBlock,
    /// The header in the out-of-band metadata.
    OutOfBand,
    /// And chunks that wait for one zone leave in one command.
    Merged,
}

/// Schemes of the paper in the log-structured engine.
pub const ALL: [Scheme; 3] = [Scheme::ZapRaid, Scheme::ZoneWriteOnly, Scheme::ZoneAppendOnly];
/// And the baseline that the paper compares them with where there is one open segment.
pub const WITH_RAIZN: [Scheme; 6] = [
    Scheme::ZapRaid,
    Scheme::ZoneWriteOnly,
    Scheme::ZoneAppendOnly,
    Scheme::Raizn(Raizn::HeaderBlock),
    Scheme::Raizn(Raizn::OutOfBand),
    Scheme::Raizn(Raizn::Merged),
];

impl Scheme {
    /// Stable name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Scheme::ZapRaid => "zapraid",
            Scheme::ZoneWriteOnly => "zone-write-only",
            Scheme::ZoneAppendOnly => "zone-append-only",
            Scheme::Area => "area",
            Scheme::Adaptive | Scheme::InPlace(InPlace::Adaptive) => "adaptive",
            Scheme::InPlace(InPlace::Straid) => "straid",
            Scheme::InPlace(InPlace::MdWindow) => "md-window",
            Scheme::InPlace(InPlace::NoTwoPhase) => "no-two-phase",
            Scheme::InPlace(InPlace::NoCache) => "no-cache",
            Scheme::BizaPolicy => "biza",
            Scheme::Biza => "biza-published",
            Scheme::Zraid => "zraid",
            Scheme::Raizn(Raizn::HeaderBlock) => "raizn",
            Scheme::Raizn(Raizn::OutOfBand) => "raizn-oob",
            Scheme::Raizn(Raizn::Merged) => "raizn-merged",
            Scheme::Stack(Stack::MdDmZap) => "mdraid+dmzap",
            Scheme::Stack(Stack::MdDmZapMerged) => "mdraid+dmzap-merged",
            Scheme::Stack(Stack::MdDmZapVolatile) => "mdraid+dmzap-volatile",
            Scheme::Stack(Stack::MdConventional) => "mdraid+conventional",
            Scheme::Stack(Stack::DmZapRaizn) => "dmzap+raizn",
            Scheme::Stack(Stack::DmZapRaiznMerged) => "dmzap+raizn-merged",
        }
    }

    /// True of what adapts: other schemes are fixed.
    #[must_use]
    pub fn adapts(self) -> bool {
        matches!(self, Scheme::Adaptive | Scheme::InPlace(InPlace::Adaptive))
    }

    /// The policy of the log engine, and that by which victims are chosen.
    #[must_use]
    pub fn policies(self) -> (Policy, GcPolicy) {
        match self {
            Scheme::Adaptive => (Policy::Adaptive, GcPolicy::CostBenefit),
            Scheme::BizaPolicy => (Policy::Biza, GcPolicy::Greedy),
            _ => (Policy::Fixed, GcPolicy::Greedy),
        }
    }

    /// Returns which of several open segments are written with Zone Append.
    #[must_use]
    pub fn append_use(self) -> AppendUse {
        match self {
            Scheme::ZapRaid
            | Scheme::ZoneWriteOnly
            | Scheme::Raizn(_)
            | Scheme::Stack(_)
            | Scheme::Adaptive
            | Scheme::BizaPolicy
            | Scheme::Biza
            | Scheme::Zraid
            | Scheme::InPlace(_) => AppendUse::OneSmall,
            Scheme::ZoneAppendOnly => AppendUse::All,
            Scheme::Area => AppendUse::Areas,
        }
    }

    /// Stripes of a group in segments of `stripes`; `group` is what an experiment asks for.
    #[must_use]
    pub fn group_stripes(self, group: Option<u32>, stripes: u32) -> u32 {
        match self {
            Scheme::ZapRaid => group.unwrap_or(GROUP_STRIPES),
            Scheme::ZoneWriteOnly
            | Scheme::Area
            | Scheme::Raizn(_)
            | Scheme::Stack(_)
            | Scheme::Adaptive
            | Scheme::BizaPolicy
            | Scheme::Biza
            | Scheme::Zraid
            | Scheme::InPlace(_) => 1,
            Scheme::ZoneAppendOnly => stripes,
        }
    }
}

impl Serialize for Scheme {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
