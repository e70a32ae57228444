//! Singleton controllers that run where the lease is.
