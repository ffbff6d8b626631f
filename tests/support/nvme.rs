//! NVMe drives that QEMU emulates, as options of its command line, and what a test in the machine does to them.

use super::run::{SOON, until};
use super::server::status;
use super::text;
use std::io::{BufRead, BufReader, Read as _, Write};
use std::path::{Path, PathBuf};

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
        format!(
            "file={file},id=z{index}n{number},format=raw,if=none,cache=unsafe,discard=unmap,\
             node-name=z{index}n{number}-raw,file.node-name=z{index}n{number}-file"
        ),
        "-device".to_owned(),
        format!("nvme-ns,drive=z{index}n{number},bus=nvme{index},nsid={number},{format}"),
    ]
    .to_vec()
}

/// A controller with one namespace.
pub fn drive(scratch: &Path, index: usize, bytes: u64, format: &str) -> Vec<String> {
    controller(index).into_iter().chain(namespace(scratch, (index, 1), bytes, format)).collect()
}

/// Waits in the machine until so many controllers have their first namespace.
pub fn wait_for(drives: usize) -> String {
    format!(
        "for try in $(seq 100); do [ $(ls /dev/ng*n1 2> /dev/null | wc -l) = {drives} ] && break; sleep 0.1; done"
    )
}

/// Gives a machine the monitor of its own QEMU, as a serial line.
pub fn monitor(scratch: &Path) -> Vec<String> {
    let socket = text(&scratch.join("monitor")).to_owned();
    [
        "-qmp",
        &format!("unix:{socket},server=on,wait=off"),
        "-chardev",
        &format!("socket,id=monitor,path={socket}"),
        "-device",
        "isa-serial,chardev=monitor,index=1",
    ]
    .map(str::to_owned)
    .to_vec()
}

/// Prepares the line to the monitor, in the machine.
pub const MONITOR_LINE: &str = "stty -F /dev/ttyS1 raw -echo";

/// Answers after which the monitor does not understand: what it said before somebody listened may have been echoed to it, line by line.
const MISUNDERSTANDINGS_MAX: u32 = 50;

/// The monitor, in the machine.
pub struct Monitor {
    line: std::fs::File,
    /// Output of the monitor, for as long as the line is open: a line that is read ahead of time is not lost.
    said: BufReader<std::fs::File>,
    /// Commands so far, each of which has its number in its answer.
    asked: u32,
}

impl Monitor {
    /// Begins to talk to it.
    pub fn new() -> Monitor {
        let line = std::fs::File::options().read(true).write(true).open("/dev/ttyS1").unwrap();
        let said = BufReader::new(line.try_clone().unwrap());
        let mut monitor = Monitor { line, said, asked: 0 };
        // This byte ends what it may be in the middle of. What follows the first answer is answered in turn.
        monitor.line.write_all(b"\xff\n").unwrap();
        let is_heard = (0..MISUNDERSTANDINGS_MAX).any(|_| monitor.try_ask("qmp_capabilities", "{}").is_ok());
        assert!(is_heard, "QEMU's monitor does not understand");
        monitor
    }

    /// Asks for a command with these arguments, and waits for its answer, which comes when the machine goes on.
    pub fn ask(&mut self, command: &str, arguments: &str) {
        if let Err(line) = self.try_ask(command, arguments) {
            panic!("QEMU does not {command} {arguments}: {line}");
        }
    }

    fn try_ask(&mut self, command: &str, arguments: &str) -> Result<(), String> {
        self.asked += 1;
        let number = format!("\"id\": {}", self.asked);
        writeln!(self.line, "{{\"execute\": \"{command}\", \"arguments\": {arguments}, {number}}}").unwrap();
        let is_own =
            |line: &str| line.contains(&format!("{number},")) || line.contains(&format!("{number}}}"));
        for line in self.said.by_ref().lines() {
            let line = line.unwrap();
            let is_refused = line.contains("\"error\"");
            match is_own(&line) {
                // It was asked before, and what it answered was not.
                true if is_refused && line.contains("already complete") => return Ok(()),
                true if is_refused => return Err(line),
                true => return Ok(()),
                // It did not understand something, which may have been this.
                false if is_refused && !line.contains("\"id\"") => return Err(line),
                false => {}
            }
        }
        panic!("the monitor is gone");
    }

