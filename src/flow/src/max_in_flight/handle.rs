//! The public face of the limiter by classes.

use std::sync::Arc;

use metrics::{Counter, counter};
use trireme_actors::{ActorSystem, AskError, Caller, Handle};

use super::{
    actor::ClassLimiter,
    messages::{Acquire, ResizeSeats},
    seats::{ClassSeat, ClassSeats},
};
use crate::{
    error::{Full, LimiterError},
    watermark,
};

/// The number of requests that may be in flight; 0 means any number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InFlightLimits {
    /// `--max-requests-inflight`
    pub read_only: usize,
    /// `--max-mutating-requests-inflight`
    pub mutating: usize,
}

impl Default for InFlightLimits {
    /// The defaults of kube-apiserver.
    fn default() -> Self {
        Self {
            read_only: 400,
            mutating: 200,
        }
    }
}

/// The two classes of requests that are counted apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestKind {
    /// get, list and watch.
    ReadOnly,
    /// Everything else.
    Mutating,
}

impl RequestKind {
    /// The class of a request with this verb.
    pub fn of_verb(verb: &str) -> Self {
        match verb {
            "get" | "list" | "watch" => Self::ReadOnly,
            _ => Self::Mutating,
        }
    }
}

/// Hands out seats by class. Cheap to clone; clones share the seats.
#[derive(Clone)]
pub struct MaxInFlight(Arc<Classes>);

struct Classes {
    read_only: RequestClass,
    mutating: RequestClass,
}

struct RequestClass {
    seats: Arc<ClassSeats>,
    actor: Handle<ClassLimiter>,
    dropped: Counter,
}

impl RequestClass {
    fn start(system: &ActorSystem, name: &'static str, limit: usize) -> Result<Self, LimiterError> {
        let seats = ClassSeats::new(name, limit);
        let shared = Arc::clone(&seats);
        let owned = system.spawn(name, move || ClassLimiter::new(Arc::clone(&shared)))?;
        Ok(Self {
            seats,
            actor: owned.for_caller(Caller::Outside)?,
            dropped: counter!("apiserver_dropped_requests_total", "request_kind" => name),
        })
    }

    async fn ask(&self) -> Result<ClassSeat, Full> {
        // If nobody can decide now: there was no seat, so there is none.
        self.actor.ask(Acquire).await.ok().flatten().ok_or(Full)
    }
}

impl MaxInFlight {
    /// Starts one actor a class, with all seats free. The recorder of metrics must be installed before.
    ///
    /// # Errors
    /// If the actors cannot be started.
    pub fn start(system: &ActorSystem, limits: InFlightLimits) -> Result<Self, LimiterError> {
        let classes = Classes {
            read_only: RequestClass::start(system, "readOnly", limits.read_only)?,
            mutating: RequestClass::start(system, "mutating", limits.mutating)?,
        };
        let marks = [&classes.read_only, &classes.mutating].map(|class| class.seats.in_flight());
        watermark::show_every_second(system, "class-watermarks", marks.into());
        Ok(Self(Arc::new(classes)))
    }

    /// Takes a seat: without a turn of the actor if one is free.
    ///
    /// # Errors
    /// [`Full`] if none is free.
    pub async fn acquire(&self, kind: RequestKind) -> Result<ClassSeat, Full> {
        let class = self.class(kind);
        match class.seats.try_take() {
            Some(seat) => Ok(seat),
            None => class.ask().await,
        }
    }

    /// A seat outside the limit, for those who must always be admitted. It is counted all the same.
    pub fn exempt(&self, kind: RequestKind) -> ClassSeat {
        self.class(kind).seats.exempt()
    }

    /// Counts a request that found no seat and was not admitted beyond the limit either.
    pub fn count_dropped(&self, kind: RequestKind) {
        self.class(kind).dropped.increment(1);
    }

    /// Changes how many seats there are. Requests in flight keep theirs.
    ///
    /// # Errors
    /// If an actor does not answer.
    pub async fn resize(&self, limits: InFlightLimits) -> Result<(), AskError> {
        self.0.read_only.actor.ask(ResizeSeats(limits.read_only)).await?;
        self.0.mutating.actor.ask(ResizeSeats(limits.mutating)).await
    }

    fn class(&self, kind: RequestKind) -> &RequestClass {
        match kind {
            RequestKind::ReadOnly => &self.0.read_only,
            RequestKind::Mutating => &self.0.mutating,
        }
    }
}
