//! Where the server listens: `unix:PATH` or `tcp:HOST:PORT`.
//!
//! A socket file left behind by a crash is replaced, one on which somebody answers is not. Without
//! a host, TCP means loopback: NBD has no authentication, so serving the network has to be asked
//! for by name.

use rustix::fs::{Mode, OFlags};
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, Instant};
use thiserror::Error;

/// Longest path of a Unix socket (`sun_path` without its final zero).
pub const SOCKET_PATH_BYTES_MAX: usize = 107;

/// Directory for sockets of services. systemd makes it for the package's; whoever serves by hand has it made.
const RUN_FOLDER: &str = "/run/zoneweave";

/// Time to wait for the kernel to close the socket of a dead server.
const DYING_LIMIT: Duration = Duration::from_secs(10);
const DYING_LOOK_EVERY: Duration = Duration::from_millis(5);

/// NBD's port, as registered.
pub const NBD_PORT: u16 = 10809;

/// A place to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// A Unix socket, readable and writable by its owner only.
    Unix(PathBuf),
    /// A TCP address.
    Tcp(SocketAddr),
}

/// Why a place to listen could not be understood.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ListenParseError {
    /// Neither `unix:` nor `tcp:`.
    #[error("`{0}` is not a place to listen: write unix:PATH or tcp:HOST:PORT, such as tcp:127.0.0.1:10809")]
    Scheme(String),
    /// No path after `unix:`.
    #[error("`unix:` needs the path of a socket, such as unix:/run/zoneweave.sock")]
    EmptyPath,
    /// The path does not fit a socket address.
    #[error(
        "the socket path is {0} bytes long; the system allows {SOCKET_PATH_BYTES_MAX}: use a shorter one"
    )]
    LongPath(usize),
    /// Host or port unknown.
    #[error(
        "`{0}` is not HOST:PORT: write an address or a name and a number, such as 127.0.0.1:10809 or :10809"
    )]
    Address(String),
}

/// Why listening failed.
#[derive(Debug, Error)]
pub enum BindError {
    /// A live server answers at the path.
    #[error("another server answers on {0}: stop it first or choose another path")]
    InUse(PathBuf),
    /// A file, but no socket.
    #[error("{0} exists and is not a socket: remove it or choose another path")]
    NotASocket(PathBuf),
    /// The system said no.
    #[error("cannot listen on {place}: {source}{}", remedy_of(source))]
    Io {
        /// Address or path of the listener.
        place: String,
        /// Why.
        source: io::Error,
    },
}

fn remedy_of(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => ": make its directory, or choose another path",
        io::ErrorKind::AddrInUse => ": stop the program that has it, or choose another port",
        io::ErrorKind::AddrNotAvailable => ": choose one of this host's addresses (`ip address`)",
        io::ErrorKind::PermissionDenied => ": run this as root, or choose another path or port",
        io::ErrorKind::InvalidInput => ": choose a shorter path",
        _ => "",
    }
}

impl FromStr for Listen {
    type Err = ListenParseError;

    fn from_str(text: &str) -> Result<Listen, ListenParseError> {
        if let Some(path) = text.strip_prefix("unix:") {
            return parse_unix(path);
        }
        match text.strip_prefix("tcp:") {
            Some(address) => parse_tcp(address),
            None => Err(ListenParseError::Scheme(text.to_owned())),
        }
    }
}

fn parse_unix(path: &str) -> Result<Listen, ListenParseError> {
    match path.len() {
        0 => Err(ListenParseError::EmptyPath),
        1..=SOCKET_PATH_BYTES_MAX => Ok(Listen::Unix(PathBuf::from(path))),
        long => Err(ListenParseError::LongPath(long)),
    }
}

fn parse_tcp(address: &str) -> Result<Listen, ListenParseError> {
    let wrong = || ListenParseError::Address(address.to_owned());
    let full = match (address.starts_with(':'), address.parse::<u16>()) {
        (true, _) => format!("127.0.0.1{address}"),
        (false, Ok(port)) => format!("127.0.0.1:{port}"),
        (false, Err(_)) => address.to_owned(),
    };
    let mut resolved = full.to_socket_addrs().map_err(|_| wrong())?;
    resolved.next().map(Listen::Tcp).ok_or_else(wrong)
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Listen::Unix(path) => write!(f, "unix:{}", path.display()),
            Listen::Tcp(address) => write!(f, "tcp:{address}"),
        }
    }
}

