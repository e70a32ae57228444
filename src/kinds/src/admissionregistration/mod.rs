//! `admissionregistration.k8s.io`.
//!
//! Expressions are compiled when they are written. What they may cost is not estimated.

pub(crate) mod policies;
pub(crate) mod policybindings;
pub(crate) mod webhookconfigurations;

mod expressions;
mod matching;
mod mutations;
