//! Exports that come and go while a service is under way.
//!
//! Whoever answers questions asks for changes here, in the thread of the loop; the loop carries them out before the answer leaves, and
//! shows here what became of them.

use crate::listen::{Listen, Listener};
use crate::ublk::Attached;
use crate::vhost::block::BlockSize;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A socket at which a front end of a virtual machine finds the volume.
#[derive(Debug)]
pub struct GuestPort {
    /// The socket.
    pub listener: Listener,
    /// Block size that the machine sees.
    pub block_size: BlockSize,
}

impl From<Listener> for GuestPort {
    fn from(listener: Listener) -> GuestPort {
        GuestPort { listener, block_size: BlockSize::default() }
    }
}

/// A change that the loop is asked for.
#[derive(Debug)]
pub(crate) enum Change {
    OpenClients(Listener),
    OpenGuests(GuestPort),
    /// The door at this place: nobody comes in any more, whoever is in stays.
    Close(Listen),
    OpenDisk(Attached),
    CloseDisk,
}

/// State of the disk of this host, as far as changes are concerned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DiskState {
    /// There is none, or the service has let go of it.
    #[default]
    Absent,
    /// The kernel is making it.
    Starting,
    /// It can be used.
    Open,
    /// The kernel takes it away.
    Stopping,
    /// It was to be taken away, and stays, for somebody uses it or the kernel refused.
    Kept(String),
    /// The kernel did not make it.
    Failed(String),
}

/// Presence of an NBD client: it counts where it came in until this is dropped, in whatever thread.
#[derive(Debug)]
pub(crate) struct Presence {
    /// Number of the client, for the log.
    pub(crate) number: u64,
    _token: Arc<()>,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Ports(Arc<Mutex<Board>>);

#[derive(Debug, Default)]
struct Board {
    changes: VecDeque<Change>,
    /// Places of front ends that are connected.
    occupied: Vec<Listen>,
    /// Whoever came in at a place of NBD has a copy of its token.
    tokens: BTreeMap<String, Arc<()>>,
    disk: DiskState,
}

impl Ports {
    fn board(&self) -> MutexGuard<'_, Board> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask(&self, change: Change) {
        self.board().changes.push_back(change);
    }

    /// Lets NBD clients come in by one more socket.
    pub fn open_clients(&self, listener: Listener) {
        self.ask(Change::OpenClients(listener));
    }

    /// Lets front ends of virtual machines come in by one more socket.
    pub fn open_guests(&self, port: GuestPort) {
        self.ask(Change::OpenGuests(port));
    }

    /// Closes a socket of either kind. Clients and front ends that are connected stay.
    pub fn close(&self, place: &Listen) {
        self.ask(Change::Close(place.clone()));
    }

    /// True while a front end is connected at this place.
    #[must_use]
    pub fn is_occupied(&self, place: &Listen) -> bool {
        self.board().occupied.contains(place)
    }

    /// NBD clients that are connected and came in at this place.
    #[must_use]
    pub fn clients_at(&self, place: &Listen) -> usize {
        self.board().tokens.get(&place.to_string()).map_or(0, |token| Arc::strong_count(token) - 1)
    }

    /// Lets the kernel show a disk of this host. There must be none.
    ///
    /// # Panics
    /// When there is one.
    pub fn open_disk(&self, disk: Attached) {
        let mut board = self.board();
        assert!(matches!(board.disk, DiskState::Absent | DiskState::Failed(_)), "one disk at a time");
        board.disk = DiskState::Starting;
        board.changes.push_back(Change::OpenDisk(disk));
    }

    /// Takes the disk of this host away, unless somebody uses it. What became of it, [`Ports::disk`] tells.
    pub fn close_disk(&self) {
        let mut board = self.board();
        if matches!(board.disk, DiskState::Open | DiskState::Kept(_)) {
            board.disk = DiskState::Stopping;
            board.changes.push_back(Change::CloseDisk);
        }
    }

    /// State of the disk of this host.
    #[must_use]
    pub fn disk(&self) -> DiskState {
        self.board().disk.clone()
    }

    pub(crate) fn next_change(&self) -> Option<Change> {
        self.board().changes.pop_front()
    }

    pub(crate) fn show_disk(&self, state: DiskState) {
        self.board().disk = state;
    }

    /// A client comes in.
    pub(crate) fn admit(&self, place: &Listen, number: u64) -> Presence {
        let mut board = self.board();
        let token = board.tokens.entry(place.to_string()).or_default();
        Presence { number, _token: Arc::clone(token) }
    }

    pub(crate) fn show_guest(&self, place: &Listen, is_connected: bool) {
        let mut board = self.board();
        board.occupied.retain(|other| other != place);
        if is_connected {
            board.occupied.push(place.clone());
        }
    }
}
