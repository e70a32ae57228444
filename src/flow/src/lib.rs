//! The in-flight limiter: how many requests may be worked on at once.
//!
//! `edge` asks for a [`Seat`] for every request that is not long-running and holds it until the answer is written.
//! Read-only and mutating requests are counted apart, as by kube-apiserver's `--max-requests-inflight` and
//! `--max-mutating-requests-inflight`. No seat is an answer ([`Full`], a 429), never a wait.

use std::{fmt, sync::Arc};

use metrics::{Counter, Gauge, counter, gauge};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How many requests may be in flight; 0 means any number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// `--max-requests-inflight`
    pub read_only: usize,
    /// `--max-mutating-requests-inflight`
    pub mutating: usize,
}

impl Default for Limits {
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
    /// get, list and the like.
    ReadOnly,
    /// Everything else.
    Mutating,
}

impl RequestKind {
    /// The class of a request with this verb.
    pub fn of_verb(verb: &str) -> Self {
        match verb {
            "get" | "list" | "watch" | "head" | "options" => Self::ReadOnly,
            _ => Self::Mutating,
        }
    }
}

/// All seats of a class are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("too many requests in flight")
    }
}

impl std::error::Error for Full {}

/// Hands out seats. Cheap to clone; clones share the seats.
#[derive(Clone)]
pub struct Limiter(Arc<Classes>);

struct Classes {
    read_only: Class,
    mutating: Class,
}

struct Class {
    seats: Option<Arc<Semaphore>>,
    in_flight: Gauge,
    dropped: Counter,
}

impl Class {
    fn new(name: &'static str, limit: usize) -> Self {
        Self {
            seats: (limit > 0).then(|| Arc::new(Semaphore::new(limit.min(Semaphore::MAX_PERMITS)))),
            in_flight: gauge!("apiserver_current_inflight_requests", "request_kind" => name),
            dropped: counter!("apiserver_dropped_requests_total", "request_kind" => name),
        }
    }
}

impl Limiter {
    /// A limiter with all seats free. The recorder of metrics must be installed before.
    pub fn new(limits: Limits) -> Self {
        Self(Arc::new(Classes {
            read_only: Class::new("readOnly", limits.read_only),
            mutating: Class::new("mutating", limits.mutating),
        }))
    }

    /// Takes a seat.
    ///
    /// # Errors
    /// [`Full`] if none is free.
    pub fn acquire(&self, kind: RequestKind) -> Result<Seat, Full> {
        let class = self.class(kind);
        let permit = match &class.seats {
            None => None,
            Some(seats) => Some(Arc::clone(seats).try_acquire_owned().map_err(|_| {
                class.dropped.increment(1);
                Full
            })?),
        };
        Ok(self.seated(kind, permit))
    }

    /// A seat outside the limit, for those who must always get through. It is counted all the same.
    pub fn exempt(&self, kind: RequestKind) -> Seat {
        self.seated(kind, None)
    }

    fn seated(&self, kind: RequestKind, permit: Option<OwnedSemaphorePermit>) -> Seat {
        self.class(kind).in_flight.increment(1.0);
        Seat {
            limiter: self.clone(),
            kind,
            _permit: permit,
        }
    }

    fn class(&self, kind: RequestKind) -> &Class {
        match kind {
            RequestKind::ReadOnly => &self.0.read_only,
            RequestKind::Mutating => &self.0.mutating,
        }
    }
}

/// The right to be worked on; given back on drop.
#[must_use]
pub struct Seat {
    limiter: Limiter,
    kind: RequestKind,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.limiter.class(self.kind).in_flight.decrement(1.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limiter(read_only: usize, mutating: usize) -> Limiter {
        Limiter::new(Limits { read_only, mutating })
    }

    #[test]
    fn a_full_class_refuses_until_a_seat_is_given_back() {
        let limiter = limiter(1, 1);
        let seat = limiter.acquire(RequestKind::ReadOnly).ok();
        assert!(seat.is_some());
        assert_eq!(limiter.acquire(RequestKind::ReadOnly).err(), Some(Full));
        drop(seat);
        assert!(limiter.acquire(RequestKind::ReadOnly).is_ok());
    }

    #[test]
    fn the_classes_do_not_take_each_others_seats() {
        let limiter = limiter(1, 1);
        let _reads = limiter.acquire(RequestKind::ReadOnly);
        assert!(limiter.acquire(RequestKind::Mutating).is_ok());
    }

    #[test]
    fn the_exempt_get_through_a_full_class() {
        let limiter = limiter(1, 1);
        let _one = limiter.acquire(RequestKind::Mutating);
        let _two = limiter.exempt(RequestKind::Mutating);
        assert_eq!(limiter.acquire(RequestKind::Mutating).err(), Some(Full));
    }

    #[test]
    fn zero_means_no_limit() {
        let limiter = limiter(0, 0);
        let seats: Vec<_> = (0..1000).map(|_| limiter.acquire(RequestKind::Mutating)).collect();
        assert!(seats.iter().all(Result::is_ok));
    }

    #[test]
    fn verbs_fall_into_their_class() {
        for verb in ["get", "list", "watch"] {
            assert_eq!(RequestKind::of_verb(verb), RequestKind::ReadOnly);
        }
        for verb in ["create", "update", "patch", "delete", "deletecollection", "post"] {
            assert_eq!(RequestKind::of_verb(verb), RequestKind::Mutating);
        }
    }
}
