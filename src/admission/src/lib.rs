//! The admission chain and its built-in plugins.
//!
//! A [`Chain`] is made by the composition root and handed to every registry. Of kube-apiserver's plugins there is
//! [`NamespaceLifecycle`]; webhooks, CEL policies and the other plugins are not there yet.

mod chain;
mod namespace_lifecycle;

pub use chain::Chain;
pub use namespace_lifecycle::NamespaceLifecycle;
