//! The whole group on simulated hosts: turmoil gives the network and the time, a disk of our own loses what was not
//! synced, and all faults come from a seed.
//!
//! ```text
//! seed ─► plan of faults ─► cluster (3 hosts, one thread) ──each tick──► checker ─► violation
//!             crash, lost disk, partition, one-way partition, delay, stop in good order, another address
//! ```
//!
//! The replicas run the crate's own code from the port up; only TLS and the file are replaced. A seed repeats its faults,
//! latencies and election times. What it does not decide is the order in which `select!` looks at its branches, so that
//! two runs of one seed can differ by some milliseconds.

mod checker;
mod cluster;
mod disk;
mod scenarios;
mod storms;
mod wire;