    /// Lets the first namespace of a controller move so many bytes in a second; 0 is no limit.
    pub fn throttle(&mut self, index: usize, bytes: u64) {
        let others = "\"bps_rd\": 0, \"bps_wr\": 0, \"iops\": 0, \"iops_rd\": 0, \"iops_wr\": 0";
        self.ask(
            "block_set_io_throttle",
            &format!("{{\"device\": \"z{index}n1\", \"bps\": {bytes}, {others}}}"),
        );
    }
}

/// Sectors of 512 bytes, as QEMU counts, of a block.
const SECTORS_OF_BLOCK: u64 = 8;

impl Monitor {
    /// From now on these blocks of the first namespace of a controller cannot be read.
    pub fn spoil(&mut self, index: usize, blocks: &[u64]) {
        let rule = |block: &u64| {
            let sector = block * SECTORS_OF_BLOCK;
            format!("{{\"event\": \"none\", \"iotype\": \"read\", \"once\": false, \"sector\": {sector}}}")
        };
        let rules = blocks.iter().map(rule).collect::<Vec<_>>().join(", ");
        self.ask(
            "blockdev-add",
            &format!(
                "{{\"driver\": \"blkdebug\", \"node-name\": \"z{index}n1-spoilt\", \"image\": \"z{index}n1-file\", \
                 \"inject-error\": [{rules}]}}"
            ),
        );
        self.lay_on(index, "spoilt");
    }

    /// All blocks of it can be read again.
    pub fn unspoil(&mut self, index: usize) {
        self.lay_on(index, "file");
        self.ask("blockdev-del", &format!("{{\"node-name\": \"z{index}n1-spoilt\"}}"));
    }

    /// Lays the image of a namespace on another node of QEMU's.
    fn lay_on(&mut self, index: usize, node: &str) {
        self.ask(
            "blockdev-reopen",
            &format!(
                "{{\"options\": [{{\"driver\": \"raw\", \"node-name\": \"z{index}n1-raw\", \"file\": \"z{index}n1-{node}\", \
                 \"discard\": \"unmap\", \"cache\": {{\"no-flush\": true}}}}]}}"
            ),
        );
    }
}

/// Node of the first namespace of a controller, in the machine.
pub fn node(controller: usize) -> PathBuf {
    PathBuf::from(format!("/dev/ng{controller}n1"))
}

/// Number of the controller of a node. Its namespace may have another number when the drive comes back before its old node was let go.
#[track_caller]
pub fn controller_number(node: &str) -> usize {
    // A block node has the number of a subsystem in its name.
    if let Some(name) = node.strip_prefix("/dev/nvme") {
        let device = std::fs::canonicalize(format!("/sys/class/block/nvme{name}/device"));
        let device = device.unwrap_or_else(|error| panic!("{node}: {error}"));
        let controller =
            device.file_name().and_then(|name| name.to_str()?.strip_prefix("nvme")?.parse().ok());
        return controller.unwrap_or_else(|| panic!("{node} belongs to {}", device.display()));
    }
    let numbers = node.trim_start_matches("/dev/ng").split_once('n');
    numbers.and_then(|(controller, _)| controller.parse().ok()).unwrap_or_else(|| panic!("{node}: no node"))
}

/// Number of the controller that a member has now.
#[track_caller]
pub fn controller_of(dir: &Path, member: usize) -> usize {
    controller_number(status(dir)["members"][member]["path"].as_str().unwrap())
}

/// Number in the serial number of a controller: that of its drive in QEMU.
#[track_caller]
pub fn drive_of(controller: usize) -> usize {
    let serial = std::fs::read_to_string(format!("/sys/class/nvme/nvme{controller}/serial")).unwrap();
    serial.trim().trim_start_matches("zns").parse().unwrap()
}

/// Pulls a controller out of its bus.
#[track_caller]
pub fn pull(controller: usize) {
    std::fs::write(format!("/sys/class/nvme/nvme{controller}/device/remove"), "1").unwrap();
}

/// Puts everything back that was pulled, and waits until there are so many namespaces.
#[track_caller]
pub fn put_back(namespaces: usize) {
    std::fs::write("/sys/bus/pci/rescan", "1").unwrap();
    let count = || std::fs::read_dir("/sys/class/nvme-generic").unwrap().count();
    assert!(until(SOON, || count() == namespaces), "{} namespaces", count());
}

/// True when a member is away and waited for.
#[track_caller]
pub fn is_stalled(dir: &Path, member: usize) -> bool {
    status(dir)["members"][member]["state"] == "stalled"
}
