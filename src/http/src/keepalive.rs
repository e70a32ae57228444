//! Connections whose other end has gone without a word.

use std::{io, time::Duration};

use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;

/// As Go's listeners and dialers have it.
const IDLE: Duration = Duration::from_secs(15);
const INTERVAL: Duration = Duration::from_secs(15);
const PROBES: u32 = 9;

/// Lets the kernel ask a silent peer whether it is there; a connection without an answer breaks after some two and a half minutes.
pub(crate) fn notice_lost_peer(socket: &TcpStream) -> io::Result<()> {
    let keepalive = TcpKeepalive::new()
        .with_time(IDLE)
        .with_interval(INTERVAL)
        .with_retries(PROBES);
    SockRef::from(socket).set_tcp_keepalive(&keepalive)
}
