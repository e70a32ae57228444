//! The listening socket.

use std::{
    io,
    net::{SocketAddr, TcpListener},
};

use socket2::{Domain, Protocol, Socket, Type};

/// Connections that wait to be accepted; what Go's servers get by the kernel's default limit today.
const BACKLOG: i32 = 4096;

/// Binds and listens, so that a second server on the same address is refused but a restarted one is not.
pub(super) fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = bound(address)?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// Binds an address and gives it back: the error of a server that would be started on it now. No connection is taken meanwhile.
///
/// # Errors
/// If it cannot be bound.
pub fn try_bind(address: SocketAddr) -> io::Result<()> {
    bound(address).map(drop)
}

fn bound(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}
