//! The promises of the room, one file a promise.

mod deadlines;
mod detached;
mod flood;
mod metering;
mod panics;
mod stopping;
mod tasks;
mod timers;
mod topology;
mod worker;
