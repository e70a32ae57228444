//! Sends together what an HTTP/2 connection has to say at once.
//!
//! The `h2` crate flushes after every DATA frame that carries more than a few bytes, which is a TLS record and a system
//! call for each event of each watch. A connection in [`Turns`] over a [`Corked`] stream flushes once, at the end of
//! each turn that the connection's task has: what its streams had ready by then goes out in full records.

use std::{
    cell::RefCell,
    io,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, ready},
};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::drive::Graceful;

/// What is held back at most: four TLS records.
const HELD_BYTES: usize = 64 * 1024;
/// What is written in a piece of this size or more is not copied; it fills a record by itself.
const LARGE: usize = 8 * 1024;
/// What a quiet connection may keep of the buffer.
const KEPT_BYTES: usize = 4 * 1024;

/// A stream whose flushes do nothing: [`Turns`] flushes it.
pub(super) struct Corked<T>(Rc<RefCell<Cork<T>>>);

struct Cork<T> {
    io: T,
    held: BytesMut,
    /// Why a flush failed. Told by the next read or write, which is how the connection learns of it.
    failed: Option<io::Error>,
}

/// A connection that flushes its stream after each turn.
pub(super) struct Turns<'a, C, T> {
    connection: Pin<&'a mut C>,
    stream: Corked<T>,
}

impl<T: AsyncWrite + Unpin> Corked<T> {
    pub(super) fn new(io: T) -> Self {
        Self(Rc::new(RefCell::new(Cork {
            io,
            held: BytesMut::new(),
            failed: None,
        })))
    }

    /// The other end of what the connection was given.
    pub(super) fn handle(&self) -> Self {
        Self(Rc::clone(&self.0))
    }

    /// Drives a connection that was made over this stream.
    pub(super) fn turns<C>(self, connection: Pin<&mut C>) -> Turns<'_, C, T> {
        Turns {
            connection,
            stream: self,
        }
    }

    fn flush(&self, cx: &mut Context<'_>) {
        let mut cork = self.0.borrow_mut();
        if let Poll::Ready(Err(error)) = cork.flush(cx) {
            cork.failed = Some(error);
            cx.waker().wake_by_ref();
        }
    }
}

impl<T: AsyncWrite + Unpin> Cork<T> {
    /// Writes what is held.
    fn release(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.held.is_empty() {
            let written = ready!(Pin::new(&mut self.io).poll_write(cx, &self.held))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.held.advance(written);
        }
        if self.held.capacity() > KEPT_BYTES {
            self.held = BytesMut::new();
        }
        Poll::Ready(Ok(()))
    }

    fn flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.release(cx))?;
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn failure(&mut self) -> io::Result<()> {
        self.failed.take().map_or(Ok(()), Err)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Corked<T> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[io::IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut cork = self.0.borrow_mut();
        cork.failure()?;
        let bytes: usize = slices.iter().map(|slice| slice.len()).sum();
        if bytes >= LARGE || cork.held.len() + bytes > HELD_BYTES {
            ready!(cork.release(cx))?;
        }
        if bytes >= LARGE {
            return Pin::new(&mut cork.io).poll_write_vectored(cx, slices);
        }
        for slice in slices {
            cork.held.extend_from_slice(slice);
        }
        Poll::Ready(Ok(bytes))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Waits for the end of the turn.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.0.borrow_mut().failure())
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut cork = self.0.borrow_mut();
        cork.failure()?;
        ready!(cork.release(cx))?;
        Pin::new(&mut cork.io).poll_shutdown(cx)
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncRead for Corked<T> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut cork = self.0.borrow_mut();
        cork.failure()?;
        Pin::new(&mut cork.io).poll_read(cx, buffer)
    }
}

impl<C: Future, T: AsyncWrite + Unpin> Future for Turns<'_, C, T> {
    type Output = C::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<C::Output> {
        let ended = self.connection.as_mut().poll(cx);
        if ended.is_pending() {
            self.stream.flush(cx);
        }
        ended
    }
}

impl<C: Graceful, T: AsyncWrite + Unpin> Graceful for Turns<'_, C, T> {
    fn finish(mut self: Pin<&mut Self>) {
        self.connection.as_mut().finish();
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, task::Waker};

    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    use super::*;

    /// What the peer has received so far.
    fn received(peer: &mut DuplexStream) -> Vec<u8> {
        let mut bytes = [0; 256 * 1024];
        let mut buffer = ReadBuf::new(&mut bytes);
        let _ = Pin::new(peer).poll_read(&mut Context::from_waker(Waker::noop()), &mut buffer);
        buffer.filled().to_vec()
    }

    fn end_turn(stream: &Corked<DuplexStream>) {
        stream.flush(&mut Context::from_waker(Waker::noop()));
    }

    #[tokio::test]
    async fn what_is_written_in_a_turn_goes_out_at_its_end_in_order() {
        let (near, mut far) = duplex(1024 * 1024);
        let mut stream = Corked::new(near);
        for word in ["one ", "two ", "three"] {
            stream.write_all(word.as_bytes()).await.unwrap();
            AsyncWriteExt::flush(&mut stream).await.unwrap();
        }
        assert_eq!(received(&mut far), b"");
        end_turn(&stream);
        assert_eq!(received(&mut far), b"one two three");
    }

    #[tokio::test]
    async fn a_large_piece_follows_what_was_held_before_it() {
        let (near, mut far) = duplex(1024 * 1024);
        let mut stream = Corked::new(near);
        stream.write_all(b"head").await.unwrap();
        stream.write_all(&[7; LARGE]).await.unwrap();
        let seen = received(&mut far);
        assert_eq!((&seen[..4], seen.len()), (&b"head"[..], 4 + LARGE));
    }

    #[tokio::test]
    async fn a_peer_that_takes_nothing_holds_the_writer_up() {
        let (near, mut far) = duplex(10);
        let mut stream = Corked::new(near);
        let mut taken = 0;
        while let Poll::Ready(written) =
            Pin::new(&mut stream).poll_write(&mut Context::from_waker(Waker::noop()), &[1; 1000])
        {
            taken += written.unwrap();
            assert!(taken <= HELD_BYTES, "held {taken} bytes");
        }
        let mut rest = vec![0; taken];
        let (read, ()) = tokio::join!(far.read_exact(&mut rest), async {
            poll_fn(|cx| stream.0.borrow_mut().flush(cx)).await.unwrap();
        });
        read.unwrap();
        assert!(rest.iter().all(|byte| *byte == 1));
    }

    #[tokio::test]
    async fn a_failed_flush_is_told_by_what_comes_next() {
        let (near, far) = duplex(1024);
        let mut stream = Corked::new(near);
        stream.write_all(b"lost").await.unwrap();
        drop(far);
        end_turn(&stream);
        let error = stream.write_all(b"more").await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }

    #[tokio::test]
    async fn closing_writes_what_is_held() {
        let (near, mut far) = duplex(1024);
        let mut stream = Corked::new(near);
        stream.write_all(b"bye").await.unwrap();
        stream.shutdown().await.unwrap();
        let mut said = Vec::new();
        far.read_to_end(&mut said).await.unwrap();
        assert_eq!(said, b"bye");
    }
}
