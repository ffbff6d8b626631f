//! The SMART log of an NVMe drive: temperature and wear. Pure.
//!
//! ```text
//!   0 warnings   1 composite temperature in K   3 spare   4 its threshold   5 percentage used   ...   512
//! ```

use base::bytes::u16_at;

/// Bytes of the log.
pub const LOG_BYTES: usize = 512;

/// Kelvins of 0 degrees Celsius.
const KELVIN_OF_ZERO: i32 = 273;

/// What a drive says of its health.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Degrees Celsius; `None` where the drive does not say.
    pub temperature_celsius: Option<i32>,
    /// Percentage of its life that is used, as its maker estimates it; above 100 when it lives longer.
    pub wear_percent: u8,
}

impl Health {
    /// Of the log.
    #[must_use]
    pub fn parse(log: &[u8; LOG_BYTES]) -> Health {
        let kelvin = i32::from(u16_at(log, 1));
        Health { temperature_celsius: (kelvin > 0).then_some(kelvin - KELVIN_OF_ZERO), wear_percent: log[5] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// First bytes of a log, written by hand after the specification: 323 kelvins, nothing worn.
    const BY_HAND: [u8; 8] = [0, 0x43, 0x01, 0, 0, 0, 0, 0];

    fn log(first: &[u8]) -> [u8; LOG_BYTES] {
        let mut log = [0; LOG_BYTES];
        log[..first.len()].copy_from_slice(first);
        log
    }

    #[test]
    fn a_log_has_temperature_and_wear() {
        let health = Health::parse(&log(&BY_HAND));
        assert_eq!(health, Health { temperature_celsius: Some(50), wear_percent: 0 });
        let health = Health::parse(&log(&[4, 0x0f, 0x01, 100, 10, 103]));
        assert_eq!(health, Health { temperature_celsius: Some(-2), wear_percent: 103 });
    }

    #[test]
    fn a_drive_need_not_know_its_temperature() {
        assert_eq!(Health::parse(&log(&[])), Health::default());
        let health = Health::parse(&[0xff; LOG_BYTES]);
        assert_eq!((health.temperature_celsius, health.wear_percent), (Some(65_262), 255));
    }
}
