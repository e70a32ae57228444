//! The whole group on simulated hosts, with the network, the time and the faults made from a seed.

pub(crate) mod runtime;
