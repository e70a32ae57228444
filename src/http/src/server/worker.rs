//! A worker: one event loop that serves its share of the connections with its own handler.

use std::{
    net::{SocketAddr, TcpStream},
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use metrics::Counter;
use tokio::{sync::mpsc, task::JoinSet};

use super::{
    ServerConfig,
    connection::{self, ServingSettings},
    handler::Handler,
    handshakes::PendingHandshake,
    lifecycle::ServerLifecycle,
    open_connections::OpenConnections,
};

/// A connection on its way to a worker. Handshakes are bounded, so this queue is, too.
pub(super) struct Accepted {
    pub(super) socket: TcpStream,
    pub(super) peer: SocketAddr,
    pub(super) handshake: PendingHandshake,
    /// The bound that it is beyond.
    pub(super) surplus_over: Option<usize>,
}

/// A worker as the acceptor sees it.
pub(super) struct Inbox {
    sender: mpsc::UnboundedSender<(Accepted, CountedConnection)>,
    open: Arc<AtomicUsize>,
}

/// Counts a connection as open until it is dropped.
pub(super) struct CountedConnection(Arc<AtomicUsize>);

impl Drop for CountedConnection {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Inbox {
    /// The number of connections that the worker has.
    pub(super) fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Hands a connection over. A worker that has ended drops it.
    pub(super) fn send(&self, accepted: Accepted) {
        self.open.fetch_add(1, Ordering::Relaxed);
        let _ = self.sender.send((accepted, CountedConnection(Arc::clone(&self.open))));
    }
}

/// State that all workers share.
pub(super) struct WorkersShared {
    pub(super) lifecycle: ServerLifecycle,
    pub(super) open: Arc<OpenConnections>,
    /// Of TLS handshakes that failed or took too long.
    pub(super) handshake_errors: Counter,
}

pub(super) type Connections = mpsc::UnboundedReceiver<(Accepted, CountedConnection)>;

pub(super) fn channel() -> (Inbox, Connections) {
    let (sender, connections) = mpsc::unbounded_channel();
    let open = Arc::default();
    (Inbox { sender, open }, connections)
}

/// The worker's whole life, to be run on a `LocalSet`.
pub(super) fn run<F, Fut>(
    config: ServerConfig,
    shared: WorkersShared,
    mut inbox: Connections,
    build_handler: F,
) -> impl FnOnce() -> futures_util::future::LocalBoxFuture<'static, ()> + Send + 'static
where
    F: Fn() -> Fut + Send + 'static,
    Fut: Future + 'static,
    Fut::Output: Handler,
{
    move || {
        Box::pin(async move {
            let handler = Rc::new(build_handler().await);
            let settings = Rc::new(ServingSettings {
                tls: config.tls,
                limits: config.limits,
                lifecycle: shared.lifecycle.clone(),
                turns: Rc::default(),
                handshake_errors: shared.handshake_errors.clone(),
            });
            let turns = Rc::clone(&settings.turns);
            tokio::task::spawn_local(async move { turns.give().await });
            let mut connections = JoinSet::new();
            let mut accepting = true;
            // The acceptor goes when the server stops; connections accepted by then are served.
            while accepting || !connections.is_empty() {
                tokio::select! {
                    biased;
                    Some(_) = connections.join_next() => {}
                    arrived = inbox.recv(), if accepting => match arrived {
                        None => accepting = false,
                        Some((accepted, open)) => {
                            let ending = shared.lifecycle.ending();
                            let entry = OpenConnections::enter(&shared.open, ending.clone());
                            let served = connection::serve(accepted, ending, Rc::clone(&settings), Rc::clone(&handler));
                            connections.spawn_local(async move {
                                served.await;
                                drop((entry, open));
                            });
                        }
                    },
                }
            }
        })
    }
}
