//! Chaos experiments over the public API.
