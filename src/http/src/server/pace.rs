//! The turns of a worker's connections at writing.
//!
//! A socket whose client reads as fast as it is written to never makes its connection wait, so a long answer would have the
//! thread for as long as tokio lets a task run: two megabytes, which is milliseconds, and each other connection with such an
//! answer as long before a request is read that has come meanwhile. Hence a connection that has written [`TURN_BYTES`] in one
//! go waits for its next turn; one that writes little never does. One connection has its turn at a time, and between two turns
//! all sockets are looked at and all tasks run that are ready.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    io,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, Waker},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::Notify,
    task::yield_now,
};

/// The bytes that a connection may write before others have their turn: a fraction of a millisecond's work. A turn costs
/// some microseconds.
const TURN_BYTES: usize = 128 * 1024;

/// The connections of a worker that wait for their turn, first come, first served.
#[derive(Default)]
pub(super) struct WriteTurns {
    waiting: RefCell<VecDeque<Rc<WriteShare>>>,
    arrived: Notify,
    /// Grows with each turn, after a look at the sockets.
    round: Cell<u64>,
}

/// The share of one connection.
struct WriteShare {
    /// The round in which `left` was full.
    round: Cell<u64>,
    left: Cell<usize>,
    waits: Cell<bool>,
    waker: Cell<Option<Waker>>,
}

/// A stream that is written to in turns.
pub(crate) struct PacedIo<T> {
    inner: T,
    share: Rc<WriteShare>,
    turns: Rc<WriteTurns>,
}

impl WriteTurns {
    /// The stream of a new connection.
    pub(super) fn pace<T>(turns: &Rc<Self>, inner: T) -> PacedIo<T> {
        PacedIo {
            inner,
            share: Rc::new(WriteShare {
                round: Cell::new(turns.round.get()),
                left: Cell::new(TURN_BYTES),
                waits: Cell::default(),
                waker: Cell::default(),
            }),
            turns: Rc::clone(turns),
        }
    }

    /// Gives turns for as long as the worker runs.
    pub(super) async fn give(&self) {
        loop {
            self.arrived.notified().await;
            loop {
                // Comes back after all that is ready, and after a look at the sockets.
                yield_now().await;
                self.round.set(self.round.get() + 1);
                let Some(next) = self.next() else { break };
                next.begin_turn(self.round.get());
            }
        }
    }

    fn next(&self) -> Option<Rc<WriteShare>> {
        self.waiting.borrow_mut().pop_front()
    }
}

impl WriteShare {
    fn begin_turn(&self, round: u64) {
        self.waits.set(false);
        self.round.set(round);
        self.left.set(TURN_BYTES);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl<T> PacedIo<T> {
    /// Reports whether the connection may write now; if not, it is woken when it may.
    fn may_write(&self, cx: &Context<'_>) -> bool {
        let (share, turns) = (&self.share, &self.turns);
        if !share.waits.get() {
            let round = turns.round.get();
            if share.round.replace(round) != round {
                share.left.set(TURN_BYTES);
            }
            if share.left.get() > 0 {
                return true;
            }
            share.waits.set(true);
            turns.waiting.borrow_mut().push_back(Rc::clone(share));
            turns.arrived.notify_one();
        }
        share.waker.set(Some(cx.waker().clone()));
        false
    }

    fn note(&self, written: &Poll<io::Result<usize>>) {
        if let Poll::Ready(Ok(bytes)) = written {
            let left = &self.share.left;
            left.set(left.get().saturating_sub(*bytes));
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for PacedIo<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buffer)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for PacedIo<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if !self.may_write(cx) {
            return Poll::Pending;
        }
        let written = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.note(&written);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if !self.may_write(cx) {
            return Poll::Pending;
        }
        let written = Pin::new(&mut self.inner).poll_write_vectored(cx, slices);
        self.note(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::{io::AsyncWriteExt, task::LocalSet};

    use super::*;

    /// Takes all that it gets.
    struct Sink(Rc<RefCell<Vec<char>>>, char);

    impl AsyncWrite for Sink {
        fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            self.0.borrow_mut().push(self.1);
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    /// Runs connections that each write pieces of a whole turn; gives back who wrote when, with a `.` for each turn of
    /// another task.
    async fn run(connections: &[(char, usize)]) -> String {
        let local = LocalSet::new();
        let (turns, log) = (Rc::<WriteTurns>::default(), Rc::<RefCell<Vec<char>>>::default());
        let giving = Rc::clone(&turns);
        local.spawn_local(async move { giving.give().await });
        let others = Rc::clone(&log);
        let other = async move {
            loop {
                yield_now().await;
                others.borrow_mut().push('.');
            }
        };
        local.spawn_local(other);
        let writers = connections.iter().map(|(name, pieces)| {
            let (mut io, pieces) = (WriteTurns::pace(&turns, Sink(Rc::clone(&log), *name)), *pieces);
            local.spawn_local(async move {
                for _ in 0..pieces {
                    io.write_all(&[0; TURN_BYTES]).await.expect("it takes all");
                }
            })
        });
        let writers: Vec<_> = writers.collect();
        local.run_until(futures_util::future::join_all(writers)).await;
        let log = log.borrow();
        log.iter().collect()
    }

    #[tokio::test]
    async fn others_run_between_two_turns() {
        let log = run(&[('a', 5)]).await;
        assert_eq!(log.matches('a').count(), 5, "{log}");
        assert!(!log.contains("aa"), "{log}");
    }

    #[tokio::test]
    async fn one_connection_writes_at_a_time_in_the_order_in_which_they_came() {
        let log = run(&[('a', 4), ('b', 4), ('c', 4)]).await;
        let order: String = log.chars().filter(|name| *name != '.').collect();
        assert_eq!(order, "abcabcabcabc", "{log}");
        let later = log.trim_start_matches(|name| name != '.');
        assert!(!["ab", "bc", "ca"].iter().any(|both| later.contains(both)), "{log}");
    }
}
