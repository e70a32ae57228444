//! Ports for the programs that tests start. They stay free while their server is down.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixListener};
use std::sync::{Mutex, PoisonError};

/// Below those that Linux gives to outgoing connections: one of these could sit on the port of a server that is killed
/// and started again.
const RANGE: std::ops::Range<u16> = 10_240..32_000;
const ATTEMPTS: usize = 200;

/// The claims of this process on its ports. A port is free until its server starts, and while that is killed and started again, so
/// looking alone would give it out once more.
static CLAIMS: Mutex<Vec<UnixListener>> = Mutex::new(Vec::new());

/// Claims a port until this process ends: tests are processes that run side by side, and an abstract name of a Unix socket is one
/// process's alone.
fn claim(port: u16) -> Option<UnixListener> {
    let name = UnixAddress::from_abstract_name(format!("trireme-test-port-{port}")).ok()?;
    UnixListener::bind_addr(&name).ok()
}

/// An address on the loopback that was free a moment ago, and that no other test gets.
pub fn free_address() -> SocketAddr {
    for _ in 0..ATTEMPTS {
        let port = rand::random_range(RANGE);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        if let Some(claim) = claim(port)
            && TcpListener::bind(address).is_ok()
        {
            CLAIMS.lock().unwrap_or_else(PoisonError::into_inner).push(claim);
            return address;
        }
    }
    panic!("the loopback has no free ports");
}

/// The port alone.
pub fn free_port() -> u16 {
    free_address().port()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_port_is_given_out_twice() {
        let ports: BTreeSet<u16> = (0..400).map(|_| free_port()).collect();
        assert_eq!(ports.len(), 400);
        assert!(
            ports.iter().all(|port| claim(*port).is_none()),
            "another process could claim one"
        );
    }
}
