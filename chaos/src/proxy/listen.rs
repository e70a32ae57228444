//! The port of a proxy.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use socket2::{Domain, Socket, Type};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use super::{Conditions, Link, Opening, connection};

/// Connections that the kernel keeps for us until we accept them.
const BACKLOG: i32 = 1024;
/// The pause after an error of `accept`, such as no free file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Which link a connection from the first address to the second belongs to.
type Sorter = Arc<dyn Fn(SocketAddr, SocketAddr) -> Link + Send + Sync>;

/// A port that leads to a server over a [`Link`]. Dropping it closes the port and every connection.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    // Keeps the port ours while nothing listens on it.
    _placeholder: Socket,
    task: JoinHandle<()>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Proxy {
    /// Leads to `target` over `link`, from a free port of this machine's address `on`, which may be one that it is only
    /// about to have. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// If no port can be had.
    pub fn start(on: Ipv4Addr, link: Link, target: SocketAddr) -> io::Result<Self> {
        let placeholder = bind(SocketAddr::from((on, 0)))?;
        let address = address_of(&placeholder)?;
        let listener = listen(address)?;
        let task = tokio::spawn(serve_one(link, target, listener, address));
        Ok(Self {
            address,
            _placeholder: placeholder,
            task,
        })
    }

    /// Leads to `target` over several links: `sort` says for the address of each client, and ours that it dialled, which one
    /// is its own. It is called on a thread where it may block for some milliseconds.
    ///
    /// # Errors
    /// If no port can be had.
    pub fn start_sorted(
        on: Ipv4Addr,
        target: SocketAddr,
        sort: impl Fn(SocketAddr, SocketAddr) -> Link + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let placeholder = bind(SocketAddr::from((on, 0)))?;
        let address = address_of(&placeholder)?;
        let listener = listen(address)?;
        let task = tokio::spawn(serve_sorted(Arc::new(sort), target, listener, address));
        Ok(Self {
            address,
            _placeholder: placeholder,
            task,
        })
    }

    /// The address that clients connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// A socket that shares its port with our other ones; 0 takes a free port.
fn bind(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.set_reuse_port(true)?;
    // Connections of an earlier listener on this port may linger in TIME_WAIT.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    // The gateway of a network of containers is ours once the network is there, and its containers get the address before.
    socket.set_freebind_v4(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

fn address_of(socket: &Socket) -> io::Result<SocketAddr> {
    let address = socket.local_addr()?.as_socket();
    address.ok_or_else(|| io::Error::other("a socket without an address"))
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = bind(address)?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

async fn serve_one(link: Link, target: SocketAddr, listener: TcpListener, address: SocketAddr) {
    // Dropped with this task, and with it every connection.
    let mut connections = JoinSet::new();
    let mut conditions = link.watch_conditions();
    let mut listener = Some(listener);
    loop {
        let refuses = conditions.borrow_and_update().opening == Opening::Refuse;
        if refuses {
            listener = None;
            if conditions.changed().await.is_err() {
                return;
            }
            continue;
        }
        let Some(open) = listener.take().or_else(|| listen(address).ok()) else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        accept_until(&open, &mut conditions, |client| {
            connections.spawn(connection::serve(client, target, link.clone()));
            while connections.try_join_next().is_some() {}
        })
        .await;
        listener = Some(open);
    }
}

/// Accepts until the conditions change.
async fn accept_until(
    listener: &TcpListener,
    conditions: &mut watch::Receiver<Conditions>,
    mut serve: impl FnMut(tokio::net::TcpStream),
) {
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((client, _)) => serve(client),
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            },
            _ = conditions.changed() => return,
        }
    }
}

async fn serve_sorted(sort: Sorter, target: SocketAddr, listener: TcpListener, address: SocketAddr) {
    let mut connections = JoinSet::new();
    loop {
        match listener.accept().await {
            Ok((client, from)) => {
                let sort = Arc::clone(&sort);
                connections.spawn(async move {
                    let sorted = tokio::task::spawn_blocking(move || sort(from, address)).await;
                    if let Ok(link) = sorted {
                        connection::serve(client, target, link).await;
                    }
                });
                while connections.try_join_next().is_some() {}
            }
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}
