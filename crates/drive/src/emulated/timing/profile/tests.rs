//! Profiles: the built-in ones are sound, and errors say where.

use super::*;

fn text() -> String {
    BUILT_IN[0].1.to_owned()
}

fn problem(text: &str) -> String {
    Profile::from_toml(text).expect_err("this profile is wrong").to_string()
}

#[test]
fn built_in_profiles_are_sound() {
    assert_eq!(BUILT_IN.len(), NAMES.len());
    for (name, (built_in, text)) in NAMES.iter().zip(BUILT_IN) {
        let profile = Profile::from_toml(text).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!((profile.name(), *built_in), (*name, *name));
        assert!(!profile.description().is_empty());
        assert!(profile.stack(HostStack::Spdk).is_some());
        assert!(crate::emulated::check_geometry(&profile.geometry()).is_ok() || !profile.has_zones());
        assert_eq!(profile.has_zones(), !name.starts_with("conventional-"));
    }
}

#[test]
fn geometry_is_that_of_the_drive() {
    let profile = Profile::named("zn540-1tb").unwrap();
    let geometry = profile.geometry();
    assert_eq!((geometry.zones, geometry.zone_capacity_blocks), (904, 275_712));
    assert_eq!((geometry.open_zones_max, geometry.active_zones_max), (14, 14));
    assert_eq!(profile.zrwa_window_bytes(), Some(1 << 20));
    assert_eq!((profile.channel_groups(), profile.group_of(7)), (1, 0));
    assert_eq!(Profile::named("zn540-4tb").unwrap().group_of(7), 1);
    let small = zone::device::Geometry { zones: 9, zone_capacity_blocks: 100, ..geometry };
    assert_eq!(profile.with_geometry(&small).geometry(), small);
}

/// A quarter of the zone, a quarter of the time: four small zones are reset as fast as a large one.
#[test]
fn small_zones_cost_as_much_per_byte() {
    let profile = Profile::named("zn540-1tb").unwrap();
    let small = profile.with_small_zones(275_712 / 4);
    assert_eq!(small.geometry().zone_capacity_blocks, 275_712 / 4);
    assert_eq!(small.geometry().zones, profile.geometry().zones);
    assert_eq!(small.management.reset_us * 4.0, profile.management.reset_us);
    assert_eq!(small.management.reset_occupancy_us * 4.0, profile.management.reset_occupancy_us);
    assert_eq!(small.management.finish_us * 4.0, profile.management.finish_us);
    assert_eq!(small.management.report_us, profile.management.report_us);
    assert_eq!(profile.with_small_zones(275_712).management.finish_us, profile.management.finish_us);
    let of_two_groups = Profile::named("zn540-4tb").unwrap();
    assert_eq!(of_two_groups.channel_groups(), 2);
    assert_eq!(of_two_groups.with_one_group().channel_groups(), 1);
}

/// All dies and buffers, one translation layer, and blocks of the size that was asked for.
#[test]
fn a_zoned_drive_has_a_conventional_twin() {
    let zoned = Profile::named("zn540-4tb").unwrap();
    let like = Profile::named("conventional-nvme").unwrap();
    let twin = zoned.as_conventional(&like, 8 << 30, (0.25, 48 << 20)).unwrap();
    assert!(!twin.has_zones() && twin.zrwa_window_bytes().is_none());
    assert_eq!(u64::from(twin.geometry().zone_capacity_blocks) * BLOCK_BYTES_U64, 8 << 30);
    assert_eq!((twin.channel_groups(), zoned.channel_groups()), (1, 2));
    assert_eq!(twin.program.dies_per_group, 2 * zoned.program.dies_per_group);
    assert_eq!(twin.buffer.bytes, 2 * zoned.buffer.bytes);
    let translation = twin.translation.unwrap();
    assert_eq!((translation.block_units, translation.collect_until_blocks), (256, 4 + 2));
    assert!(zoned.as_conventional(&like, 8 << 30, (5.0, 48 << 20)).is_err());
    assert!(zoned.as_conventional(&like, 4095, (0.25, 48 << 20)).is_err());
}

