//! Ranges of costs and sizes, whose ends saturate.

/// The least and the most that a cost or a size can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Estimate {
    /// The least.
    pub min: u64,
    /// The most.
    pub max: u64,
}

impl Estimate {
    pub(crate) const NOTHING: Self = Self::fixed(0);
    pub(crate) const ONE: Self = Self::fixed(1);
    pub(crate) const UNKNOWN: Self = Self::up_to(u64::MAX);
    /// The neutral element of [`Self::union`].
    pub(crate) const EMPTY: Self = Self { min: u64::MAX, max: 0 };

    pub(crate) const fn fixed(value: u64) -> Self {
        Self { min: value, max: value }
    }

    pub(crate) const fn up_to(max: u64) -> Self {
        Self { min: 0, max }
    }

    #[must_use]
    pub(crate) const fn plus(self, other: Self) -> Self {
        Self {
            min: self.min.saturating_add(other.min),
            max: self.max.saturating_add(other.max),
        }
    }

    #[must_use]
    pub(crate) const fn times(self, other: Self) -> Self {
        Self {
            min: self.min.saturating_mul(other.min),
            max: self.max.saturating_mul(other.max),
        }
    }

    /// Both ends times a factor, rounded up.
    #[must_use]
    pub(crate) fn scaled(self, factor: f64) -> Self {
        Self {
            min: scale(self.min, factor),
            max: scale(self.max, factor),
        }
    }

    /// The range that both are in.
    #[must_use]
    pub(crate) fn union(self, other: Self) -> Self {
        Self {
            min: self.min.min(other.min),
            max: self.max.max(other.max),
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates, and neither is ever negative"
)]
fn scale(value: u64, factor: f64) -> u64 {
    (value as f64 * factor).ceil() as u64
}
