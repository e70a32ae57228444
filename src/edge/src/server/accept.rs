//! Accepts connections and gives each to the worker that has the fewest.
//!
//! One thread accepts for all: with a listener per worker (`SO_REUSEPORT`) the kernel spreads connections by hash, and
//! as a client such as kube-controller-manager has but one connection for everything, a few of them on one core while
//! others idle would be the rule.

use std::{io, net::TcpListener, sync::Arc, time::Duration};

use tokio::sync::Semaphore;

use super::{
    lifecycle::Lifecycle,
    worker::{Accepted, Inbox},
};

/// How long to wait after running out of file descriptors or memory.
const BACK_OFF: Duration = Duration::from_millis(50);

pub(super) async fn run(listener: TcpListener, workers: Vec<Inbox>, lifecycle: Lifecycle, pending_handshakes: usize) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "the listener cannot be used"),
    };
    let handshakes = Arc::new(Semaphore::new(pending_handshakes));
    let accept_all = async {
        loop {
            // No permit: connections wait in the kernel's queue, which is bounded.
            let Ok(permit) = Arc::clone(&handshakes).acquire_owned().await else {
                return;
            };
            match listener
                .accept()
                .await
                .and_then(|(socket, peer)| Ok((socket.into_std()?, peer)))
            {
                Ok((socket, peer)) => dispatch(&workers, Accepted { socket, peer, permit }),
                Err(error) if concerns_one_connection(&error) => {}
                Err(error) => {
                    tracing::warn!(%error, "cannot accept connections");
                    tokio::time::sleep(BACK_OFF).await;
                }
            }
        }
    };
    tokio::select! {
        biased;
        () = lifecycle.stopping().cancelled() => {}
        () = accept_all => {}
    }
}

fn dispatch(workers: &[Inbox], accepted: Accepted) {
    if let Some(worker) = workers.iter().min_by_key(|worker| worker.open()) {
        worker.send(accepted);
    }
}

fn concerns_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset
    )
}
