//! A tenure of a duty's lease, with the fence that its writes carry.

use trireme_cluster::HeldLease;
use trireme_registry::WriteFence;

/// The time during which one lease is held.
#[derive(Debug)]
pub struct LeaseTenure {
    lease: HeldLease,
    fence: WriteFence,
}

impl LeaseTenure {
    /// The tenure of a lease whose token the duty's fence has been raised to.
    pub(crate) fn new(lease: HeldLease, fence: WriteFence) -> Self {
        Self { lease, fence }
    }

    /// The lease that is held.
    pub fn lease(&self) -> HeldLease {
        self.lease
    }

    /// The token that every write must carry.
    pub fn fence(&self) -> &WriteFence {
        &self.fence
    }
}
