//! The engine with its drives.

use crate::Raizn;
use array::driven::Driven;

/// A volume of the baseline.
pub type RaiznVolume = Driven<Raizn>;
