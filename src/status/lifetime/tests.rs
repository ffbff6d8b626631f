//! Counters as they are saved: flat, in their order, and by older programs.

use super::*;

#[test]
fn counters_are_saved_flat_and_in_order() {
    let mut saved = LifetimeCounters::default();
    saved.traffic.user_blocks_written = 7;
    saved.errors.blocks_lost = 3;
    let text = serde_json::to_string(&saved).expect("numbers");
    assert!(text.starts_with(r#"{"user_blocks_written":7,"user_blocks_read":0,"#), "{text}");
    assert!(
        text.ends_with(r#""blocks_unreadable":0,"blocks_lost":3,"zones_retired":0,"drives":{}}"#),
        "{text}"
    );
    let read: LifetimeCounters = serde_json::from_str(&text).expect("what was written");
    assert_eq!((read.traffic.user_blocks_written, read.errors.blocks_lost), (7, 3));
}

#[test]
fn counters_of_an_older_program_lack_what_is_new() {
    let read: LifetimeCounters = serde_json::from_str(r#"{"blocks_lost":3,"gone":1}"#).expect("an object");
    assert_eq!((read.errors.blocks_lost, read.work.groups_used), (3, 0));
}
