//! Names of levels and layouts, in mdadm's words.

const LEVELS: &[(i32, &str)] = &[
    (-10, "container"),
    (-5, "faulty"),
    (-4, "multipath"),
    (-1, "linear"),
    (0, "raid0"),
    (1, "raid1"),
    (4, "raid4"),
    (5, "raid5"),
    (6, "raid6"),
    (10, "raid10"),
];

const LAYOUTS: &[(u32, &str)] = &[
    (0, "left-asymmetric"),
    (1, "right-asymmetric"),
    (2, "left-symmetric"),
    (3, "right-symmetric"),
    (4, "parity-first"),
    (5, "parity-last"),
];

const LAYOUTS_OF_RAID6: &[(u32, &str)] = &[
    (8, "ddf-zero-restart"),
    (9, "ddf-N-restart"),
    (10, "ddf-N-continue"),
    (16, "left-asymmetric-6"),
    (17, "right-asymmetric-6"),
    (18, "left-symmetric-6"),
    (19, "right-symmetric-6"),
    (20, "parity-first-6"),
];

/// Name of a level; `None` of one that mdadm does not know.
#[must_use]
pub fn level(number: i32) -> Option<&'static str> {
    LEVELS.iter().find(|(level, _)| *level == number).map(|(_, name)| *name)
}

/// Name of a layout of RAID-5 or 6; `None` of another level, or one that has no such layout.
#[must_use]
pub fn layout(level: i32, number: u32) -> Option<&'static str> {
    let more = if level == 6 { LAYOUTS_OF_RAID6 } else { &[] };
    let known = LAYOUTS.iter().chain(more).filter(|_| matches!(level, 5 | 6));
    known.into_iter().find(|(layout, _)| *layout == number).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_depend_on_the_level() {
        assert_eq!((level(5), level(7)), (Some("raid5"), None));
        assert_eq!(
            (layout(5, 2), layout(5, 18), layout(6, 18)),
            (Some("left-symmetric"), None, Some("left-symmetric-6"))
        );
        assert_eq!((layout(4, 0), layout(6, 7)), (None, None));
    }
}
