//! Speed of the in-place engine on modelled drives, in virtual time, beside what the drives themselves leave possible.
//!
//! ```text
//!   rows ──> rig: engine, clients in a closed loop ──> modelled devices
//!     └────> bare: the same clients, who send the member commands of a request themselves ──> modelled devices
//! ```
//! [`bare`] clients ask the same places on the members, and know no stripes in work, no parities and no bitmap: what they reach is the
//! bound. Places matter: with 3+1 members and chunks of 64 KiB a quarter of each modelled drive's dies holds parities only. The engine's share of it is the
//! figure of a [`Row`], and the row says what share is wanted. Time is that of the drives; processor time is counted elsewhere
//! (`lab md-cost`). A row, a profile and a seed give the same numbers to the bit.

pub(crate) mod bare;
pub(crate) mod rig;
mod rows;

pub use rows::{ROWS, Row};

use drive::timing::Profile;
use serde::Serialize;

/// Setup that all rows of a run share.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Members.
    pub profile: Profile,
    /// Virtual time of each measurement, in microseconds.
    pub span_us: f64,
    /// Seed of drives and clients.
    pub seed: u64,
}

/// Number with its words.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// Words.
    pub what: &'static str,
    /// Value.
    pub value: f64,
    /// Unit.
    pub unit: &'static str,
}

/// Result of a row.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Name of the row.
    pub row: &'static str,
    /// Figures of the row, the one that counts first.
    pub figures: Vec<Figure>,
    /// The first figure has to be at least this, or at most.
    pub bar: f64,
    /// True when it is.
    pub met: bool,
}
