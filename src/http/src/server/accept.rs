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
    handshakes::{Handshakes, PendingHandshake},
    lifecycle::ServerLifecycle,
    worker::{Accepted, Inbox},
};

/// The time to wait after running out of file descriptors or memory.
const BACK_OFF: Duration = Duration::from_millis(50);
/// The time that a client has in any case to go on with its handshake: several round trips to the other side of the world.
const MIN_HANDSHAKE_TIME: Duration = Duration::from_secs(1);
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
    let mut acceptor = Acceptor {
        workers,
        accepted: None,
        handshakes: Handshakes::new(limits.pending_handshakes, MIN_HANDSHAKE_TIME),
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
    /// The connection that waits for its handshake to begin.
    accepted: Option<(TcpStream, SocketAddr)>,
    handshakes: Arc<Handshakes>,
    /// The connections that there may be.
    bound: Option<usize>,
    /// Counts those that there was no room for.
    refused: Counter,
}

impl Acceptor {
    async fn accept_all(&mut self, listener: &tokio::net::TcpListener) {
        loop {
            match listener
                .accept()
                .await
                .and_then(|(socket, peer)| Ok((socket.into_std()?, peer)))
            {
                // What comes meanwhile waits in the kernel's queue, which is bounded.
                Ok(accepted) => {
                    self.accepted = Some(accepted);
                    self.serve_accepted().await;
                }
                Err(error) if concerns_one_connection(&error) => {}
                Err(error) => {
                    tracing::warn!(%error, "cannot accept connections");
                    tokio::time::sleep(BACK_OFF).await;
                }
            }
        }
    }

    /// Accepts what the kernel has queued, and closes.
    async fn accept_queued(&mut self, listener: tokio::net::TcpListener) {
        self.serve_accepted().await;
        // The event loop may not have heard of the newest: the kernel is asked itself.
        let Ok(listener) = listener.into_std() else { return };
        loop {
            let accepted = listener.accept().and_then(|(socket, peer)| {
                socket.set_nonblocking(true)?;
                Ok((socket, peer))
            });
            match accepted {
                Ok(accepted) => {
                    self.accepted = Some(accepted);
                    self.serve_accepted().await;
                }
                Err(error) if concerns_one_connection(&error) => {}
                Err(_) => return,
            }
        }
    }

    /// Serves the connection that was accepted, if there is one, as soon as there is room for its handshake.
    async fn serve_accepted(&mut self) {
        if self.accepted.is_none() {
            return;
        }
        let room = Handshakes::begin(&self.handshakes).await;
        if let (Some((socket, peer)), Some(handshake)) = (self.accepted.take(), room) {
            self.dispatch(socket, peer, handshake);
        }
    }

    fn dispatch(&self, socket: TcpStream, peer: SocketAddr, handshake: PendingHandshake) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::worker;

    #[tokio::test]
    async fn a_connection_that_waits_for_its_handshake_is_served_after_the_stop() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
        listener.set_nonblocking(true).expect("it can be");
        let listener = tokio::net::TcpListener::from_std(listener).expect("it can be used");
        let (inbox, mut connections) = worker::channel();
        let mut acceptor = Acceptor {
            workers: vec![inbox],
            accepted: None,
            handshakes: Handshakes::new(1, Duration::from_secs(3600)),
            bound: None,
            refused: counter!(CONNECTIONS_REFUSED),
        };
        let the_one_room = Handshakes::begin(&acceptor.handshakes).await;
        let address = listener.local_addr().expect("it has one");
        let _client = TcpStream::connect(address).expect("connects");
        while acceptor.accepted.is_none() {
            let _ = tokio::time::timeout(Duration::from_millis(1), acceptor.accept_all(&listener)).await;
        }
        assert!(connections.try_recv().is_err(), "it waits");
        drop(the_one_room);
        acceptor.accept_queued(listener).await;
        assert!(connections.try_recv().is_ok(), "it is served");
    }
}
