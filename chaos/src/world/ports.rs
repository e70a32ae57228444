//! Ports that stay free while their server is down.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use rand::Rng as _;

use super::WorldError;

/// Below those that Linux gives to outgoing connections: one of these could sit on the port of a server that is killed
/// and started again.
const RANGE: std::ops::Range<u16> = 10_240..32_000;
const ATTEMPTS: usize = 200;

/// An address on the loopback that nobody listened on a moment ago.
pub(super) fn free_address() -> Result<SocketAddr, WorldError> {
    let mut chance = rand::rng();
    for _ in 0..ATTEMPTS {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, chance.random_range(RANGE)));
        if TcpListener::bind(address).is_ok() {
            return Ok(address);
        }
    }
    Err(WorldError::NoSuch("free ports left".to_owned()))
}