impl Listen {
    /// The address of an export as NBD tools take it.
    #[must_use]
    pub fn uri(&self, export: &str) -> String {
        let name = escape(export.as_bytes(), b"");
        match self {
            Listen::Unix(path) => {
                let path = escape(path.as_os_str().as_encoded_bytes(), b"/");
                format!("nbd+unix:///{name}?socket={path}")
            }
            Listen::Tcp(address) => format!("nbd://{address}/{name}"),
        }
    }

    /// Begins to listen.
    ///
    /// # Errors
    /// When somebody else listens there or the system says no.
    pub fn bind(&self) -> Result<Listener, BindError> {
        let io_error = |source| BindError::Io { place: self.to_string(), source };
        match self {
            Listen::Unix(path) => {
                let fd = bind_unix(path)?;
                let path = Some(path.clone());
                Ok(Listener { fd: Some(fd), place: self.clone(), socket_path: path })
            }
            Listen::Tcp(address) => {
                let listener = TcpListener::bind(address).map_err(io_error)?;
                // Port 0 asks the system for one; clients need to know which.
                let place = Listen::Tcp(listener.local_addr().map_err(io_error)?);
                Ok(Listener { fd: Some(listener.into()), place, socket_path: None })
            }
        }
    }
}

/// Percent-encodes what a URI cannot carry.
fn escape(bytes: &[u8], also_plain: &[u8]) -> String {
    let mut text = String::new();
    for &byte in bytes {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || also_plain.contains(&byte) {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

/// An open listener. Dropped, it closes its socket and removes its file.
#[derive(Debug)]
pub struct Listener {
    fd: Option<OwnedFd>,
    place: Listen,
    socket_path: Option<PathBuf>,
}

impl Listener {
    /// Address or path of the listener; a TCP port 0 has become a real one.
    #[must_use]
    pub fn place(&self) -> &Listen {
        &self.place
    }

    /// Connections need TCP_NODELAY.
    #[must_use]
    pub fn is_tcp(&self) -> bool {
        matches!(self.place, Listen::Tcp(_))
    }

    /// The loop takes the socket; the listener stays to remove its file.
    pub(crate) fn take_fd(&mut self) -> OwnedFd {
        self.fd.take().expect("the loop takes it once")
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.fd = None;
        if let Some(path) = &self.socket_path
            && let Err(error) = std::fs::remove_file(path)
        {
            log::warn!("cannot remove the socket {}: {error}", path.display());
        }
    }
}

/// A way to a socket that fits its address: long paths go through a descriptor of their directory.
pub(crate) struct ShortPath {
    path: PathBuf,
    /// Kept open while the path is used.
    _directory: Option<OwnedFd>,
}

impl ShortPath {
    pub(crate) fn of(path: &Path) -> io::Result<ShortPath> {
        let name = path.file_name().filter(|_| path.as_os_str().len() > SOCKET_PATH_BYTES_MAX);
        let Some(name) = name else { return Ok(ShortPath { path: path.to_owned(), _directory: None }) };
        let parent = path.parent().unwrap_or(Path::new("."));
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(parent, flags, Mode::empty())?;
        let path = Path::new("/proc/self/fd").join(directory.as_raw_fd().to_string()).join(name);
        Ok(ShortPath { path, _directory: Some(directory) })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// Binds a Unix socket of mode 0600, replacing a file on which nobody answers.
fn bind_unix(path: &Path) -> Result<OwnedFd, BindError> {
    let io_error = |source| BindError::Io { place: format!("unix:{}", path.display()), source };
    make_run_folder(path, Path::new(RUN_FOLDER));
    let short = ShortPath::of(path).map_err(io_error)?;
    remove_stale(path, short.path())?;
    // The mask makes the socket private from its first moment; a chmod afterwards would be late.
    let before = rustix::process::umask(Mode::from_raw_mode(0o177));
    let bound = UnixListener::bind(short.path());
    rustix::process::umask(before);
    bound.map(OwnedFd::from).map_err(io_error)
}

/// Makes that directory when a socket is to be in it. Where that fails, so does the bind, which tells why.
fn make_run_folder(socket: &Path, folder: &Path) {
    if socket.parent() == Some(folder) {
        let _ = std::fs::create_dir(folder);
    }
}

fn remove_stale(path: &Path, short: &Path) -> Result<(), BindError> {
    let io_error = |source| BindError::Io { place: format!("unix:{}", path.display()), source };
    let metadata = match std::fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(io_error(error)),
    };
    if !metadata.file_type().is_socket() {
        return Err(BindError::NotASocket(path.to_owned()));
    }
    let patience_ends = Instant::now() + DYING_LIMIT;
    loop {
        match UnixStream::connect(short) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                log::info!("removing the socket {}, on which nobody answers", path.display());
                return std::fs::remove_file(path).map_err(io_error);
            }
            // A server that was killed may hold its socket a little longer than its drives.
            Ok(stream) if is_dying(&stream) && Instant::now() < patience_ends => {
                std::thread::sleep(DYING_LOOK_EVERY);
            }
            Ok(_) => return Err(BindError::InUse(path.to_owned())),
            // Too busy to accept, or not ours to ask: somebody lives there.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(BindError::InUse(path.to_owned()));
            }
            Err(error) => return Err(io_error(error)),
        }
    }
}

/// True when the process that listens at the other end has ended, and only the kernel is not done with it.
fn is_dying(stream: &UnixStream) -> bool {
    let Ok(peer) = rustix::net::sockopt::socket_peercred(stream) else { return false };
    match std::fs::read_to_string(format!("/proc/{}/stat", peer.pid.as_raw_nonzero())) {
        // `PID (NAME) STATE ...`; the name may hold anything.
        Ok(stat) => stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with(['Z', 'X'])),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_parse_and_print() {
        for good in ["unix:/run/z.sock", "tcp:127.0.0.1:10809", "tcp:[::1]:7"] {
            assert_eq!(good.parse::<Listen>().map(|place| place.to_string()), Ok(good.to_owned()));
        }
        assert_eq!("tcp::7".parse::<Listen>(), "tcp:127.0.0.1:7".parse());
        assert_eq!("tcp:7".parse::<Listen>(), "tcp:127.0.0.1:7".parse());
        for wrong in ["", "/run/z.sock", "unix:", "tcp:", "tcp:host", "tcp:127.0.0.1:99999", "udp:1"] {
            let error = wrong.parse::<Listen>().unwrap_err().to_string();
            assert!(error.contains("such as"), "{wrong}: {error}");
        }
        let long = format!("unix:/{}", "x".repeat(200));
        assert_eq!(long.parse::<Listen>(), Err(ListenParseError::LongPath(201)));
    }

    #[test]
    fn a_long_path_is_bound_through_its_directory() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("x".repeat(120));
        std::fs::create_dir(&deep).unwrap();
        let path = deep.join("control.sock");
        let listener = Listen::Unix(path.clone()).bind().unwrap();
        let short = ShortPath::of(&path).unwrap();
        UnixStream::connect(short.path()).unwrap();
        assert!(matches!(Listen::Unix(path.clone()).bind(), Err(BindError::InUse(_))));
        drop(listener);
        assert!(!path.exists());
    }

    #[test]
    fn the_directory_of_services_is_made_and_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path().join("zoneweave");
        make_run_folder(&folder.path().join("zoneweav/vm.sock"), &run);
        make_run_folder(&run.join("deep/vm.sock"), &run);
        assert!(!run.exists());
        for _ in 0..2 {
            make_run_folder(&run.join("vm.sock"), &run);
            assert!(run.is_dir());
        }
    }

    #[test]
    fn a_place_that_cannot_be_had_is_told_with_its_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let long = folder.path().join("x".repeat(120));
        let wrong = [
            (Listen::Unix(folder.path().join("nowhere/s")), "make its directory"),
            (Listen::Unix(long), "shorter path"),
            (Listen::Tcp(taken.local_addr().unwrap()), "another port"),
            (Listen::Tcp("192.0.2.1:1".parse().unwrap()), "`ip address`"),
        ];
        for (place, remedy) in wrong {
            let said = place.bind().unwrap_err().to_string();
            assert!(said.contains(&place.to_string()) && said.contains(remedy), "{said}");
        }
    }

    #[test]
    fn uris_escape_what_they_must() {
        let unix = Listen::Unix(PathBuf::from("/tmp/a b.sock"));
        assert_eq!(unix.uri("v/1"), "nbd+unix:///v%2F1?socket=/tmp/a%20b.sock");
        assert_eq!("tcp:127.0.0.1:1".parse::<Listen>().unwrap().uri("v"), "nbd://127.0.0.1:1/v");
    }

    #[test]
    fn a_stale_socket_is_replaced_a_live_one_and_a_file_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        drop(UnixListener::bind(&path).unwrap());
        let listener = Listen::Unix(path.clone()).bind().unwrap();
        assert!(matches!(Listen::Unix(path.clone()).bind(), Err(BindError::InUse(_))));
        drop(listener);
        assert!(!path.exists());
        std::fs::write(&path, "precious").unwrap();
        assert!(matches!(Listen::Unix(path).bind(), Err(BindError::NotASocket(_))));
    }
}
