//! One direction of one connection: takes bytes in, keeps them as long as the link says, hands them on in order.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

use super::link::add;
use super::{Conditions, Link, LinkConditions, OnLoss, Way};

/// The payload of a segment on an Ethernet.
const SEGMENT_BYTES: usize = 1448;
/// The size of one read where segments do not matter.
const PIECE_BYTES: usize = 64 * 1024;
/// Pieces under way at a time, which bounds what a connection keeps in memory. At a delay of 100 ms it still lets 10,000
/// small messages a second pass.
const MOST_PIECES: usize = 1024;
/// The least time that Linux waits before it sends a segment again.
const RETRANSMISSION_TIMEOUT: Duration = Duration::from_millis(200);
/// It waits twice as long each time, up to here in our model: 200 ms × 2⁶.
const MOST_DOUBLINGS: u32 = 6;

/// The reason that a direction ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PumpEnd {
    /// The sender has closed it, and the receiver was notified.
    Closed,
    /// One of the two has broken the connection, or a loss has.
    Broken,
}

/// The bytes under way.
enum Piece {
    Data(Bytes),
    Close,
    Break,
}

/// Moves bytes until the sender closes or the connection breaks.
pub(super) async fn pump(from: impl AsyncRead + Unpin, to: impl AsyncWrite + Unpin, link: &Link, way: Way) -> PumpEnd {
    let (sender, receiver) = mpsc::channel(MOST_PIECES);
    let sluice = Sluice {
        link,
        way,
        conditions: link.watch_conditions(),
        wire_is_free: Instant::now(),
        last_due: Instant::now(),
    };
    let hand_on = hand_on(receiver, to, link, way);
    let take_in = sluice.take_in(from, sender);
    tokio::pin!(hand_on, take_in);
    tokio::select! {
        end = &mut hand_on => end,
        () = &mut take_in => hand_on.await,
    }
}

/// Decides when a piece may arrive.
struct Sluice<'a> {
    link: &'a Link,
    way: Way,
    conditions: watch::Receiver<Conditions>,
    /// The time when the last piece has left the bottleneck.
    wire_is_free: Instant,
    last_due: Instant,
}

impl Sluice<'_> {
    async fn take_in(mut self, mut from: impl AsyncRead + Unpin, sender: mpsc::Sender<(Instant, Piece)>) {
        let mut buffer = BytesMut::with_capacity(PIECE_BYTES);
        loop {
            let by_segment = self.conditions.borrow().flow(self.way).is_by_segment();
            let most = if by_segment { SEGMENT_BYTES } else { PIECE_BYTES };
            buffer.reserve(most);
            let read = (&mut from).take(most as u64).read_buf(&mut buffer).await;
            let piece = match read {
                Ok(0) => Piece::Close,
                Ok(_) => Piece::Data(buffer.split().freeze()),
                Err(_) => Piece::Break,
            };
            let is_last = !matches!(piece, Piece::Data(_));
            let (due, piece) = self.weigh(piece);
            // Full means that the sender has to wait, as it would for a full window.
            if sender.send((due, piece)).await.is_err() || is_last {
                return;
            }
        }
    }

    fn weigh(&mut self, piece: Piece) -> (Instant, Piece) {
        let flow = *self.conditions.borrow().flow(self.way);
        let now = Instant::now();
        if flow == LinkConditions::CLEAN && self.last_due <= now {
            return (now, piece);
        }
        let mut due = now;
        if let (Piece::Data(bytes), Some(rate)) = (&piece, flow.bytes_per_second) {
            let seconds = bytes.len() as f64 / rate.max(1) as f64;
            self.wire_is_free = self.wire_is_free.max(now) + Duration::from_secs_f64(seconds);
            due = self.wire_is_free;
        }
        due += self.travel_time(&flow);
        let piece = match piece {
            Piece::Data(bytes) if flow.loss > 0.0 => match self.losses(&flow) {
                0 => Piece::Data(bytes),
                _ if flow.on_loss == OnLoss::Reset => Piece::Break,
                losses => {
                    due += stall(losses);
                    Piece::Data(bytes)
                }
            },
            piece => piece,
        };
        due = due.max(self.last_due);
        self.last_due = due;
        if due > now {
            add(&self.link.tally().delayed, 1);
        }
        (due, piece)
    }

    fn travel_time(&self, flow: &LinkConditions) -> Duration {
        if flow.jitter.is_zero() {
            return flow.delay;
        }
        let seconds = flow
            .jitter
            .as_secs_f64()
            .mul_add(self.link.swing(), flow.delay.as_secs_f64());
        Duration::from_secs_f64(seconds.max(0.0))
    }

    /// The number of times in a row that a segment is lost.
    fn losses(&self, flow: &LinkConditions) -> u32 {
        let mut losses = 0;
        while losses < MOST_DOUBLINGS && self.link.happens(flow.loss) {
            losses += 1;
        }
        add(&self.link.tally().losses, losses as usize);
        losses
    }
}

/// The time that TCP takes to get a segment through that is lost so often.
fn stall(losses: u32) -> Duration {
    RETRANSMISSION_TIMEOUT * (2_u32.pow(losses) - 1)
}

async fn hand_on(
    mut receiver: mpsc::Receiver<(Instant, Piece)>,
    mut to: impl AsyncWrite + Unpin,
    link: &Link,
    way: Way,
) -> PumpEnd {
    let mut conditions = link.watch_conditions();
    while let Some((due, piece)) = receiver.recv().await {
        if due > Instant::now() {
            sleep_until(due).await;
        }
        if let (Way::ToServer, Piece::Data(bytes)) = (way, &piece) {
            link.step_on(bytes);
        }
        if conditions.borrow().flow(way).blackhole {
            if let Piece::Data(bytes) = &piece {
                add(&link.tally().held_bytes, bytes.len());
            }
            wait_for_passage(&mut conditions, way).await;
        }
        match piece {
            Piece::Data(bytes) => {
                if to.write_all(&bytes).await.is_err() {
                    return PumpEnd::Broken;
                }
                add(link.tally().passed(way), bytes.len());
            }
            Piece::Close if to.shutdown().await.is_ok() => return PumpEnd::Closed,
            Piece::Close | Piece::Break => return PumpEnd::Broken,
        }
    }
    PumpEnd::Broken
}

/// Returns when nothing holds this direction back any more.
pub(super) async fn wait_for_passage(conditions: &mut watch::Receiver<Conditions>, way: Way) {
    // The sender lives in the link, which the waiting task holds.
    let _ = conditions.wait_for(|conditions| !conditions.flow(way).blackhole).await;
}
