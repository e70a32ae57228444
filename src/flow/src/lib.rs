//! The in-flight limiter.
