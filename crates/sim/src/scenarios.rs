//! The scenarios every campaign begins with: one for each kind of fault, and one for each bug there was.

/// Includes scenario files by their names.
macro_rules! scenarios {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../scenarios/", $name, ".toml")))),*]
    };
}

/// Name and text of all scenarios.
pub const SCENARIOS: &[(&str, &str)] = scenarios![
    "append-groups",
    "clock-stalls",
    "condemned-segments",
    "crash-at-finish",
    "crash-at-first-stripe",
    "crash-at-footer",
    "crash-at-header",
    "crash-at-membership-change",
    "crash-at-reset",
    "crash-before-failure-recorded",
    "crash-drives-lag",
    "crash-holes",
    "crash-in-degraded-recovery",
    "crash-in-gc",
    "crash-in-membership-change",
    "crash-in-recovery",
    "crash-leaves-zeros",
    "crash-recovered-then-lost",
    "crash-reordered",
    "crash-seals-from-cache",
    "crash-torn-write",
    "crash-volatile-cache",
    "drive-away-and-back",
    "drive-blank",
    "drive-dies",
    "drive-dies-at-footer",
    "drive-dies-at-header",
    "drive-dies-at-reset",
    "drive-dies-in-crash",
    "drive-dies-in-gc",
    "drive-fails-within-group",
    "drive-foreign",
    "drive-hangs",
    "drive-lost",
    "drive-stale",
    "drives-exchanged",
    "drives-exchanged-degraded",
    "flush-loses-a-drive",
    "gc-flush-loses-two",
    "gc-keeps-an-active-zone",
    "gc-out-of-space",
    "gc-places-before-it-seals",
    "memory-pressure",
    "misdirected-reads",
    "misdirected-reads-in-recovery",
    "misdirected-write",
    "open-segments",
    "open-segments-append",
    "raid0-loses-a-drive",
    "raid4-loses-parity",
    "remounts",
    "reordered-completions",
    "rot-data",
    "rot-footers",
    "rot-headers",
    "rot-oob",
    "rot-superblocks",
    "rot-unacknowledged",
    "stale-reads",
    "superblock-zones",
    "too-many-away",
    "too-many-die",
    "too-many-lost",
    "trim-behind-failed-write",
    "trim-outlives-lost-write",
    "trims-and-crash",
    "two-fail-at-once",
    "unreadable-blocks",
    "write-fault",
    "write-fault-in-gc",
    "write-never-made",
    "zone-offline",
    "zone-read-only",
    "zone-shrinks",
];

/// The text of a scenario by its name.
#[must_use]
pub fn named(name: &str) -> Option<&'static str> {
    SCENARIOS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}
