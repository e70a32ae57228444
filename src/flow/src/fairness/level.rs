//! The actor of one priority level. Seats that are free are taken without it.

use std::{sync::Arc, time::Instant};

use trireme_actors::{Actor, ActorKind, Receive, Reply, Turn};

use super::{
    counters::QueuedCount,
    dump::QueuesDump,
    messages::{Dump, Enqueue, Freed, Turned},
    queues::{FairQueues, QueuePlace},
    seats::{LevelSeats, OriginQueue},
    waiting::WaitingRequest,
};

/// The places of a queue beyond its limit while seats are free: so few that even with all of them 128 queues of 50 are no
/// more than may wait in a level.
const PLACES_BEYOND: usize = 8;

/// A request in a queue.
struct QueuedRequest {
    waiting: Arc<WaitingRequest>,
    reply: Reply<Turned>,
}

impl QueuedRequest {
    fn is_gone(&self) -> bool {
        self.waiting.has_left()
    }
}

/// Keeps the queues of a level, and gives seats to whoever's turn it is.
pub(crate) struct LevelActor {
    seats: Arc<LevelSeats>,
    queues: Option<FairQueues<QueuedRequest>>,
    /// True while a task waits for seats to be given back.
    is_listening: bool,
}

impl LevelActor {
    /// An actor that knows of nobody who waits.
    pub(crate) fn new(seats: Arc<LevelSeats>) -> Self {
        seats.forget_waiting();
        Self {
            seats,
            queues: None,
            is_listening: false,
        }
    }

    /// Gives the queues the shape that the level has by now. If it has none any more, those who wait keep their places.
    fn reshape(&mut self, now: Instant) {
        match (self.seats.shape(), &mut self.queues) {
            (Some(shape), Some(queues)) => queues.reshape(shape),
            (Some(shape), none) => *none = Some(FairQueues::new(shape, now)),
            (None, Some(queues)) if queues.waiting() > 0 => {}
            (None, queues) => *queues = None,
        }
    }

    /// Lets through whoever can be, and listens for more seats as long as somebody waits.
    fn dispatch(&mut self, turn: &mut Turn<'_, Self>) {
        self.reshape(turn.now());
        let Some(queues) = &mut self.queues else { return };
        let (seats, now) = (&self.seats, turn.now());
        seats.leave(queues.forget_gone(QueuedRequest::is_gone));
        // Before some are let through: what is wanted at one time decides what the level may borrow.
        seats.set_wanted(queues.waiting_seats());
        let may_take = |asked: &QueuedRequest| {
            let has_taken = seats.try_take_in_turn(asked.waiting.request.work.most_seats());
            if !has_taken && seats.has_free() {
                asked.waiting.request.meters.not_accommodated();
            }
            has_taken
        };
        while let Some(next) = queues.dispatch(now, seats.limit(), may_take) {
            // An asker that has left meanwhile gives the seats back by dropping them.
            let queue = OriginQueue {
                index: next.queue,
                executing: next.executing,
            };
            let QueuedRequest { waiting, reply } = next.item;
            waiting.dispatch();
            reply.send(Turned::Seated(seats.dispatched(Arc::clone(&waiting.request), queue)));
            seats.leave(queues.forget_gone(QueuedRequest::is_gone));
        }
        seats.set_wanted(queues.waiting_seats());
        if queues.waiting() > 0 {
            self.listen(turn);
        }
    }

    /// The queue of a flow, if there is room in it. While seats are free, it may get somewhat longer than it should: its head may be
    /// too wide for them.
    fn place(&mut self, flow: u64, now: Instant) -> Option<(&mut FairQueues<QueuedRequest>, QueuePlace)> {
        let queues = self.queues.as_mut()?;
        let place = queues.choose(now, self.seats.limit(), flow);
        let beyond = if self.seats.has_free() { PLACES_BEYOND } else { 0 };
        queues.has_room(&place, beyond).then_some((queues, place))
    }

    fn listen(&mut self, turn: &mut Turn<'_, Self>) {
        if !self.is_listening {
            self.is_listening = true;
            let seats = Arc::clone(&self.seats);
            let ended = turn.ended();
            let freed = async move {
                tokio::select! {
                    // First, so that a wake-up that comes later is left to the next instance.
                    biased;
                    () = ended.cancelled() => {}
                    () = seats.freed.notified() => {}
                }
            };
            turn.detach(freed, |_| Freed);
        }
    }
}

impl Actor for LevelActor {
    const KIND: ActorKind = ActorKind::PRIORITY_LEVEL;
}

impl Receive<Enqueue> for LevelActor {
    fn receive(&mut self, asked: Enqueue, reply: Reply<Turned>, turn: &mut Turn<'_, Self>) {
        // Seats that were given back are those of who waits, and leave room in the queues.
        self.dispatch(turn);
        let Enqueue { flow, waiting, .. } = asked;
        let request = Arc::clone(&waiting.request);
        if !self.seats.has_queues() {
            // Seats may have been given back since the asker looked.
            let seated = self.seats.try_take(&request).map_or(Turned::Refused, Turned::Seated);
            return reply.send(seated);
        }
        // Counted before the seats are looked at: whoever gives one back after that wakes this actor.
        self.seats.wait();
        let Some((queues, place)) = self.place(flow, turn.now()) else {
            self.seats.leave(1);
            return reply.send(Turned::Refused);
        };
        let count = QueuedCount::new(&asked.counters, &request, asked.in_queue.count());
        if !waiting.enter(&queues.leavers(&place), count) {
            return self.seats.leave(1);
        }
        let length = queues.enqueue(place, request.work, QueuedRequest { waiting, reply });
        request.meters.enqueued(length);
        self.dispatch(turn);
    }
}

impl Receive<Freed> for LevelActor {
    fn receive(&mut self, _: Freed, reply: Reply<()>, turn: &mut Turn<'_, Self>) {
        self.is_listening = false;
        self.dispatch(turn);
        reply.send(());
    }
}

impl Receive<Dump> for LevelActor {
    fn receive(&mut self, _: Dump, reply: Reply<QueuesDump>, turn: &mut Turn<'_, Self>) {
        self.reshape(turn.now());
        if let Some(queues) = &mut self.queues {
            self.seats.leave(queues.forget_all_gone(QueuedRequest::is_gone));
        }
        let states = self.queues.iter().flat_map(FairQueues::states);
        let queues =
            states.map(|(state, waiting)| (state, waiting.map(|asked| Arc::clone(&asked.waiting.request)).collect()));
        reply.send(QueuesDump {
            queues: queues.collect(),
        });
    }
}
