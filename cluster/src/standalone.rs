//! A group of one.

use crate::lease::{Duty, FencingToken, HeldLease};

/// A replica without peers: it holds every duty for as long as it lives.
#[derive(Debug, Clone, Copy, Default)]
pub struct Standalone;

impl Standalone {
    /// There is never another holder, so there is never another token.
    const TOKEN: FencingToken = FencingToken(1);

    /// Takes a duty.
    pub fn acquire(self, duty: Duty) -> HeldLease {
        HeldLease {
            duty,
            token: Self::TOKEN,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_only_replica_holds_every_duty() {
        let duty = Duty::named("system-namespaces");
        assert_eq!(
            Standalone.acquire(duty),
            HeldLease {
                duty,
                token: FencingToken(1)
            }
        );
    }
}
