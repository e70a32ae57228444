//! Division of the server's seats among the levels: by their shares, and by what they lend and borrow (KEP-1040).

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
                None => nominal.saturating_add(server),
            },
        }
    };
    levels.iter().map(part).collect()
}

/// The demand of a level over the last period, and what it may have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SeatDemand {
    pub(crate) limits: SeatLimits,
    /// True for a level that takes the seats that it wants.
    pub(crate) is_exempt: bool,
    /// The most seats that were wanted at one time.
    pub(crate) peak: u32,
    /// The demand of late, smoothed, in thousandths of a seat.
    pub(crate) smoothed_milli: u64,
}

/// One, as a fraction.
const WHOLE: u64 = 1 << 20;
/// The target of a level that wants nothing, in thousandths of a seat: a fraction of none would be none.
const LEAST_TARGET: u64 = 1;
/// The largest fraction that is tried.
const MOST: u64 = 1 << 40;

/// The seats of levels, and the fraction of its target that each level gets between its bounds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BorrowedLimits {
    pub(crate) limits: Vec<u32>,
    pub(crate) fair_fraction: f64,
}

/// Divides the seats of all levels anew (`updateBorrowingLocked`). Exempt levels have what they have wanted. As long as the rest
/// is enough, none of the others gets less than it needs of its own, none more than it may borrow, and in between each gets
/// the same fraction of its demand. If it is not, each gives up what it lends, first as far as it has wanted none of that.
pub(crate) fn borrowed_limits(demands: &[SeatDemand]) -> BorrowedLimits {
    let all: u64 = demands.iter().map(|demand| u64::from(demand.limits.nominal)).sum();
    let (exempt, limited): (Vec<_>, Vec<_>) = demands.iter().partition(|demand| demand.is_exempt);
    let sum = |of: &[&SeatDemand], seats: fn(&SeatDemand) -> u32| -> u64 {
        of.iter().map(|demand| u64::from(seats(demand))).sum()
    };
    let rest = all.saturating_sub(sum(&exempt, SeatDemand::least));
    let (lower, least) = (
        sum(&limited, |demand| demand.limits.lower),
        sum(&limited, SeatDemand::least),
    );
    if rest > least {
        return fair_limits(all, demands);
    }
    let (given, lent) = (u128::from(rest.saturating_sub(lower)), u128::from(least - lower));
    let limit = |demand: &SeatDemand| {
        if demand.is_exempt {
            return demand.least();
        }
        let wanted = u128::from(demand.least() - demand.limits.lower);
        // Rounded to the nearest.
        let part = (wanted * given * 2 + lent).checked_div(lent * 2).unwrap_or(0);
        demand.limits.lower + u32::try_from(part).unwrap_or(0)
    };
    BorrowedLimits {
        limits: demands.iter().map(limit).collect(),
        fair_fraction: 0.0,
    }
}

/// Divides so many seats among the levels that are not exempt.
fn fair_limits(all: u64, demands: &[SeatDemand]) -> BorrowedLimits {
    let bounds: Vec<_> = demands.iter().map(SeatDemand::bounds).collect();
    let limited = || demands.iter().zip(&bounds).filter(|(demand, _)| !demand.is_exempt);
    let sum = |fraction: u64| limited().map(|(_, bound)| bound.at(fraction)).sum::<u64>();
    // The sum grows with the fraction, so halving finds where it is what there is.
    let (mut low, mut high) = (0, MOST);
    while low < high {
        let middle = low.midpoint(high);
        if sum(middle) < all * 1000 {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    let limits = demands.iter().zip(&bounds).map(|(demand, bound)| {
        if demand.is_exempt {
            demand.least()
        } else {
            narrow((bound.at(high) + 500) / 1000)
        }
    });
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

    /// The seats that the level needs of its own.
    fn least(&self) -> u32 {
        let own = if self.is_exempt {
            self.peak
        } else {
            self.limits.nominal.min(self.peak)
        };
        self.limits.lower.max(own)
    }

    fn bounds(&self) -> SeatBounds {
        let least = u64::from(self.least()) * 1000;
        SeatBounds {
            least,
            most: (u64::from(self.limits.upper) * 1000).max(least),
            target: self.smoothed_milli.max(least).max(LEAST_TARGET),
        }
    }
}

/// The most seats that one request may take in a level of so many: 15 %, and no more than a flow's hand of queues leaves for
/// other flows. Nothing bounds it in levels without queues.
pub(crate) fn widest_request(level: &PriorityLevelSpec, nominal: u32) -> u32 {
    let Some(shape) = level.queuing() else { return u32::MAX };
    let hand_size = narrow(shape.hand_size as u64).max(1);
    let percent = nominal.saturating_mul(WIDEST_PERCENT).div_ceil(100);
    percent.min(nominal / hand_size).max(1)
}

fn percent_of(seats: u32, percent: u32) -> u32 {
    narrow((u64::from(seats) * u64::from(percent) + 50) / 100)
}

fn narrow(seats: u64) -> u32 {
    u32::try_from(seats).unwrap_or(u32::MAX)
}
