//! The NBD protocol, server side, without I/O.
//!
//! Written from the public specification (`doc/proto.md` of the NetworkBlockDevice project):
//! [`codec`] knows the bytes, [`handshake`] the negotiation, [`transmission`] which requests are
//! admitted and how a byte range falls apart into blocks. Sockets are `core_loop`'s business.

pub mod codec;
pub mod handshake;
pub mod transmission;
