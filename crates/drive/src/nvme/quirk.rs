//! Quirks: what drives of some models and firmwares do otherwise than they say.

use super::identify::Controller;

/// Blocks that QEMU's drive moves at a time.
const LOST_UNIT: u32 = 8;

/// What a drive does otherwise. The default is a drive that does as it says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quirks {
    /// NGUID and EUI64 are those of other drives too.
    pub identifiers_repeat: bool,
    /// Metadata of a command of n blocks are lost but for the first n mod 8, when n is above 8 and no multiple of 8. The status is
    /// success.
    pub metadata_lost: bool,
    /// NUMZRWA is the number of random write areas, where it should be one less. 0 is as many as there are zones, and those that
    /// were given back are lost.
    pub areas_from_one: bool,
}

/// A line of the table.
struct Entry {
    model: &'static str,
    /// Firmwares of the model that have it.
    has: fn(&str) -> bool,
    quirks: Quirks,
}

const TABLE: &[Entry] = &[
    // Linux ignores these identifiers too. Areas are those of 7.2.22, and of the source since.
    Entry {
        model: "QEMU NVMe Ctrl",
        has: |_| true,
        quirks: Quirks { identifiers_repeat: true, metadata_lost: false, areas_from_one: true },
    },
    // Seen in 7.2.22, not in 10.0.2. Where it was mended is not known, so it is expected of all before.
    Entry {
        model: "QEMU NVMe Ctrl",
        has: |firmware| major(firmware).is_none_or(|major| major < 10),
        quirks: Quirks { identifiers_repeat: false, metadata_lost: true, areas_from_one: false },
    },
];

fn major(firmware: &str) -> Option<u32> {
    firmware.split('.').next()?.parse().ok()
}

impl Quirks {
    /// Of a drive.
    #[must_use]
    pub fn of(controller: &Controller) -> Quirks {
        let fits = |entry: &&Entry| entry.model == controller.model && (entry.has)(&controller.firmware);
        TABLE.iter().filter(fits).fold(Quirks::default(), |all, Entry { quirks, .. }| Quirks {
            identifiers_repeat: all.identifiers_repeat || quirks.identifiers_repeat,
            metadata_lost: all.metadata_lost || quirks.metadata_lost,
            areas_from_one: all.areas_from_one || quirks.areas_from_one,
        })
    }

    /// Blocks of the next command of a transfer that has so many left.
    #[must_use]
    pub fn blocks_of_command(self, left: u32) -> u32 {
        match self.metadata_lost && left > LOST_UNIT {
            true => left - left % LOST_UNIT,
            false => left,
        }
    }

    /// Most blocks of a transfer, so that all up to it are one command.
    #[must_use]
    pub fn whole_transfer(self, most: u32) -> u32 {
        if self.metadata_lost { most.min(LOST_UNIT) } else { most }
    }

    /// In words, for people.
    #[must_use]
    pub fn in_words(self) -> Vec<&'static str> {
        let words = [
            (self.identifiers_repeat, "its NGUID and EUI64 are not unique: model and serial number name it"),
            (
                self.metadata_lost,
                "it loses metadata of some commands: they have up to 8 blocks, or a multiple of 8",
            ),
            (self.areas_from_one, "it counts random write areas from one: there is one fewer than it says"),
        ];
        words.into_iter().filter_map(|(has, words)| has.then_some(words)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(model: &str, firmware: &str) -> Quirks {
        let (model, firmware) = (model.to_owned(), firmware.to_owned());
        let serial = String::new();
        Quirks::of(&Controller { serial, model, firmware, transfer_blocks_max: None, volatile_cache: false })
    }

    #[test]
    fn quirks_are_of_a_model_and_its_firmware() {
        assert!(of("QEMU NVMe Ctrl", "7.2.22").metadata_lost);
        assert!(of("QEMU NVMe Ctrl", "9.2.0").metadata_lost);
        assert!(of("QEMU NVMe Ctrl", "").metadata_lost, "what is not known is taken for bad");
        assert!(!of("QEMU NVMe Ctrl", "10.0.2").metadata_lost);
        let newer = of("QEMU NVMe Ctrl", "10.0.2");
        assert!(newer.identifiers_repeat && newer.areas_from_one);
        assert_eq!(of("WZS4C8T1TDSP303", "7.2.22"), Quirks::default());
    }

    #[test]
    fn transfers_that_would_lose_metadata_are_cut() {
        let quirks = of("QEMU NVMe Ctrl", "7.2.22");
        for blocks in 1..=127 {
            let mut left = blocks;
            let mut commands = 0;
            while left > 0 {
                let command = quirks.blocks_of_command(left);
                assert!((1..=left).contains(&command));
                assert!(command <= 8 || command.is_multiple_of(8), "{command} of {blocks}");
                left -= command;
                commands += 1;
            }
            assert!(commands <= 2);
            assert_eq!(Quirks::default().blocks_of_command(blocks), blocks);
        }
        assert_eq!((quirks.whole_transfer(32), quirks.whole_transfer(4)), (8, 4));
    }
}
