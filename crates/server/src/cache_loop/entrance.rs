//! Entrance of the loop: clients come in by a door, or are handed over by the first loop.

use super::clients::Clients;
use super::common::Common;
use super::connection::Connection;
use super::conversation::Conversation;
use super::cores::Newcomer;
use crate::listen::Listen;
use crate::memcached;
use crate::resp::session::{Facts, Session};
use cache::request::Namespace;
use rustix::net::SendFlags;
use std::io;
use std::net::TcpStream;
use std::os::fd::{AsRawFd, OwnedFd};

/// What Redis says to those who are too many.
const TOO_MANY: &[u8] = b"-ERR max number of clients reached\r\n";
/// What memcached says to them.
const TOO_MANY_MEMCACHED: &[u8] = b"ERROR Too many open connections\r\n";

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Entrance {
    /// Clients so far, from which each has its number.
    seen: u64,
}

impl Entrance {
    /// A client has come in by a door: it stays here, or goes to another loop.
    pub(super) fn welcome(
        &mut self,
        (common, clients): (&mut Common<'_>, &mut Clients),
        index: usize,
        socket: OwnedFd,
    ) -> io::Result<()> {
        let resp_doors = common.doors.count() - common.config.memcached_doors.len();
        let of_memcached = index.checked_sub(resp_doors).map(|door| common.config.memcached_doors[door]);
        let is_memcached = of_memcached.is_some();
        if clients.len() + common.seat.role.clients_elsewhere() >= common.front.settings.clients_max {
            common.front.statistics.connections_refused += 1;
            // It fails when nobody is there to be told.
            let told = if is_memcached { TOO_MANY_MEMCACHED } else { TOO_MANY };
            let _told = rustix::net::send(&socket, told, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
            return Ok(());
        }
        let Some(listener) = common.doors.listener(index) else { return Ok(()) };
        let place = listener.place().clone();
        if listener.is_tcp()
            && let Err(error) = rustix::net::sockopt::set_tcp_nodelay(&socket, true)
        {
            log::warn!("cannot set TCP_NODELAY: {error}");
        }
        common.front.statistics.connections += 1;
        self.seen += 1;
        let descriptor = socket.as_raw_fd();
        let (socket, addresses) = addresses(socket, &place);
        let facts = Facts {
            id: self.seen,
            addresses,
            descriptor,
            name: Vec::new(),
            library: (Vec::new(), Vec::new()),
            namespace: Namespace(0),
            since: common.front.wall,
            active: common.front.wall,
            last: "",
            query_bytes: 0,
        };
        log::debug!("client {}: connected from {}", facts.id, facts.addresses.0);
        let without = common.seat.without_clients;
        let clients_here = if without > 0 { usize::MAX } else { clients.len() };
        // The first of the colleagues is the second loop.
        let newcomer = Newcomer { socket, facts, of_memcached };
        match common.seat.role.hand_over(newcomer, clients_here, without.saturating_sub(1)) {
            Some(newcomer) => seat(common, clients, newcomer),
            None => Ok(()),
        }
    }
}

/// Begins with those who were handed over.
pub(super) fn take_arrivals(common: &mut Common<'_>, clients: &mut Clients) -> io::Result<()> {
    while let Some(newcomer) = common.seat.role.next_arrival() {
        // Once stopping, the socket closes again as it is dropped.
        if common.is_serving() {
            seat(common, clients, newcomer)?;
        }
    }
    Ok(())
}

/// A client begins here.
fn seat(common: &mut Common<'_>, clients: &mut Clients, newcomer: Newcomer) -> io::Result<()> {
    let Newcomer { socket, facts, of_memcached } = newcomer;
    let session = match of_memcached {
        Some(namespace) => {
            let session = memcached::session::Session::new((facts.id, namespace), &common.front.settings);
            Conversation::Memcached(Box::new(session))
        }
        None => Conversation::Resp(Box::new(Session::new(facts, &common.front.settings))),
    };
    clients.seat(common, Connection::new(socket, session, common.front.now))
}

/// Where a client is and where it came to, in Redis' words.
fn addresses(socket: OwnedFd, place: &Listen) -> (OwnedFd, (String, String)) {
    match place {
        Listen::Unix(path) => {
            let path = format!("{}:0", path.display());
            (socket, (path.clone(), path))
        }
        Listen::Tcp(_) => {
            let stream = TcpStream::from(socket);
            let text = |address: io::Result<std::net::SocketAddr>| {
                address.map_or_else(|_| "?:0".to_owned(), |address| address.to_string())
            };
            let addresses = (text(stream.peer_addr()), text(stream.local_addr()));
            (OwnedFd::from(stream), addresses)
        }
    }
}
