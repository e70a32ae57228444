//! Two connections that have stopped being HTTP, as one: a client's, and that to the server which answers it.

use std::{pin::pin, time::Duration};

use futures_util::future::{Either, select};
use tokio::{
    io::{AsyncWriteExt, copy, split},
    time::timeout,
};

use crate::{
    client,
    server::{ConnectionEnding, Upgraded},
};

/// The event that ends two connections as one, if neither of them does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SplicedUntil {
    /// The watches of the client's connection end: its client comes again elsewhere.
    WatchesEnd,
    /// The server closes.
    ServerCloses,
}

/// The time that either end may take to hear of the other's.
const CLOSE_PATIENCE: Duration = Duration::from_secs(1);

/// Passes bytes both ways until one end is done or breaks, or until `until`; what the server still has for a client that is done
/// may take a moment. Comes to the bytes that the client got.
///
/// An end that neither side asked for is no proper one: both connections break off, so that neither side takes what it got for all.
pub async fn splice(
    client: Upgraded,
    mut server: client::UpgradedStream,
    ending: ConnectionEnding,
    until: SplicedUntil,
) -> u64 {
    let ended = match until {
        SplicedUntil::WatchesEnd => ending.watches(),
        SplicedUntil::ServerCloses => {
            ending.pass_on();
            ending.closing()
        }
    };
    let Upgraded {
        io: client,
        read_ahead,
        limits,
    } = client;
    let mut client = client.with_write_stall(limits.stream_stall_timeout);
    let exchanged = async {
        server.write_all(&read_ahead).await?;
        server.flush().await?;
        let (mut from_client, mut to_client) = split(&mut client);
        let (mut from_server, mut to_server) = split(&mut server);
        let upward = pin!(async {
            copy(&mut from_client, &mut to_server).await?;
            to_server.shutdown().await
        });
        let downward = pin!(copy(&mut from_server, &mut to_client));
        match select(upward, downward).await {
            Either::Left((_, downward)) => timeout(CLOSE_PATIENCE, downward).await.unwrap_or(Ok(0)),
            Either::Right((bytes, _)) => bytes,
        }
    };
    let bytes = tokio::select! {
        exchanged = exchanged => match exchanged {
            Ok(bytes) => bytes,
            Err(error) => {
                tracing::debug!(%error, "a connection that was passed on broke off");
                0
            }
        },
        () = ended.cancelled() => return 0,
    };
    let goodbye = async { tokio::join!(client.shutdown(), server.shutdown()) };
    // An end that is gone already has no use for it.
    let _ = timeout(CLOSE_PATIENCE, goodbye).await;
    bytes
}
