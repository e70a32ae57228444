//! Ports that stay free while their server is down.

use std::{
    collections::BTreeSet,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    sync::{Mutex, PoisonError},
};

use rand::Rng as _;

use super::WorldError;

/// Below those that Linux gives to outgoing connections: one of these could sit on the port of a server that is killed
/// and started again.
const RANGE: std::ops::Range<u16> = 10_240..32_000;
const ATTEMPTS: usize = 200;

/// What this process has given out. A port is free until its server starts, so looking alone would give it out again.
static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// An address on the loopback that nobody listened on a moment ago, and that nobody else here gets.
pub(super) fn free_address() -> Result<SocketAddr, WorldError> {
    let mut chance = rand::rng();
    let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    for _ in 0..ATTEMPTS {
        let port = chance.random_range(RANGE);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        if TcpListener::bind(address).is_ok() && given.insert(port) {
            return Ok(address);
        }
    }
    Err(WorldError::NoSuch("free ports left".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_port_is_given_out_twice() {
        let ports: BTreeSet<u16> = (0..2_000)
            .map(|_| free_address().expect("there are free ports").port())
            .collect();
        assert_eq!(ports.len(), 2_000);
    }
}
