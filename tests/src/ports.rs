//! Ports that stay free while their server is down.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::{Mutex, PoisonError};

/// Below those that Linux gives to outgoing connections: one of these could sit on the port of a server that is killed
/// and started again.
const RANGE: std::ops::Range<u16> = 10_240..32_000;
const ATTEMPTS: usize = 200;

/// Ports that this process has given out. A port is free until its server starts, so looking alone would give it out again.
static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// An address on the loopback that was free a moment ago, and that no other caller in this process gets.
pub fn free_address() -> SocketAddr {
    let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    for _ in 0..ATTEMPTS {
        let port = rand::random_range(RANGE);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        if TcpListener::bind(address).is_ok() && given.insert(port) {
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
    use super::*;

    #[test]
    fn no_port_is_given_out_twice() {
        let ports: BTreeSet<u16> = (0..2_000).map(|_| free_port()).collect();
        assert_eq!(ports.len(), 2_000);
    }
}
