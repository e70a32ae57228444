//! Two connections that have stopped being HTTP, as one: a client's, and that to the server which answers it.

use std::time::Duration;

use tokio::{
    io::{AsyncWriteExt, copy_bidirectional},
    time::timeout,
};

use crate::{
    client,
    server::{ConnectionEnding, Upgraded},
};

/// The time that either end may take to hear of the other's.
const CLOSE_PATIENCE: Duration = Duration::from_secs(1);

/// Passes bytes both ways until both ends are done, one of them breaks, or the client's connection is to end. Comes to the
/// bytes that the client got.
pub async fn splice(client: Upgraded, mut server: client::UpgradedStream, ending: ConnectionEnding) -> u64 {
    let Upgraded {
        io: mut client,
        read_ahead,
        ..
    } = client;
    let exchanged = async {
        server.write_all(&read_ahead).await?;
        server.flush().await?;
        copy_bidirectional(&mut client, &mut server).await
    };
    let bytes = tokio::select! {
        exchanged = exchanged => match exchanged {
            Ok((_, bytes)) => bytes,
            Err(error) => {
                tracing::debug!(%error, "a connection that was passed on broke off");
                0
            }
        },
        () = ending.watches().cancelled() => 0,
    };
    let goodbye = async { tokio::join!(client.shutdown(), server.shutdown()) };
    // An end that is gone already has no use for it.
    let _ = timeout(CLOSE_PATIENCE, goodbye).await;
    bytes
}
