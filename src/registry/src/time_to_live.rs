//! The lifetime of objects of a kind that expires.

use std::time::Duration;

/// The window in which a lease is shared, at most, as in kube-apiserver.
const LEASE_REUSE: Duration = Duration::from_secs(60);
/// The share of the time to live that the window is, at most.
const REUSE_SHARE: u32 = 20;

/// A time to live and the window in which objects share a lease: they live longer by that much at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeToLive {
    /// The time that an object lives at least after it was last written.
    pub ttl: Duration,
    /// The window that was asked for.
    pub lease_reuse: Duration,
}

impl TimeToLive {
    /// The window: no more than a twentieth of the time to live, in whole seconds as leases are.
    pub(crate) fn window(&self) -> Duration {
        let window = self.lease_reuse.min(self.ttl / REUSE_SHARE);
        Duration::from_secs(window.as_secs())
    }
}

impl From<Duration> for TimeToLive {
    fn from(ttl: Duration) -> Self {
        Self {
            ttl,
            lease_reuse: LEASE_REUSE,
        }
    }
}
