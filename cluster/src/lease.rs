//! Named leases: a duty, who holds it, and the token that fences its writes.

use std::fmt;

/// A piece of work that one replica at a time does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Duty(&'static str);

impl Duty {
    /// Names a duty.
    pub const fn named(name: &'static str) -> Self {
        Self(name)
    }

    /// The duty's name.
    pub const fn name(self) -> &'static str {
        self.0
    }
}

impl fmt::Display for Duty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// Grows with every change of holder, so that a deposed holder's writes can be distinguished from its successor's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FencingToken(pub u64);

/// The right to do a duty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeldLease {
    /// The duty.
    pub duty: Duty,
    /// The token of its writes.
    pub token: FencingToken,
}
