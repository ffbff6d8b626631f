//! NVMe drives that QEMU emulates, as options of its command line.

use super::text;
use std::path::Path;

/// Blocks of 4,096 bytes with 64 bytes of metadata apart.
pub const WITH_METADATA: &str = "logical_block_size=4096,physical_block_size=4096,ms=64,mset=0";

/// Zones of 16 MiB, of which 12 can be written.
pub const ZONED: &str =
    "zoned=true,zoned.zone_size=16M,zoned.zone_capacity=12M,zoned.max_open=14,zoned.max_active=14";

/// A controller whose drive has the serial number `znsINDEX`.
pub fn controller(index: usize) -> Vec<String> {
    ["-device".to_owned(), format!("nvme,serial=zns{index},id=nvme{index},zoned.zasl=5")].to_vec()
}

/// A namespace of a controller, on a file of this many bytes.
pub fn namespace(scratch: &Path, (index, number): (usize, u32), bytes: u64, format: &str) -> Vec<String> {
    let image = scratch.join(format!("z{index}n{number}.img"));
    std::fs::File::create(&image).unwrap().set_len(bytes).unwrap();
    let file = text(&image);
    [
        "-drive".to_owned(),
        format!("file={file},id=z{index}n{number},format=raw,if=none,cache=unsafe,discard=unmap"),
        "-device".to_owned(),
        format!("nvme-ns,drive=z{index}n{number},bus=nvme{index},nsid={number},{format}"),
    ]
    .to_vec()
}

/// Waits in the machine until so many controllers have their first namespace.
pub fn wait_for(drives: usize) -> String {
    format!(
        "for try in $(seq 100); do [ $(ls /dev/ng*n1 2> /dev/null | wc -l) = {drives} ] && break; sleep 0.1; done"
    )
}
