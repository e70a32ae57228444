//! The actor of one class of requests. ClassSeats that are free are taken without it.

use std::sync::Arc;

use trireme_actors::{Actor, ActorKind, Receive, Reply, Turn};

use super::{
    messages::{Acquire, ResizeSeats},
    seats::{ClassSeat, ClassSeats},
};

/// Decides about requests that found no seat, and how many seats there are.
pub(crate) struct ClassLimiter {
    seats: Arc<ClassSeats>,
}

impl ClassLimiter {
    pub(crate) fn new(seats: Arc<ClassSeats>) -> Self {
        Self { seats }
    }
}

impl Actor for ClassLimiter {
    const KIND: ActorKind = ActorKind::LIMITER;
}

impl Receive<Acquire> for ClassLimiter {
    fn receive(&mut self, _: Acquire, reply: Reply<Option<ClassSeat>>, _: &mut Turn<'_, Self>) {
        // One may have been given back since the asker looked.
        reply.send(self.seats.try_take());
    }
}

impl Receive<ResizeSeats> for ClassLimiter {
    fn receive(&mut self, ResizeSeats(limit): ResizeSeats, reply: Reply<()>, _: &mut Turn<'_, Self>) {
        self.seats.resize(limit);
        reply.send(());
    }
}
