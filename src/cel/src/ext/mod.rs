//! The types of Kubernetes' libraries: text with a meaning. They know nothing of expressions.

pub(crate) mod formats;
pub(crate) mod semvers;
pub(crate) mod urls;
