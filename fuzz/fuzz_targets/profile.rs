//! Drive profiles: one that is accepted makes a model that answers. The first byte of the input names a
//! profile of ours, in which the rest changes numbers; or the rest is the text.
#![no_main]

use base::time::Instant;
use drive::timing::{Access, HostStack, Model, ModelOptions, Profile};
use fuzz::seed;
use libfuzzer_sys::fuzz_target;
use zone::device::Geometry;

/// Larger models are not run: they are slow, not wrong.
const DIES_MAX: i64 = 1024;
const EVENTS_MAX: usize = 100_000;

const PROFILES: [&str; 3] = [
    include_str!("../../crates/drive/profiles/zn540-1tb.toml"),
    include_str!("../../crates/drive/profiles/j5500z.toml"),
    include_str!("../../crates/drive/profiles/conventional-nvme.toml"),
];

/// Texts that may be put in place of a number.
const NUMBERS: [&str; 14] = [
    "0",
    "1",
    "-1",
    "nan",
    "inf",
    "1e300",
    "0.5",
    "1e-9",
    "999999999.0",
    "3",
    "4096",
    "12288",
    "4294967295",
    "9223372036854775807",
];

fn seeds() {
    let mut inputs = vec![vec![0, 9, 5], vec![1, 40, 6, 90, 0], vec![2, 70, 9]];
    inputs.push([&[u8::MAX], without_comments(PROFILES[0]).as_bytes()].concat());
    seed("profile", &inputs);
}

/// Comments are most of a profile, and nothing to be changed.
fn without_comments(text: &str) -> String {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim_end());
    lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

/// A profile of ours in which some numbers, each named by its place, are others.
fn edited(text: &str, edits: &[u8]) -> String {
    let is_number = |letter: char| letter.is_ascii_digit() || letter == '.' || letter == '_';
    let mut edited = String::new();
    let mut place = 0_u8;
    for line in without_comments(text).lines() {
        let (key, mut value) = line.split_once(" = ").unwrap_or((line, ""));
        edited += &format!("{key}{}", if value.is_empty() { "" } else { " = " });
        while !value.is_empty() && !value.starts_with('"') {
            let count = value.find(|letter| !is_number(letter)).unwrap_or(value.len());
            if count == 0 {
                let count = value.find(|letter: char| letter.is_ascii_digit()).unwrap_or(value.len());
                edited += &value[..count];
                value = &value[count..];
                continue;
            }
            let edit = edits.chunks_exact(2).find(|edit| edit[0] == place);
            edited += edit.map_or(&value[..count], |edit| NUMBERS[usize::from(edit[1]) % NUMBERS.len()]);
            value = &value[count..];
            place = place.wrapping_add(1);
        }
        edited += value;
        edited.push('\n');
    }
    edited
}

fn run(profile: &Profile) {
    let small = Geometry { zones: 3, zone_size_blocks: 64, zone_capacity_blocks: 48, ..profile.geometry() };
    let mut model = Model::new(&profile.with_geometry(&small), ModelOptions::default());
    let accesses = [
        Access::Write { zone: 0, offset_bytes: 0, bytes: 16384 },
        Access::Read { zone: 0, offset_bytes: 4096, bytes: 4096 },
        Access::Flush,
    ];
    for (tag, access) in (0..).zip(accesses) {
        model.submit(Instant(0), tag, access);
    }
    let mut done = Vec::new();
    for _ in 0..EVENTS_MAX {
        let Some(next) = model.next_event() else { break };
        model.advance(next, &mut done);
    }
    assert_eq!(done.len(), accesses.len(), "every command is done");
}

fuzz_target!(init: seeds(), |data: &[u8]| {
    let Some((kind, rest)) = data.split_first() else { return };
    let text = match (PROFILES.get(usize::from(*kind)), std::str::from_utf8(rest)) {
        (Some(profile), _) => edited(profile, rest),
        (None, Ok(text)) => text.to_owned(),
        (None, Err(_)) => return,
    };
    let Ok(profile) = Profile::from_toml(&text) else { return };
    assert!(profile.geometry().zone_capacity_blocks > 0 && profile.geometry().zones > 0);
    for stack in [HostStack::Spdk, HostStack::Kernel, HostStack::MqDeadline] {
        let Some(costs) = profile.stack(stack) else { continue };
        let times = [
            costs.submit_us, costs.segments_us, costs.merge_us, costs.complete_us, costs.request_us, costs.think_us,
        ];
        assert!(times.iter().all(|time| time.is_finite() && *time >= 0.0), "{costs:?}");
    }
    let table: toml::Table = text.parse().expect("a profile is TOML");
    let dies_per_group = table["program"]["dies_per_group"].as_integer().expect("a number");
    if i64::from(profile.channel_groups()) * dies_per_group <= DIES_MAX {
        run(&profile);
    }
});
