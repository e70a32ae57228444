//! Checks that hyper does not make: slow clients, and heads with two lengths.
//!
//! * A request's head must arrive within a time counted from its first byte (HTTP/1.1), however long the connection
//!   may stay idle between requests.
//! * The preface of HTTP/2 must arrive within the same time, for which hyper would wait as long as the client likes.
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
    time::{Instant, Sleep, sleep, sleep_until},
};

use super::{ConnectionLimits, lengths::Lengths, stalls::Fetched};

/// The state of an HTTP/1.1 connection.
#[derive(Debug)]
pub(super) struct ConnectionPhase {
    doing: Cell<IoActivity>,
    /// True if there is anything of the head that is being read.
    begun: Cell<bool>,
    /// The time at which the last request was answered, or the connection began.
    since: Cell<Instant>,
    two_lengths: Cell<bool>,
    /// A whole head has been looked at, and its request has not been taken yet.
    looked_at: Cell<bool>,
    /// The last answer is one that its client may leave for long.
    is_streamed: Cell<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IoActivity {
    /// The head of a request is on its way; a new connection begins so.
    ReadingHead,
    /// A request is being answered.
    Serving,
    /// Between requests.
    Idle,
}

impl Default for ConnectionPhase {
    fn default() -> Self {
        Self {
            doing: Cell::new(IoActivity::ReadingHead),
            begun: Cell::default(),
            since: Cell::new(Instant::now()),
            two_lengths: Cell::default(),
            looked_at: Cell::default(),
            is_streamed: Cell::default(),
        }
    }
}

impl ConnectionPhase {
    /// Marks that a request is being answered, until the result is dropped.
    pub(super) fn serving(phase: &Rc<Self>) -> Serving {
        phase.doing.set(IoActivity::Serving);
        phase.is_streamed.set(false);
        Serving(Rc::clone(phase))
    }

    /// Waits until no request has been answered, nor one begun, for `patience`.
    pub(super) async fn quiet(&self, patience: Duration) {
        loop {
            let is_quiet = self.doing.get() != IoActivity::Serving && !self.begun.get();
            let since = if is_quiet { self.since.get() } else { Instant::now() };
            if is_quiet && since.elapsed() >= patience {
                return;
            }
            sleep_until(since + patience).await;
        }
    }

    /// Reports whether the head of the request that is taken now has been looked at.
    pub(super) fn take_looked_at(&self) -> bool {
        self.looked_at.take()
    }

    /// Reports whether the head that has just been read has both `Content-Length` and `Transfer-Encoding`.
    pub(super) fn has_two_lengths(&self) -> bool {
        self.two_lengths.get()
    }
}

/// A request is being answered.
pub(super) struct Serving(Rc<ConnectionPhase>);

/// Over HTTP/1.1 a client that does not take its answer is noticed by the connection.
impl Fetched for Serving {
    fn begins_stream(&self) {
        self.0.is_streamed.set(true);
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.doing.set(IoActivity::Idle);
        self.0.begun.set(false);
        self.0.since.set(Instant::now());
    }
}

/// The answer to half a head: nothing is known of the request but that it has begun.
const TOO_LATE: &[u8] = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

/// `PRI * HTTP/2.0` with its empty lines and `SM` (RFC 9113, section 3.4).
const PREFACE_BYTES: usize = 24;

/// Bytes still taken of a client after the connection is closed for writing, and for how long. Closing on a client that
/// sends would throw away the answer that is on its way to it, and a client that has just sent a request over a
/// connection that was idle would see a reset where it should see the end.
const LINGER_BYTES: usize = 4 * 1024 * 1024;
const LINGER: Duration = Duration::from_secs(2);

/// A stream with bounds on how long the peer may keep it waiting.
pub(crate) struct GuardedIo<T> {
    inner: T,
    closing: Option<Closing>,
    head: Option<HeadGuard>,
    preface: Option<PrefaceGuard>,
    write_stall: Duration,
    stalled: Option<Pin<Box<Sleep>>>,
}

/// A connection that has been closed for writing.
struct Closing {
    timer: Pin<Box<Sleep>>,
    bytes: usize,
}

struct HeadGuard {
    phase: Rc<ConnectionPhase>,
    lengths: Lengths,
    timeout: Duration,
    timer: Option<Pin<Box<Sleep>>>,
    /// The time that a client may take nothing of a streamed answer.
    stream_stall: Duration,
}

/// The preface of an HTTP/2 connection that is yet to come.
struct PrefaceGuard {
    missing: usize,
    timer: Pin<Box<Sleep>>,
}

impl<T> GuardedIo<T> {
    pub(super) fn new(inner: T, write_stall: Duration) -> Self {
        Self {
            inner,
            closing: None,
            head: None,
            preface: None,
            write_stall,
            stalled: None,
        }
    }

