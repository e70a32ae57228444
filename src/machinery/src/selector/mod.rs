//! Label and field selectors: the grammar of `labelSelector=` and `fieldSelector=`, the object form
//! `{matchLabels, matchExpressions}`, and matching.
//!
//! Parse errors have the texts of `k8s.io/apimachinery/pkg/labels` and `…/fields`. A selector is parsed once a
//! request and matched against many objects: matching allocates nothing.

#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

mod fields;
mod labels;
mod object_form;
mod parse;

pub use fields::{FieldSelector, FieldTerm};
pub use labels::{LabelSelector, Operator, Requirement};
pub use object_form::{
    compile_label_selector, validate_field_requirements, validate_label_requirements, validate_label_selector,
    validate_labels,
};

/// The reason that a selector cannot be used; the text is for the client.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SelectorError(pub String);

#[cfg(test)]
mod tests;
