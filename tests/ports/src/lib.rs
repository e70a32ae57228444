//! Ports for the programs that tests start. They stay free while their server is down.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixListener};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Below those that Linux gives to outgoing connections: one of these could sit on the port of a server that is killed
/// and started again.
const RANGE: std::ops::Range<u16> = 10_240..32_000;
const ATTEMPTS: usize = 200;
/// The loopback answers at once, but for a listener whose queue is full.
const ANSWERED_WITHIN: Duration = Duration::from_secs(1);

/// The claims of this process on its ports. A port is free until its server starts, and while that is killed and started again, so
/// looking alone would give it out once more.
static CLAIMS: Mutex<Vec<UnixListener>> = Mutex::new(Vec::new());

/// Claims a port until this process ends: tests are processes that run side by side, and an abstract name of a Unix socket is one
/// process's alone.
fn claim(port: u16) -> Option<UnixListener> {
    let name = UnixAddress::from_abstract_name(format!("trireme-test-port-{port}")).ok()?;
    UnixListener::bind_addr(&name).ok()
}

/// Reports whether nobody listens at an address. To listen there for a moment would not do: a process that another thread starts
/// in this moment inherits the listener, and keeps it until it runs its program.
fn is_free(address: SocketAddr) -> bool {
    let connected = TcpStream::connect_timeout(&address, ANSWERED_WITHIN);
    connected.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
}

/// An address on the loopback that was free a moment ago, and that no other test gets.
pub fn free_address() -> SocketAddr {
    for _ in 0..ATTEMPTS {
        let port = rand::random_range(RANGE);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        if let Some(claim) = claim(port)
            && is_free(address)
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
    use std::net::TcpListener;
    use std::process::Command;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::*;

    /// Ports that nobody else takes: between those that are given out and those of outgoing connections.
    const OTHERS: std::ops::Range<u16> = 32_000..32_700;
    /// The number of those that one run of the test claims, which others may run beside.
    const CLAIMED: usize = 100;
    const ROUNDS: usize = 280;

    #[test]
    fn no_port_is_given_out_twice() {
        let ports: BTreeSet<u16> = (0..400).map(|_| free_port()).collect();
        assert_eq!(ports.len(), 400);
        assert!(
            ports.iter().all(|port| claim(*port).is_none()),
            "another process could claim one"
        );
    }
    #[test]
    fn a_free_port_can_be_listened_at_while_others_start_processes() {
        let done = AtomicBool::new(false);
        let start_processes = || {
            while !done.load(Ordering::Relaxed) {
                let ended = Command::new("true").status().expect("it runs");
                assert!(ended.success(), "{ended}");
            }
        };
        let claims = OTHERS.filter_map(|port| Some((port, claim(port)?)));
        let claims: Vec<_> = claims.take(CLAIMED).collect();
        assert_eq!(claims.len(), CLAIMED, "too many runs of this test go on");
        let taken: Vec<u16> = thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(start_processes);
            }
            let ports = (0..ROUNDS).flat_map(|_| &claims);
            let addresses = ports.map(|(port, _)| SocketAddr::from((Ipv4Addr::LOCALHOST, *port)));
            let free = addresses.filter(|address| is_free(*address));
            let taken = free.filter(|address| TcpListener::bind(address).is_err());
            let taken = taken.map(|address| address.port()).collect();
            done.store(true, Ordering::Relaxed);
            taken
        });
        assert!(taken.is_empty(), "somebody listens at {taken:?}");
    }
}
