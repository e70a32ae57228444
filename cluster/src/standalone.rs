//! A group of one.

use crate::{
    lease::{Duty, FencingToken, HeldLease},
    tenure::Tenure,
};

/// A replica without peers: it holds every duty for as long as it lives.
#[derive(Debug, Clone, Copy, Default)]
pub struct Standalone;

impl Standalone {
    /// Takes a duty. There is no group that gives out tokens, so the caller brings an unused one.
    pub fn acquire(self, duty: Duty, token: FencingToken) -> Tenure {
        Tenure::unending(HeldLease { duty, token })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_only_replica_holds_every_duty() {
        let (duty, token) = (Duty::named("system-namespaces"), FencingToken(7));
        let tenure = Standalone.acquire(duty, token);
        assert_eq!(tenure.lease(), HeldLease { duty, token });
        assert!(tenure.still_mine());
    }
}
