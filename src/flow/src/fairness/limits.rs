//! How the server's seats are divided among the levels: by their shares, and by what they lend and borrow (KEP-1040).

use super::config::PriorityLevelSpec;

/// The part of a level's seats that one request may take, in per cent.
const WIDEST_PERCENT: u32 = 15;

/// The seats of one level.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SeatLimits {
    /// Its share of the server's.
    pub(crate) nominal: u32,
    /// Those it keeps while others borrow.
    pub(crate) lower: u32,
    /// Those it has at most while it borrows.
    pub(crate) upper: u32,
}

/// Divides the server's seats by shares. Each level's part is rounded up.
pub(crate) fn nominal_limits(server: u32, levels: &[&PriorityLevelSpec]) -> Vec<SeatLimits> {
    let all: u64 = levels.iter().map(|level| u64::from(level.shares())).sum();
    let part = |level: &&PriorityLevelSpec| {
        let share = u64::from(server) * u64::from(level.shares());
        let nominal = if all == 0 { 0 } else { narrow(share.div_ceil(all)) };
        SeatLimits {
            nominal,
            lower: nominal - percent_of(nominal, level.lendable_percent()).min(nominal),
            upper: match level.borrowing_limit_percent() {
                Some(percent) => nominal.saturating_add(percent_of(nominal, percent)),
                None => server.max(nominal),
            },
        }
    };
    levels.iter().map(part).collect()
}

/// The demand of a level over the last period, and what it may have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SeatDemand {
    pub(crate) limits: SeatLimits,
    /// The most seats that were wanted at one time.
    pub(crate) peak: u32,
    /// The demand of late, smoothed, in thousandths of a seat.
    pub(crate) smoothed_milli: u64,
}

/// One, as a fraction.
const WHOLE: u64 = 1 << 20;
/// The largest fraction that is tried.
const MOST: u64 = 1 << 40;

/// The seats of levels, and the fraction of its target that each level gets between its bounds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BorrowedLimits {
    pub(crate) limits: Vec<u32>,
    pub(crate) fair_fraction: f64,
}

/// Divides the server's seats anew: no level gets less than it needs of its own, none more than it may borrow, and in between
/// each gets the same fraction of its demand.
pub(crate) fn borrowed_limits(server: u32, demands: &[SeatDemand]) -> BorrowedLimits {
    let bounds: Vec<_> = demands.iter().map(SeatDemand::bounds).collect();
    let sum = |fraction: u64| bounds.iter().map(|bound| bound.at(fraction)).sum::<u64>();
    let all = u64::from(server) * 1000;
    // The sum grows with the fraction, so halving finds where it is what the server has.
    let (mut low, mut high) = (0, MOST);
    while low < high {
        let middle = low.midpoint(high);
        if sum(middle) < all {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    let limits = bounds.iter().map(|bound| narrow((bound.at(high) + 500) / 1000));
    BorrowedLimits {
        limits: limits.collect(),
        fair_fraction: high as f64 / WHOLE as f64,
    }
}

/// Bounds of a level's seats, in thousandths.
struct SeatBounds {
    least: u64,
    most: u64,
    target: u64,
}

impl SeatBounds {
    fn at(&self, fraction: u64) -> u64 {
        let part = u128::from(self.target) * u128::from(fraction) / u128::from(WHOLE);
        u64::try_from(part).unwrap_or(u64::MAX).clamp(self.least, self.most)
    }
}

impl SeatDemand {
    /// The seats that a level is to have if the server has enough for all.
    pub(crate) fn target(&self) -> f64 {
        self.bounds().target as f64 / 1000.0
    }

    fn bounds(&self) -> SeatBounds {
        let limits = self.limits;
        let least = u64::from(limits.lower.max(limits.nominal.min(self.peak))) * 1000;
        SeatBounds {
            least,
            most: (u64::from(limits.upper) * 1000).max(least),
            target: self.smoothed_milli.max(least),
        }
    }
}

/// The most seats that one request may take in a level of so many: 15 %, and no more than a flow's hand of queues leaves for
/// other flows. Nothing bounds it in an exempt level.
pub(crate) fn widest_request(level: &PriorityLevelSpec, nominal: u32) -> u32 {
    if level.limited.is_none() {
        return u32::MAX;
    }
    let hand_size = level.queuing().map_or(1, |shape| narrow(shape.hand_size as u64).max(1));
    let percent = nominal.saturating_mul(WIDEST_PERCENT).div_ceil(100);
    percent.min(nominal / hand_size).max(1)
}

fn percent_of(seats: u32, percent: u32) -> u32 {
    narrow((u64::from(seats) * u64::from(percent) + 50) / 100)
}

fn narrow(seats: u64) -> u32 {
    u32::try_from(seats).unwrap_or(u32::MAX)
}
