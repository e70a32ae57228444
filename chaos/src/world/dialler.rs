//! Which process holds the other end of a connection on the loopback.
//!
//! The kernel is asked for that one socket, by a request of `sock_diag(7)`. `/proc/net/tcp` has the same, but to read it costs 5 ms of
//! CPU time on a quiet machine and several times that where thousands of connections linger. Replicas dial each other
//! several times a second while they start, so such reads took more time than the replicas themselves had.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, SocketAddrV4};
use std::path::Path;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

/// `AF_NETLINK`.
const NETLINK: i32 = 16;
/// `NETLINK_SOCK_DIAG`.
const SOCK_DIAG: i32 = 4;
/// `SOCK_DIAG_BY_FAMILY`, the type of the request and of its answer. An answer of another type is an error.
const BY_FAMILY: u16 = 20;
/// `NLM_F_REQUEST`. Without `NLM_F_DUMP` it asks for one socket.
const REQUEST: u16 = 1;
/// `AF_INET` and `IPPROTO_TCP`.
const TCP_OVER_IPV4: [u8; 2] = [2, 6];
/// The size of `struct nlmsghdr` and `struct inet_diag_req_v2`.
const REQUEST_BYTES: u32 = 72;
/// Where `inet_diag_msg.idiag_inode` lies in an answer.
const INODE: std::ops::Range<usize> = 84..88;

/// A process that starts is dialling before its id is noted.
const NOTING_ATTEMPTS: u32 = 20;

/// Which of the processes has dialled from `client` to `server`.
pub(super) fn dialler(client: SocketAddr, server: SocketAddr, known: impl Fn() -> Vec<Option<u32>>) -> Option<usize> {
    let (SocketAddr::V4(client), SocketAddr::V4(server)) = (client, server) else {
        return None;
    };
    for _ in 0..NOTING_ATTEMPTS {
        let socket = format!("socket:[{}]", inode_of(client, server)?);
        let holds = |process: &Option<u32>| process.is_some_and(|id| holds_file(id, &socket));
        if let Some(found) = known().iter().position(holds) {
            return Some(found);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    None
}

fn holds_file(process: u32, file: &str) -> bool {
    let Ok(entries) = fs::read_dir(format!("/proc/{process}/fd")) else {
        return false;
    };
    let mut names = entries.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
    names.any(|name| name == Path::new(file))
}

/// The inode of the socket that is connected from `own` to `peer`; `None` if no process has it any more.
fn inode_of(own: SocketAddrV4, peer: SocketAddrV4) -> Option<u32> {
    let mut kernel = Socket::new(Domain::from(NETLINK), Type::DGRAM, Some(Protocol::from(SOCK_DIAG))).ok()?;
    // The answer is there when the request has been sent.
    kernel.set_nonblocking(true).ok()?;
    kernel.write_all(&request(own, peer)).ok()?;
    let mut answer = [0; 1024];
    let length = kernel.read(&mut answer).ok()?;
    inode_in(answer.get(..length)?)
}

fn request(own: SocketAddrV4, peer: SocketAddrV4) -> Vec<u8> {
    let no_number = 0_u32.to_ne_bytes();
    let rest_of_address = [0; 12];
    [
        // struct nlmsghdr: with no sequence number, from the port that the kernel chooses.
        &REQUEST_BYTES.to_ne_bytes()[..],
        &BY_FAMILY.to_ne_bytes(),
        &REQUEST.to_ne_bytes(),
        &no_number,
        &no_number,
        // struct inet_diag_req_v2: without extensions, in any state.
        &TCP_OVER_IPV4,
        &[0; 2],
        &u32::MAX.to_ne_bytes(),
        // struct inet_diag_sockid: on any interface, with any cookie.
        &own.port().to_be_bytes(),
        &peer.port().to_be_bytes(),
        &own.ip().octets(),
        &rest_of_address,
        &peer.ip().octets(),
        &rest_of_address,
        &no_number,
        &u64::MAX.to_ne_bytes(),
    ]
    .concat()
}

fn inode_in(answer: &[u8]) -> Option<u32> {
    let kind = answer.get(4..6)?;
    if kind != BY_FAMILY.to_ne_bytes() {
        return None;
    }
    let inode = u32::from_ne_bytes(answer.get(INODE)?.try_into().ok()?);
    // A socket that lingers after its process has closed it has none.
    Some(inode).filter(|inode| *inode != 0)
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener, TcpStream};

    use rustix::time::{ClockId, clock_gettime};

    use super::*;

    /// A connection to a listener of this process, with its two addresses.
    fn connection() -> (TcpListener, TcpStream, [SocketAddr; 2]) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
        let server = listener.local_addr().expect("it has one");
        let client = TcpStream::connect(server).expect("it listens");
        let own = client.local_addr().expect("it has one");
        (listener, client, [own, server])
    }

    #[test]
    fn the_process_that_has_dialled_is_found() {
        let (_listener, client, [own, server]) = connection();
        let here = std::process::id();
        assert_eq!(dialler(own, server, || vec![None, Some(1), Some(here)]), Some(2));
        assert_eq!(dialler(own, server, || vec![None, Some(1)]), None);
        assert_eq!(
            dialler(server, own, || vec![Some(here)]),
            None,
            "it is not accepted yet"
        );
        drop(client);
        assert_eq!(dialler(own, server, || vec![Some(here)]), None);
    }

    #[test]
    fn a_process_whose_id_is_noted_late_is_found() {
        let (_listener, _client, [own, server]) = connection();
        let noted = std::cell::Cell::new(0);
        let known = || {
            noted.set(noted.get() + 1);
            vec![(noted.get() > 3).then(std::process::id)]
        };
        assert_eq!(dialler(own, server, known), Some(0));
    }

    #[test]
    fn to_find_it_takes_no_reading_of_all_connections() {
        let used = || {
            let used = clock_gettime(ClockId::ThreadCPUTime);
            Duration::new(
                used.tv_sec.cast_unsigned(),
                u32::try_from(used.tv_nsec).expect("it is below a second"),
            )
        };
        let (_listener, _client, [own, server]) = connection();
        let before = used();
        for _ in 0..100 {
            assert_eq!(dialler(own, server, || vec![Some(std::process::id())]), Some(0));
        }
        let taken = used() - before;
        assert!(
            taken < Duration::from_millis(200),
            "{taken:?}: to read the kernel's table takes 500 ms"
        );
    }
}
