//! `admissionregistration.k8s.io`.
//!
//! Expressions are checked for being there, not for what they say: that takes a CEL compiler, which this crate does
//! not have.

pub(crate) mod policybindings;
pub(crate) mod webhookconfigurations;

mod matching;