/// Small blocks are emptied as many together as make a usual one, unless that frees more than is wanted, and none of the spare is kept free.
#[test]
fn a_small_conventional_drive_collects_as_a_large_one() {
    let like = Profile::named("conventional-nvme").unwrap();
    let zoned = Profile::named("zn540-1tb").unwrap();
    let twin = |bytes| zoned.as_conventional(&like, bytes, (0.25, 4 << 20)).unwrap();
    let (large, small) = (twin(8 << 30), twin(1 << 30));
    let usual = like.translation.as_ref().unwrap().block_units;
    for (twin, batch) in [(&large, usual / 21), (&small, 4)] {
        let collects = twin.collecting_as(&like).translation.unwrap();
        let own = twin.translation.as_ref().unwrap();
        assert_eq!((own.batch_blocks, own.block_units, collects.batch_blocks), (1, 21, batch));
        assert!(collects.collect_below_blocks > collects.batch_blocks && collects.collects_first);
        let freed = own.collect_until_blocks - own.collect_below_blocks;
        assert_eq!(collects.collect_until_blocks - collects.collect_below_blocks, freed);
        assert!((collects.erase_us / 3000.0 - 21.0 / f64::from(usual)).abs() < 1e-9);
    }
    let kept = f64::from(small.collecting_as(&like).translation.unwrap().collect_until_blocks * 21 * 196_608);
    let added = small.collecting_as(&like).translation.unwrap().over_provision - 0.25;
    assert!((added - kept / f64::from(1 << 30)).abs() < 1e-9);
    assert_eq!(large.following(7).read_ahead.unwrap().streams, 7);
}

#[test]
fn errors_name_the_key() {
    let wrong = text().replace("open_zones_max = 14", "open_zones_max = 0");
    assert!(problem(&wrong).contains("`geometry.open_zones_max` must be at least 1"), "{}", problem(&wrong));
    let wrong = text().replace("[[4096, 5.33], [8192, 4.4]", "[[4096, 5.33], [4096, 4.4]");
    assert!(problem(&wrong).contains("`command.write_demand_us` must be"), "{}", problem(&wrong));
    let wrong = text().replace("small_probability = 0.05", "small_probability = 5");
    assert!(problem(&wrong).contains("`noise.small_probability` must be a probability"));
    let wrong = text().replace("program_us = 2494.0", "program_ms = 2.494");
    assert!(problem(&wrong).contains("program_ms"), "{}", problem(&wrong));
    let wrong = text().replace("program_us = 2494.0", "program_us = \"fast\"");
    assert!(problem(&wrong).contains("program_us = \"fast\""), "{}", problem(&wrong));
    let wrong = text().replace("think_us = 0.38", "think_us = nan");
    assert!(problem(&wrong).contains("`host.spdk` must be microseconds"), "{}", problem(&wrong));
    let wrong = text().replace("[[0.6667, 45.6], [0.3333, 57.8]]", "[[0.6667, 45.6]]");
    assert!(problem(&wrong).contains("`read.sense`"));
    let wrong = text().replace("program_us = 2494.0", "");
    assert!(problem(&wrong).contains("missing field `program_us`"), "{}", problem(&wrong));
}

#[test]
fn profiles_are_found_by_name_or_path() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text().replace("zn540-1tb\"", "mine\"")).unwrap();
    assert_eq!(Profile::load(file.path().to_str().unwrap()).unwrap().name(), "mine");
    assert_eq!(Profile::load("zn540-1tb").unwrap().name(), "zn540-1tb");
    let error = Profile::load("zn541").expect_err("there is no such drive").to_string();
    assert!(error.contains("zn541") && error.contains("zn540-1tb"), "{error}");
}
