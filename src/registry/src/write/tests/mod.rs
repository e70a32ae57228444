//! The write side over a real embedded store, as clients see it.

mod allocators;
mod create;
mod custom;
mod delete;
mod fences;
mod leases;
mod patch;
mod rules;
mod scale;
mod side_effects;
mod slow_admission;
mod store;
mod subresources;
mod support;
mod traces;
mod turns;
mod update;
