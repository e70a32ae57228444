//! The read side over a real embedded store, as clients see it.

mod converted;
mod faults;
mod lists;
mod metrics;
mod shared_conversions;
mod support;
mod unreadable;
mod watches;
