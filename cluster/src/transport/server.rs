//! The peer port: accepts, makes sure of who it is, answers frame by frame.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use trireme_actors::{Clock, Tasks};

use super::frame;
use super::wire::{BoxStream, Listener};

/// Connections of members at a time: a group of five needs 4 × 16 at most. Further ones are closed.
const MOST_CONNECTIONS: usize = 128;
/// Connections that have not proved to be members yet. Further ones wait in the kernel's queue. Apart from the members'
/// places, so that strangers cannot take those.
const MOST_HANDSHAKES: usize = 64;
/// The time limit of the other end's authentication.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(2);
/// The time for which a connection may be silent. Callers dial again when they find theirs closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// The time limit for an answer to be taken.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);
/// The pause after an error of `accept`, such as no free file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Answers calls.
pub(crate) trait Service: Clone + Send + Sync + 'static {
    type Request: DeserializeOwned + Send;
    type Answer: Serialize + Send + Sync;

    fn answer(&self, request: Self::Request) -> impl Future<Output = Self::Answer> + Send;
}

/// Serves `listener` until the task registry shuts down.
pub(crate) async fn serve(mut listener: Box<dyn Listener>, service: impl Service, tasks: Tasks, clock: Clock) {
    let handshakes = Arc::new(Semaphore::new(MOST_HANDSHAKES));
    let members = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    loop {
        let Ok(handshake) = Arc::clone(&handshakes).acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok(connecting) => {
                let connection = PeerConnection {
                    service: service.clone(),
                    clock: clock.clone(),
                    members: Arc::clone(&members),
                };
                let _ = tasks.spawn_named("peer-connection", async move {
                    if let Err(error) = connection.run(connecting, handshake).await {
                        tracing::debug!(%error, "a peer connection ended");
                    }
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept peer connections");
                clock.sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

struct PeerConnection<S> {
    service: S,
    clock: Clock,
    members: Arc<Semaphore>,
}

impl<S: Service> PeerConnection<S> {
    async fn run(
        self,
        connecting: BoxFuture<'static, io::Result<BoxStream>>,
        handshake: OwnedSemaphorePermit,
    ) -> io::Result<()> {
        let mut stream = self.within(HANDSHAKE_TIMEOUT, connecting).await?;
        drop(handshake);
        let full = |_| io::Error::other("too many connections of members");
        let _place = Arc::clone(&self.members).try_acquire_owned().map_err(full)?;
        while let Some(request) = self.within(IDLE_TIMEOUT, frame::read(&mut stream)).await? {
            let answer = self.service.answer(request).await;
            self.within(WRITE_TIMEOUT, frame::write(&mut stream, &answer)).await?;
        }
        Ok(())
    }

    async fn within<T>(&self, limit: Duration, work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
        let until = self.clock.now() + limit;
        let done = self.clock.timeout_at(until, work).await;
        done.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into()))
    }
}
