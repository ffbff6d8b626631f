//! What drives say of their health: firmware, temperature and wear, where this user may know. What cannot be had is left out.
//!
//! ```text
//!   /sys/class/nvme/NAME           firmware_rev, hwmon*/temp1_input       SMART log of the node (root)
//!   /sys/class/block/NAME          device/rev, device/hwmon/hwmon*/temp1_input, queue/rotational
//! ```

use crate::host::Host;
use drive::nvme::open;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Most bytes of a line of sysfs that are taken.
const LINE_BYTES_MAX: usize = 64;

/// Health of a drive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct DriveHealth {
    /// Firmware revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub firmware: Option<String>,
    /// Temperature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature_celsius: Option<i32>,
    /// Percentage of its life that is used, as its maker estimates it; above 100 when it lives longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wear_percent: Option<u8>,
    /// The disk turns, so a write alone waits for its head twice: at the data and at the journal of identities.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rotating: bool,
}

impl DriveHealth {
    /// Health of the drive at a path: of the one disk or controller that it is all or a part of.
    pub fn of(host: &Host, path: &Path) -> DriveHealth {
        let hardware = host.hardware_under(path).whole;
        let mut names = hardware.iter();
        let (Some(name), None) = (names.next(), names.next()) else { return DriveHealth::default() };
        let mut health = DriveHealth::by_name(host, name);
        if name.starts_with("nvme")
            && let Ok(log) = open::health(path)
        {
            health.temperature_celsius = log.temperature_celsius.or(health.temperature_celsius);
            health.wear_percent = Some(log.wear_percent);
        }
        health
    }

    /// Health of a disk or a controller, as sysfs tells it.
    fn by_name(host: &Host, name: &str) -> DriveHealth {
        let controller = host.sys.join("class/nvme").join(name);
        let device = host.sys.join("class/block").join(name).join("device");
        let firmware = [controller.join("firmware_rev"), device.join("firmware_rev"), device.join("rev")];
        let mut sensors = [sensors_of(&controller), sensors_of(&device)].concat();
        sensors.sort();
        let millidegrees = |sensor: &PathBuf| line_of(&sensor.join("temp1_input"))?.parse::<i32>().ok();
        DriveHealth {
            firmware: firmware.iter().find_map(|file| line_of(file)),
            temperature_celsius: sensors.iter().find_map(millidegrees).map(|milli| milli.div_euclid(1000)),
            wear_percent: None,
            rotating: line_of(&host.sys.join("class/block").join(name).join("queue/rotational")).as_deref()
                == Some("1"),
        }
    }

    /// Health in one line; `None` where nothing is known.
    pub fn in_words(&self) -> Option<String> {
        let words = [
            self.firmware.as_ref().map(|firmware| format!("firmware {firmware}")),
            self.temperature_celsius.map(|degrees| format!("{degrees} C")),
            self.wear_percent.map(|percent| format!("{percent} % worn")),
            self.rotating.then(|| "a rotating disk: each lone write moves its head".to_owned()),
        ];
        let words: Vec<String> = words.into_iter().flatten().collect();
        (!words.is_empty()).then(|| words.join(", "))
    }
}

/// Sensors of a device: below it, or below its directory of them.
fn sensors_of(device: &Path) -> Vec<PathBuf> {
    let entries = [device.to_owned(), device.join("hwmon")];
    let entries = entries.iter().filter_map(|dir| std::fs::read_dir(dir).ok()).flatten().flatten();
    let is_sensor = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with("hwmon") && name != "hwmon")
    };
    entries.map(|entry| entry.path()).filter(is_sensor).collect()
}

/// First line of a file of sysfs, if there is one that says something.
fn line_of(file: &Path) -> Option<String> {
    let text = std::fs::read_to_string(file).ok()?;
    let line: String = text.lines().next()?.trim().chars().take(LINE_BYTES_MAX).collect();
    (!line.is_empty()).then_some(line)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// A made-up sysfs in a directory of its own, which goes with it.
    struct MadeUp(PathBuf);

    impl MadeUp {
        fn new(files: &[(&str, &str)]) -> MadeUp {
            let root = std::env::temp_dir().join(format!("zw-drive-health-{}", std::process::id()));
            let _none_before = std::fs::remove_dir_all(&root);
            for (file, text) in files {
                let file = root.join(file);
                std::fs::create_dir_all(file.parent().unwrap()).unwrap();
                std::fs::write(file, text).unwrap();
            }
            MadeUp(root)
        }
    }

    impl Drop for MadeUp {
        fn drop(&mut self) {
            let _may_stay = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn sysfs_has_firmware_and_temperature() {
        let made_up = MadeUp::new(&[
            ("class/nvme/nvme0/firmware_rev", "7.2.22  \n"),
            ("class/nvme/nvme0/hwmon1/temp1_input", "38850\n"),
            ("class/block/sda/device/rev", "SN04\n"),
            ("class/block/sda/device/hwmon/hwmon3/temp1_input", "-500\n"),
            ("class/block/sda/queue/rotational", "0\n"),
            ("class/block/sdc/queue/rotational", "1\n"),
            ("class/block/sdb/device/rev", "\n"),
            ("class/block/sdb/device/hwmon/hwmon4/temp1_input", "hot\n"),
        ]);
        let host = Host { sys: made_up.0.clone(), proc: made_up.0.clone() };
        let health = |name| DriveHealth::by_name(&host, name);
        let of = |firmware: Option<&str>, temperature_celsius| DriveHealth {
            firmware: firmware.map(str::to_owned),
            temperature_celsius,
            wear_percent: None,
            rotating: false,
        };
        assert_eq!(health("nvme0"), of(Some("7.2.22"), Some(38)));
        assert_eq!(health("sda"), of(Some("SN04"), Some(-1)));
        assert_eq!(health("sdb"), DriveHealth::default());
        assert_eq!(health("no-such-disk"), DriveHealth::default());
        assert_eq!(health("sdc"), DriveHealth { rotating: true, ..DriveHealth::default() });
        assert!(health("sdc").in_words().unwrap().contains("a rotating disk"));
    }

    #[test]
    fn what_is_not_known_is_not_said() {
        assert_eq!(DriveHealth::default().in_words(), None);
        let health = DriveHealth { wear_percent: Some(3), ..DriveHealth::default() };
        assert_eq!(health.in_words().unwrap(), "3 % worn");
        let health = DriveHealth { firmware: Some("A1".to_owned()), temperature_celsius: Some(40), ..health };
        assert_eq!(health.in_words().unwrap(), "firmware A1, 40 C, 3 % worn");
        assert_eq!(serde_json::to_string(&DriveHealth::default()).unwrap(), "{}");
    }

    #[test]
    fn a_file_has_no_health() {
        let file = std::env::current_exe().unwrap();
        assert_eq!(DriveHealth::of(&Host::here(), &file), DriveHealth::default());
        assert_eq!(DriveHealth::of(&Host::here(), Path::new("/no/such/path")), DriveHealth::default());
    }
}
