//! Drives of arrays: of all kinds, lost, found, replaced, rotten.

#![allow(clippy::unwrap_used)]

mod before_areas;
mod conventional;
mod corrupt;
mod finding;
mod identity;
mod list;
mod older_copies;
mod qualify;
mod re_add;
mod record;
mod recorded;
mod refusals;
mod replace;
mod scrub;
mod signatures;
mod wipe;
mod write_area;

#[path = "../support/mod.rs"]
mod support;
