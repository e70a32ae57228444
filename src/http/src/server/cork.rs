//! Sends together what an HTTP/2 connection has to say at once.
//!
//! The `h2` crate flushes after every DATA frame that carries more than a few bytes, which is a TLS record and a system
//! call for each event of each watch. A connection in [`Turns`] over a [`Corked`] stream flushes once all other tasks of
//! its thread that were ready have had a turn: what its streams had to say by then goes out in full records. Without that
//! wait the connection would mostly run between two of its streams, as tasks that are woken on their own thread run before
//! those that are woken from elsewhere, which events do.

use std::{
    cell::RefCell,
    io,
    pin::{Pin, pin},
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker, ready},
};

use bytes::{Buf, BytesMut};
use futures_util::task::AtomicWaker;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    task::yield_now,
};

use super::drive::Graceful;

/// The most bytes that are held back: four TLS records.
const HELD_BYTES: usize = 64 * 1024;
/// Pieces of this size or more are not copied; they fill a record by themselves.
const LARGE: usize = 8 * 1024;
/// Bytes of the buffer that a quiet connection may keep.
const KEPT_BYTES: usize = 4 * 1024;

/// A stream whose flushes do nothing: [`Turns`] flushes it.
pub(super) struct Corked<T>(Rc<RefCell<Cork<T>>>);

struct Cork<T> {
    io: T,
    held: BytesMut,
    /// Something has been written since the last flush.
    unflushed: bool,
    /// The error of a failed flush. Returned by the next read or write, which is how the connection learns of it.
    failed: Option<io::Error>,
}

/// A connection that flushes its stream when the others have had their turn.
pub(super) struct Turns<'a, C, T> {
    connection: Pin<&'a mut C>,
    stream: Corked<T>,
    flush: Flush,
    others: Arc<Others>,
}

/// The time at which the stream is flushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flush {
    /// As soon as there is something to flush.
    NotYet,
    /// After the others.
    AfterOthers,
    /// Whenever it takes something.
    Now,
}

/// The turn of all other tasks that are ready.
#[derive(Default)]
struct Others {
    done: AtomicBool,
    connection: AtomicWaker,
}

impl<T: AsyncWrite + Unpin> Corked<T> {
    pub(super) fn new(io: T) -> Self {
        Self(Rc::new(RefCell::new(Cork {
            io,
            held: BytesMut::new(),
            unflushed: false,
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
            flush: Flush::NotYet,
            others: Arc::default(),
        }
    }

    /// Reports whether all has been flushed.
    fn flush(&self, cx: &mut Context<'_>) -> bool {
        let mut cork = self.0.borrow_mut();
        let flushed = cork.flush(cx);
        if let Poll::Ready(Err(error)) = flushed {
            cork.failed = Some(error);
            cx.waker().wake_by_ref();
        }
        !cork.unflushed
    }
}

impl Others {
    /// Lets them have their turn, after which `cx` is woken.
    fn have_their_turn(self: &Arc<Self>, cx: &mut Context<'_>) {
        self.done.store(false, Ordering::Relaxed);
        self.connection.register(cx.waker());
        // The first poll has the waker woken after all that is ready; it takes no second one.
        let woken = Waker::from(Arc::clone(self));
        let _ = pin!(yield_now()).poll(&mut Context::from_waker(&woken));
    }
}

impl Wake for Others {
    fn wake(self: Arc<Self>) {
        self.done.store(true, Ordering::Release);
        self.connection.wake();
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
        let flushed = Pin::new(&mut self.io).poll_flush(cx);
        self.unflushed = flushed.is_pending();
        flushed
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
        cork.unflushed = true;
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
        if ended.is_ready() {
            return ended;
        }
        if self.flush == Flush::NotYet && self.stream.0.borrow().unflushed {
            self.others.have_their_turn(cx);
            self.flush = Flush::AfterOthers;
        }
        if self.flush == Flush::AfterOthers && self.others.done.load(Ordering::Acquire) {
            self.flush = Flush::Now;
        }
        if self.flush == Flush::Now && self.stream.flush(cx) {
            self.flush = Flush::NotYet;
        }
        Poll::Pending
    }
}

impl<C: Graceful, T: AsyncWrite + Unpin> Graceful for Turns<'_, C, T> {
    fn finish(mut self: Pin<&mut Self>) {
        self.connection.as_mut().finish();
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, future::poll_fn, task::Waker};

    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
        sync::{Notify, mpsc},
        task::LocalSet,
    };

    use super::*;

    /// The bytes that the peer has received so far.
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

    /// Counts its flushes.
    struct Counted(Rc<Cell<usize>>);

    impl AsyncWrite for Counted {
        fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.0.set(self.0.get() + 1);
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test]
    async fn what_tasks_say_that_were_woken_from_elsewhere_is_flushed_once() {
        let local = LocalSet::new();
        let event = Arc::new(Notify::new());
        let (pieces, mut said) = mpsc::unbounded_channel();
        for number in 0..10_u8 {
            let (event, pieces) = (event.clone(), pieces.clone());
            local.spawn_local(async move {
                event.notified().await;
                pieces.send(number).unwrap();
            });
        }
        let (flushes, written) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
        let mut stream = Corked::new(Counted(flushes.clone()));
        let counted = written.clone();
        local.spawn_local(async move {
            let handle = stream.handle();
            let connection = pin!(async {
                while let Some(piece) = said.recv().await {
                    stream.write_all(&[piece]).await.unwrap();
                    counted.set(counted.get() + 1);
                }
                std::future::pending::<()>().await
            });
            handle.turns(connection).await
        });
        local.run_until(yield_now()).await;
        std::thread::spawn(move || event.notify_waiters()).join().unwrap();
        let flushed = async {
            while flushes.get() == 0 {
                yield_now().await;
            }
        };
        local.run_until(flushed).await;
        assert_eq!((written.get(), flushes.get()), (10, 1));
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
    async fn a_failed_flush_is_reported_by_the_next_read_or_write() {
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
