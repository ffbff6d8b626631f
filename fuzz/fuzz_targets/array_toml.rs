//! `array.toml`: what is read is written to the same text.
#![no_main]

use fuzz::seed;
use libfuzzer_sys::fuzz_target;
use server::vhost::block::BlockSize;

/// The file is part of the command, which is no library.
#[allow(dead_code, reason = "only the parser is used")]
#[path = "../../src/array_file.rs"]
mod array_file;

#[allow(dead_code, reason = "only the parser is used")]
#[path = "../../src/exports/table.rs"]
pub mod table;

mod exports {
    pub use crate::table;
}

use array_file::{ArrayFile, DriveKind, DriveTable, EngineTable, SchemeTable};
use exports::table::{ExportList, ExportTable};

fn seeds() {
    let drive = |index: u8| DriveTable {
        kind: Some(DriveKind::Conventional).filter(|_| index != 1),
        path: format!("drive-{index}.img").into(),
        id: Some("wwn.0x5000c500a1b2c3d4".to_owned()).filter(|_| index != 2),
        journal: Some("drive-2.journal".into()).filter(|_| index == 2),
        uuid: uuid::Uuid::from_bytes([index; 16]),
    };
    let tables = vec![
        ExportTable::Nbd { name: Some("data".to_owned()), listen: Some("tcp:127.0.0.1:10809".to_owned()) },
        ExportTable::VhostUser { path: "vm.sock".into(), block_size: BlockSize::Small },
        ExportTable::Ublk { block_size: BlockSize::Whole },
        ExportTable::NvmeTcp {
            address: ([127, 0, 0, 1], 4420).into(),
            hosts: vec!["nqn.2014-08.org.nvmexpress:uuid:host".to_owned()],
            any_host: false,
        },
    ];
    let file = ArrayFile {
        version: 2,
        uuid: uuid::Uuid::from_bytes([7; 16]),
        discard: true,
        export: ExportList::default(),
        scheme: SchemeTable {
            level: "raid5".to_owned(),
            chunk: "4 KiB".to_owned(),
            group: 256,
            size: "1 GiB".to_owned(),
        },
        engine: EngineTable::default(),
        drive: (0..3).map(drive).collect(),
        spare: vec![drive(9)],
    };
    let more = ArrayFile { discard: false, export: ExportList(tables), ..file.clone() };
    let text = |file| toml::to_string(file).expect("a file of ours").into_bytes();
    seed("array_toml", &[text(&file), text(&more)]);
}

fuzz_target!(init: seeds(), |data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(file) = ArrayFile::parse(text) else { return };
    let written = toml::to_string(&file).expect("what was read can be written");
    let again = ArrayFile::parse(&written).expect("what was written can be read");
    assert_eq!(toml::to_string(&again).expect("as before"), written);
});
