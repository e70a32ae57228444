//! Accepts connections and gives each to the worker that has the fewest.
//!
//! One thread accepts for all: with a listener per worker (`SO_REUSEPORT`) the kernel spreads connections by hash, and
//! as a client such as kube-controller-manager has but one connection for everything, a few of them on one core while
//! others idle would be the rule.

use std::{
    io,
    net::{SocketAddr, TcpListener, TcpStream},
    sync::Arc,
    time::Duration,
};

use metrics::{Counter, counter};

use super::{
    CONNECTIONS_REFUSED, ConnectionLimits, SURPLUS_CONNECTIONS,
    handshakes::{Handshake, Handshakes},
    lifecycle::ServerLifecycle,
    worker::{Accepted, Inbox},
};

/// The time to wait after running out of file descriptors or memory.
const BACK_OFF: Duration = Duration::from_millis(50);
/// The time that a handshake has in any case: several round trips to the other side of the world.
const FAIR_TIME: Duration = Duration::from_secs(1);
/// The time that connections which were there when the port was closed may wait for a handshake.
const LAST_PATIENCE: Duration = Duration::from_secs(1);

pub(super) async fn run(
    listener: TcpListener,
    workers: Vec<Inbox>,
    lifecycle: ServerLifecycle,
    limits: ConnectionLimits,
) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "the listener cannot be used"),
    };
    let acceptor = Acceptor {
        workers,
        handshakes: Handshakes::new(limits.pending_handshakes, FAIR_TIME),
        bound: limits.connections,
        refused: counter!(CONNECTIONS_REFUSED, "bound" => "surplus"),
    };
    tokio::select! {
        biased;
        () = lifecycle.closing().cancelled() => {}
        () = acceptor.accept_all(&listener) => {}
    }
    // A listener that closes resets the connections that are not accepted yet, and what their clients have sent by then.
    if tokio::time::timeout(LAST_PATIENCE, acceptor.accept_queued(listener))
        .await
        .is_err()
    {
        tracing::warn!("connections were not accepted any more");
    }
}

struct Acceptor {
    workers: Vec<Inbox>,
    handshakes: Arc<Handshakes>,
    /// The connections that there may be.
    bound: Option<usize>,
    /// Counts those that there was no room for.
    refused: Counter,
}

impl Acceptor {
    async fn accept_all(&self, listener: &tokio::net::TcpListener) {
        loop {
            match listener
                .accept()
                .await
                .and_then(|(socket, peer)| Ok((socket.into_std()?, peer)))
            {
                // What comes meanwhile waits in the kernel's queue, which is bounded.
                Ok((socket, peer)) => match Handshakes::begin(&self.handshakes).await {
                    Some(handshake) => self.dispatch(socket, peer, handshake),
                    None => return,
                },
                Err(error) if concerns_one_connection(&error) => {}
                Err(error) => {
                    tracing::warn!(%error, "cannot accept connections");
                    tokio::time::sleep(BACK_OFF).await;
                }
            }
        }
    }

    /// Accepts what the kernel has queued, and closes.
    async fn accept_queued(&self, listener: tokio::net::TcpListener) {
        // The event loop may not have heard of the newest: the kernel is asked itself.
        let Ok(listener) = listener.into_std() else { return };
        loop {
            let accepted = listener.accept().and_then(|(socket, peer)| {
                socket.set_nonblocking(true)?;
                Ok((socket, peer))
            });
            match accepted {
                Ok((socket, peer)) => match Handshakes::begin(&self.handshakes).await {
                    Some(handshake) => self.dispatch(socket, peer, handshake),
                    None => return,
                },
                Err(error) if concerns_one_connection(&error) => {}
                Err(_) => return,
            }
        }
    }

    fn dispatch(&self, socket: TcpStream, peer: SocketAddr, handshake: Handshake) {
        let open: usize = self.workers.iter().map(Inbox::open).sum();
        let surplus_over = self.bound.filter(|bound| open >= *bound);
        if surplus_over.is_some_and(|bound| open >= with_surplus(bound)) {
            // To answer it would cost a handshake, which is what whoever floods the server wants.
            return self.refused.increment(1);
        }
        if let Some(worker) = self.workers.iter().min_by_key(|worker| worker.open()) {
            worker.send(Accepted {
                socket,
                peer,
                handshake,
                surplus_over,
            });
        }
    }
}

/// The connections that are taken, with those beyond the bound.
fn with_surplus(bound: usize) -> usize {
    bound.saturating_add((bound / 10).max(SURPLUS_CONNECTIONS))
}

fn concerns_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset
    )
}