    /// For a connection of HTTP/1.1, over which one answer goes at a time.
    pub(super) fn with_phase(mut self, phase: &Rc<ConnectionPhase>, limits: &ConnectionLimits) -> Self {
        self.head = Some(HeadGuard {
            phase: Rc::clone(phase),
            lengths: Lengths::default(),
            timeout: limits.header_timeout,
            timer: None,
            stream_stall: limits.stream_stall_timeout,
        });
        self
    }

    /// For a connection whose peer may take nothing for so long.
    pub(crate) fn with_write_stall(mut self, write_stall: Duration) -> Self {
        self.write_stall = write_stall;
        self
    }

    /// For a connection of HTTP/2, whose client begins with a preface.
    pub(super) fn with_preface_timeout(mut self, timeout: Duration) -> Self {
        self.preface = Some(PrefaceGuard {
            missing: PREFACE_BYTES,
            timer: Box::pin(sleep(timeout)),
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
        let of_stream = self.head.as_ref().filter(|head| head.phase.is_streamed.get());
        let patience = of_stream.map_or(self.write_stall, |head| head.stream_stall);
        let timer = self.stalled.get_or_insert_with(|| Box::pin(sleep(patience)));
        ready!(timer.as_mut().poll(cx));
        Poll::Ready(Err(timed_out("the client does not take its answer")))
    }
}

impl<T: AsyncRead + Unpin> GuardedIo<T> {
    /// Reads to the end, within bounds.
    fn linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let closing = self.closing.get_or_insert_with(|| Closing {
            timer: Box::pin(sleep(LINGER)),
            bytes: 0,
        });
        let mut scratch = [0; 8 * 1024];
        while closing.bytes < LINGER_BYTES && closing.timer.as_mut().poll(cx).is_pending() {
            let mut buffer = ReadBuf::new(&mut scratch);
            let read = ready!(Pin::new(&mut self.inner).poll_read(cx, &mut buffer));
            if read.is_err() || buffer.filled().is_empty() {
                break;
            }
            closing.bytes += buffer.filled().len();
        }
        Poll::Ready(())
    }
}

impl HeadGuard {
    fn read(&mut self, cx: &mut Context<'_>, bytes: &[u8], pending: bool) -> Poll<io::Error> {
        let phase = &self.phase;
        if !bytes.is_empty() && phase.doing.get() == IoActivity::Idle {
            phase.doing.set(IoActivity::ReadingHead);
            self.lengths = Lengths::default();
        }
        if phase.doing.get() != IoActivity::ReadingHead {
            self.timer = None;
            return Poll::Pending;
        }
        phase.two_lengths.set(self.lengths.see(bytes));
        phase.looked_at.set(self.lengths.is_complete());
        phase.begun.set(phase.begun.get() || !bytes.is_empty());
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(self.timeout)));
        if !pending {
            return Poll::Pending;
        }
        ready!(timer.as_mut().poll(cx));
        Poll::Ready(timed_out("the head of the request did not arrive in time"))
    }
}

impl PrefaceGuard {
    /// Counts the bytes that a read has brought. Comes to an error if they do not come.
    fn read(&mut self, cx: &mut Context<'_>, bytes: usize, pending: bool) -> Poll<io::Error> {
        self.missing = self.missing.saturating_sub(bytes);
        if self.missing == 0 || !pending {
            return Poll::Pending;
        }
        ready!(self.timer.as_mut().poll(cx));
        Poll::Ready(timed_out("the preface of HTTP/2 did not arrive in time"))
    }
}

fn timed_out(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, why)
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncRead for GuardedIo<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let result = Pin::new(&mut self.inner).poll_read(cx, buffer);
        if let Some(preface) = &mut self.preface {
            let bytes = buffer.filled().len().saturating_sub(before);
            if let Poll::Ready(error) = preface.read(cx, bytes, result.is_pending()) {
                return Poll::Ready(Err(error));
            }
            self.preface.take_if(|preface| preface.missing == 0);
        }
        if let Some(head) = &mut self.head
            && let Poll::Ready(error) = head.read(
                cx,
                buffer.filled().get(before..).unwrap_or_default(),
                result.is_pending(),
            )
        {
            if head.phase.begun.get() {
                // One attempt: a client that does not even read has no claim to an answer.
                let _ = Pin::new(&mut self.inner).poll_write(cx, TOO_LATE);
                let _ = Pin::new(&mut self.inner).poll_flush(cx);
            }
            return Poll::Ready(Err(error));
        }
        result
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncWrite for GuardedIo<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.written(cx, result)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.inner).poll_flush(cx);
        self.written(cx, result)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.closing.is_none() {
            let result = Pin::new(&mut self.inner).poll_shutdown(cx);
            ready!(self.written(cx, result))?;
        }
        ready!(self.linger(cx));
        Poll::Ready(Ok(()))
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
