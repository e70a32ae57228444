//! One message on a connection: a version, a length, and JSON.
//!
//! JSON, because replicas of neighbouring versions must understand each other (unknown fields are skipped, missing ones
//! have defaults) and because a few dozen small messages a second cost nothing in any encoding.

#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use std::io;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// The version of this framing. A peer that speaks another is cut off.
const VERSION: u8 = 1;
/// The largest message. A group's whole state is some kilobytes; a batch of log entries is less.
pub(crate) const MOST_BYTES: usize = 4 << 20;
/// The version and the length.
const HEAD_BYTES: usize = 5;
/// The size of one read from the stream, so that a length alone does not cost memory.
const CHUNK_BYTES: u64 = 64 << 10;

/// Writes one message.
pub(crate) async fn write<T: Serialize>(stream: &mut (impl AsyncWrite + Unpin), message: &T) -> io::Result<()> {
    let mut frame = vec![VERSION, 0, 0, 0, 0];
    serde_json::to_writer(&mut frame, message)?;
    let length = frame.len().saturating_sub(HEAD_BYTES);
    let length = u32::try_from(length).ok().filter(|_| length <= MOST_BYTES);
    let length = length.ok_or_else(|| io::Error::other("message is too long"))?;
    if let Some(place) = frame.get_mut(1..HEAD_BYTES) {
        place.copy_from_slice(&length.to_be_bytes());
    }
    stream.write_all(&frame).await?;
    stream.flush().await
}

/// Reads one message; `None` at the end of the stream.
pub(crate) async fn read<T: DeserializeOwned>(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<T>> {
    let version = match stream.read_u8().await {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        version => version?,
    };
    if version != VERSION {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "not a frame of this version",
        ));
    }
    let length = u64::from(stream.read_u32().await?);
    if !usize::try_from(length).is_ok_and(|length| length <= MOST_BYTES) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "frame is too long"));
    }
    let mut body = Vec::new();
    let mut left = length;
    while left > 0 {
        let taken = stream.take(left.min(CHUNK_BYTES)).read_to_end(&mut body).await?;
        if taken == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        left = left.saturating_sub(u64::try_from(taken).unwrap_or(left));
    }
    Ok(Some(serde_json::from_slice(&body)?))
}
