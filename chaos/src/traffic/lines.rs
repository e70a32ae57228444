//! Lines out of a streamed answer, no faster than a reader wants them.

use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use tokio::time::sleep;
use trireme_http::client::IncomingBody;

/// The next line of a stream, or why there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Next {
    /// A whole line without its end.
    Line(Vec<u8>),
    /// The server has ended the answer properly.
    End,
    /// The connection broke.
    Cut,
}

/// The lines of a body.
pub(crate) struct BodyLines {
    body: IncomingBody,
    buffer: BytesMut,
    bytes_per_second: Option<u64>,
}

impl BodyLines {
    /// A reader that is slow if `bytes_per_second` says so.
    pub(crate) fn new(body: IncomingBody, bytes_per_second: Option<u64>) -> Self {
        Self {
            body,
            buffer: BytesMut::new(),
            bytes_per_second,
        }
    }

    /// The next one. To stop waiting for it loses nothing.
    pub(crate) async fn next(&mut self) -> Next {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line = self.buffer.split_to(end).to_vec();
                self.buffer.advance(1);
                return Next::Line(line);
            }
            match self.body.chunk().await {
                Ok(Some(data)) => {
                    self.buffer.extend_from_slice(&data);
                    rest_after(data.len(), self.bytes_per_second).await;
                }
                Err(_) => return Next::Cut,
                Ok(None) => return Next::End,
            }
        }
    }
}

/// Rests for as long as a reader of that speed takes for these bytes.
async fn rest_after(bytes: usize, bytes_per_second: Option<u64>) {
    let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
    if let Some(rate) = bytes_per_second.filter(|rate| *rate > 0) {
        sleep(Duration::from_millis(bytes.saturating_mul(1000) / rate)).await;
    }
}
