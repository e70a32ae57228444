//! Messages from the server over a connection that has become a WebSocket.

use std::{fmt::Display, pin::pin, time::Duration};

use bytes::Bytes;
use futures_util::{SinkExt, Stream, StreamExt, TryStreamExt};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    time::{Instant, sleep, timeout},
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Error, Message,
        protocol::{
            CloseFrame, Role, WebSocketConfig,
            frame::{Utf8Bytes, coding::CloseCode},
        },
    },
};
use tokio_util::sync::CancellationToken;

use crate::server::{ConnectionLimits, Upgraded};

/// Clients have nothing to say but control frames; what else they send is read and dropped, up to this at a time.
const LARGEST_MESSAGE_BYTES: usize = 64 * 1024;
const READ_BUFFER_BYTES: usize = 4 * 1024;
/// The time that a client may take to answer a close frame; there is nothing left to lose then.
const CLOSE_PATIENCE: Duration = Duration::from_secs(1);

/// The kind of the messages that are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageFormat {
    /// Text, which must be UTF-8.
    Text,
    /// Any bytes.
    Binary,
}

/// The event that ends messages if neither the client nor an error does.
#[derive(Debug, Clone)]
pub enum MessagesUntil {
    /// Their source ends, early upon this signal of the connection's watches: the client is told so, and comes again elsewhere.
    WatchesEnd(CancellationToken),
    /// Their source ends. A client may leave them for as long as a [`StreamedAnswer`](crate::server::StreamedAnswer).
    SourceEnds,
}

impl MessagesUntil {
    /// The time that a client may take none of the messages, and give no answer to a ping.
    fn patience(&self, limits: &ConnectionLimits) -> Duration {
        match self {
            Self::WatchesEnd(_) => limits.write_stall_timeout,
            Self::SourceEnds => limits.stream_stall_timeout,
        }
    }

    /// The reason that the client gets for the end of the source.
    fn close_code(&self) -> CloseCode {
        match self {
            Self::WatchesEnd(ended) if ended.is_cancelled() => CloseCode::Away,
            Self::WatchesEnd(_) | Self::SourceEnds => CloseCode::Normal,
        }
    }
}

/// Sends each part of the batches as a message, each batch in one go, until there are no more, their source fails or the client
/// goes. Comes to the bytes of the messages.
pub async fn serve<E: Display>(
    upgraded: Upgraded,
    format: MessageFormat,
    batches: impl Stream<Item = Result<Vec<Bytes>, E>>,
    until: MessagesUntil,
) -> u64 {
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER_BYTES)
        .max_message_size(Some(LARGEST_MESSAGE_BYTES))
        .max_frame_size(Some(LARGEST_MESSAGE_BYTES));
    let patience = until.patience(&upgraded.limits);
    let heartbeat = (upgraded.limits.ping_interval, patience);
    let read_ahead = upgraded.read_ahead.to_vec();
    let io = upgraded.io.with_write_stall(patience);
    let mut socket = WebSocketStream::from_partially_read(io, read_ahead, Role::Server, Some(config)).await;
    let mut bytes = 0;
    let batches = batches.map_ok(|batch| batch.into_iter().map(|part| message(format, part)).collect());
    match exchange(&mut socket, batches, heartbeat, &mut bytes).await {
        Ok(SocketEnd::Finished) => say_goodbye(&mut socket, until.close_code()).await,
        Ok(SocketEnd::Failed) => say_goodbye(&mut socket, CloseCode::Error).await,
        Ok(SocketEnd::Closed) => drop(timeout(CLOSE_PATIENCE, socket.get_mut().shutdown()).await),
        Ok(SocketEnd::Silent) => tracing::debug!("a WebSocket is cut off whose client does not answer"),
        Err(Error::Capacity(_)) => say_goodbye(&mut socket, CloseCode::Size).await,
        Err(Error::Protocol(_)) => say_goodbye(&mut socket, CloseCode::Protocol).await,
        Err(Error::Utf8(_)) => say_goodbye(&mut socket, CloseCode::Invalid).await,
        Err(error) => tracing::debug!(%error, "a WebSocket broke off"),
    }
    bytes
}

/// The end of a WebSocket that does not break.
enum SocketEnd {
    /// There are no more batches.
    Finished,
    /// There would have been more batches: their source broke off.
    Failed,
    /// The client has closed it, and its close frame is answered.
    Closed,
    /// The client does not answer pings.
    Silent,
}

fn message(format: MessageFormat, part: Bytes) -> Result<Message, Error> {
    match format {
        MessageFormat::Text => Utf8Bytes::try_from(part)
            .map(Message::Text)
            .map_err(|error| Error::Utf8(error.to_string())),
        MessageFormat::Binary => Ok(Message::Binary(part)),
    }
}

async fn exchange<T: AsyncRead + AsyncWrite + Unpin, E: Display>(
    socket: &mut WebSocketStream<T>,
    batches: impl Stream<Item = Result<Vec<Result<Message, Error>>, E>>,
    (ping_interval, patience): (Duration, Duration),
    bytes: &mut u64,
) -> Result<SocketEnd, Error> {
    let mut batches = pin!(batches);
    let mut timer = pin!(sleep(ping_interval));
    let mut pinged = false;
    loop {
        tokio::select! {
            // An answer that came while a batch was on its way counts before the timer.
            biased;
            received = socket.next() => {
                // Pings and the close frame are answered within `next`.
                if received.transpose()?.is_none() {
                    return Ok(SocketEnd::Closed);
                }
                pinged = false;
                timer.as_mut().reset(Instant::now() + ping_interval);
            }
            () = timer.as_mut() => {
                if std::mem::replace(&mut pinged, true) {
                    return Ok(SocketEnd::Silent);
                }
                socket.send(Message::Ping(Bytes::new())).await?;
                timer.as_mut().reset(Instant::now() + patience);
            }
            batch = batches.next() => {
                let messages = match batch {
                    Some(Ok(messages)) => messages,
                    Some(Err(error)) => {
                        tracing::debug!(%error, "the source of a WebSocket's messages broke off");
                        return Ok(SocketEnd::Failed);
                    }
                    None => return Ok(SocketEnd::Finished),
                };
                send(socket, messages, bytes).await?;
            }
        }
    }
}

async fn send<T: AsyncRead + AsyncWrite + Unpin>(
    socket: &mut WebSocketStream<T>,
    messages: Vec<Result<Message, Error>>,
    bytes: &mut u64,
) -> Result<(), Error> {
    for message in messages {
        let message = message?;
        *bytes += u64::try_from(message.len()).unwrap_or(0);
        socket.feed(message).await?;
    }
    socket.flush().await
}

/// Sends a close frame, waits for the client's and ends the connection.
async fn say_goodbye<T: AsyncRead + AsyncWrite + Unpin>(socket: &mut WebSocketStream<T>, code: CloseCode) {
    let reason = Utf8Bytes::default();
    let goodbye = async {
        socket.close(Some(CloseFrame { code, reason })).await?;
        while let Some(Ok(_)) = socket.next().await {}
        let io = socket.get_mut();
        io.shutdown().await?;
        // A connection that is dropped while its client still sends is reset, and the close frame lost with it.
        let mut unread = [0; READ_BUFFER_BYTES];
        while io.read(&mut unread).await? > 0 {}
        Ok::<_, Error>(())
    };
    // A client that is gone already has no use for it.
    let _ = timeout(CLOSE_PATIENCE, goodbye).await;
}
