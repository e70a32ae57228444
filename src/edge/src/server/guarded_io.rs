//! Bounds on slow clients that hyper does not have.
//!
//! * A request's head must arrive within a time counted from its first byte (HTTP/1.1), however long the connection
//!   may stay idle between requests.
//! * A client that takes nothing of an answer for a while is cut off.

use std::{
    cell::Cell,
    io,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

/// What an HTTP/1.1 connection is doing.
#[derive(Debug, Default)]
pub(super) struct Phase(Cell<Doing>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Doing {
    /// The head of a request is on its way; a new connection begins so.
    #[default]
    ReadingHead,
    /// A request is being answered.
    Serving,
    /// Between requests.
    Idle,
}

impl Phase {
    /// Marks that a request is being answered, until the result is dropped.
    pub(super) fn serving(phase: &Rc<Self>) -> Serving {
        phase.0.set(Doing::Serving);
        Serving(Rc::clone(phase))
    }
}

/// A request is being answered.
pub(super) struct Serving(Rc<Phase>);

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.0.set(Doing::Idle);
    }
}

/// A stream with bounds on how long the peer may keep it waiting.
pub(crate) struct GuardedIo<T> {
    inner: T,
    head: Option<HeadGuard>,
    write_stall: Duration,
    stalled: Option<Pin<Box<Sleep>>>,
}

struct HeadGuard {
    phase: Rc<Phase>,
    timeout: Duration,
    timer: Option<Pin<Box<Sleep>>>,
}

impl<T> GuardedIo<T> {
    pub(super) fn new(inner: T, write_stall: Duration) -> Self {
        Self {
            inner,
            head: None,
            write_stall,
            stalled: None,
        }
    }

    pub(super) fn with_head_timeout(mut self, phase: &Rc<Phase>, timeout: Duration) -> Self {
        self.head = Some(HeadGuard {
            phase: Rc::clone(phase),
            timeout,
            timer: None,
        });
        self
    }

    /// For a connection that no longer speaks HTTP: what arrives is no head of a request.
    pub(super) fn without_head_timeout(mut self) -> Self {
        self.head = None;
        self
    }

    /// Passes on the result of a write, but an error if writes have been waiting for too long.
    fn written<R>(&mut self, cx: &mut Context<'_>, result: Poll<io::Result<R>>) -> Poll<io::Result<R>> {
        if result.is_ready() {
            self.stalled = None;
            return result;
        }
        let timer = self.stalled.get_or_insert_with(|| Box::pin(sleep(self.write_stall)));
        ready!(timer.as_mut().poll(cx));
        Poll::Ready(Err(timed_out("the client does not take its answer")))
    }
}

impl HeadGuard {
    fn read(&mut self, cx: &mut Context<'_>, got_bytes: bool, pending: bool) -> Poll<io::Error> {
        if got_bytes && self.phase.0.get() == Doing::Idle {
            self.phase.0.set(Doing::ReadingHead);
        }
        if self.phase.0.get() != Doing::ReadingHead {
            self.timer = None;
            return Poll::Pending;
        }
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(self.timeout)));
        if !pending {
            return Poll::Pending;
        }
        ready!(timer.as_mut().poll(cx));
        Poll::Ready(timed_out("the head of the request did not arrive in time"))
    }
}

fn timed_out(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, why)
}

impl<T: AsyncRead + Unpin> AsyncRead for GuardedIo<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let result = Pin::new(&mut self.inner).poll_read(cx, buffer);
        if let Some(head) = &mut self.head
            && let Poll::Ready(error) = head.read(cx, buffer.filled().len() > before, result.is_pending())
        {
            return Poll::Ready(Err(error));
        }
        result
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for GuardedIo<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.written(cx, result)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.inner).poll_flush(cx);
        self.written(cx, result)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.inner).poll_shutdown(cx);
        self.written(cx, result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.inner).poll_write_vectored(cx, bytes);
        self.written(cx, result)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}
