//! A machine that is driven from outside: its power is cut, it is told what to run, and clients reach a port of it.
//!
//! ```text
//!   test ── QMP, system_reset ──> QEMU        the process stays, so drives keep the states of their zones
//!        ── a line ──> ttyS1 ──> sh           what it says comes over the console, with the exit code behind
//!        ── 127.0.0.1:PORT ──> the machine    a server in it
//! ```

use super::run::until;
use super::text;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// An answer takes longer only when something is broken.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// Runs what comes line by line, until the machine ends.
pub const OBEY: &str = "stty -F /dev/ttyS1 raw -echo
while read -r line; do code=0; sh -c \"$line\" 2>&1 || code=$?; echo \"ended with $code.\"; done < /dev/ttyS1";

/// Makes the machine's network, in which it is 10.0.2.15.
pub const NETWORK: &str = "ip addr add 10.0.2.15/24 dev eth0; ip link set eth0 up";

/// Modules for the network.
pub const MODULES: &str = "virtio_pci virtio_net";

/// Ways into a machine.
pub struct Outside {
    qmp: PathBuf,
    shell: PathBuf,
    pub port: u16,
}

impl Outside {
    /// Ways that begin with a port of this host that is free now, and lead to one of the machine.
    pub fn new(scratch: &Path) -> Outside {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        Outside { qmp: scratch.join("qmp"), shell: scratch.join("shell"), port }
    }

    /// Options of QEMU. A reset leaves its process alive.
    pub fn options(&self, port_inside: u16) -> Vec<String> {
        let (qmp, shell, port) = (text(&self.qmp), text(&self.shell), self.port);
        [
            "-action",
            "reboot=reset",
            "-qmp",
            &format!("unix:{qmp},server=on,wait=off"),
            "-chardev",
            &format!("socket,id=shell,path={shell},server=on,wait=off"),
            "-device",
            "isa-serial,chardev=shell,index=1",
            "-netdev",
            &format!("user,id=net,hostfwd=tcp:127.0.0.1:{port}-10.0.2.15:{port_inside}"),
            "-device",
            "virtio-net-pci,netdev=net,romfile=",
        ]
        .map(str::to_owned)
        .to_vec()
    }

    /// Cuts the power: processors and devices begin anew, from one moment to the next.
    ///
    /// The processors stop first, and what drives have taken ends: QEMU 7.2 uses memory that it has freed when a drive is reset in
    /// the middle of a flush, and dies of that in one cut of ten. It waits for reads and writes at a reset all the same.
    pub fn cut_power(&self) {
        let stream = UnixStream::connect(&self.qmp).unwrap();
        stream.set_read_timeout(Some(ANSWER_LIMIT)).unwrap();
        let mut lines = BufReader::new(&stream).lines();
        let steps = [
            ("qmp_capabilities", "return"),
            ("stop", "\"STOP\""),
            ("system_reset", "\"RESET\""),
            ("cont", "\"RESUME\""),
        ];
        for (command, sign) in steps {
            writeln!(&stream, "{{\"execute\": \"{command}\"}}").unwrap();
            let is_done = lines.any(|line| line.is_ok_and(|line| line.contains(sign)));
            assert!(is_done, "QEMU does not {command}");
        }
    }

    /// Lets the machine run a line of shell; returns what it said, and its exit code.
    #[track_caller]
    pub fn run(&self, limit: Duration, console: impl Fn() -> String, line: &str) -> (String, i32) {
        let before = console().len();
        let mut shell = UnixStream::connect(&self.shell).unwrap();
        writeln!(shell, "{line}").unwrap();
        let said = || console().get(before..).unwrap_or_default().to_owned();
        let end = |said: &str| {
            let (text, code) = said.rsplit_once("ended with ")?;
            Some((text.to_owned(), code.split_once('.')?.0.parse().ok()?))
        };
        assert!(until(limit, || end(&said()).is_some()), "`{line}` does not end:\n{}", said());
        end(&said()).unwrap()
    }
}
