//! The core group, one file a kind.

pub(crate) mod configmaps;
pub(crate) mod namespaces;
pub(crate) mod secrets;
pub(crate) mod serviceaccounts;
