//! Chaos experiments: break something on purpose, and check mechanically that what was promised
//! still holds.
//!
//! Everything under test is a black box: experiments start programs and talk to them from outside.
//! Each experiment is a module with the same parts: a driver that applies the fault, and a checker
//! that is a plain function over what was recorded, with tests that plant each violation it looks
//! for. A run prints a summary, and its command fails if any promise was broken.

pub mod checks;
pub mod faults;
pub mod history;
pub mod kill_loop;
pub mod proxy;
pub mod report;
pub mod run;
pub mod traffic;
pub mod truth;
pub mod world;
