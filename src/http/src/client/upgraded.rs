//! A connection after `101 Switching Protocols`: bytes both ways.

use std::{
    fmt, io,
    pin::Pin,
    task::{Context, Poll},
};

use http::{Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{
    body::IncomingBody,
    error::{ClientError, chain},
};

/// The bytes of a connection that speaks another protocol now.
pub struct UpgradedStream(TokioIo<hyper::upgrade::Upgraded>);

impl UpgradedStream {
    /// Takes the connection of an answer that switches protocols.
    ///
    /// # Errors
    /// If the answer does not, or the connection breaks.
    pub async fn of(response: Response<IncomingBody>) -> Result<Self, ClientError> {
        let endpoint = response.body().endpoint().to_owned();
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            let why = format!("it answered {}", response.status());
            return Err(ClientError::NotSwitched { endpoint, why });
        }
        match hyper::upgrade::on(response).await {
            Ok(upgraded) => Ok(Self(TokioIo::new(upgraded))),
            Err(error) => Err(ClientError::NotSwitched {
                endpoint,
                why: chain(&error),
            }),
        }
    }
}

impl fmt::Debug for UpgradedStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Upgraded(..)")
    }
}

impl AsyncRead for UpgradedStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for UpgradedStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
