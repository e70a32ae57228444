//! Singleton work, done where its lease is held.
//!
//! There is one duty yet, [`SystemNamespaces`]. Endpoint reconciling, identity leases, compaction, garbage collection,
//! namespace deletion and default service accounts are not there yet.

mod system_namespaces;

pub use system_namespaces::SystemNamespaces;
