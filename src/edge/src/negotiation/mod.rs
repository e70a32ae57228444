//! Content negotiation: what an answer looks like, and what a request body is.

#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

mod accept;
mod body;
mod pretty;

pub(crate) use accept::{
    Accept, MetaVersion, OfferedForms, Produces, ResponseFormat, ShownPart, Transform, negotiate, negotiate_format,
    negotiate_view, no_transformation, preferred_types,
};
pub(crate) use body::{PatchType, body_format, no_protobuf, no_such_custom_patch, patch_type};
pub(crate) use pretty::{indent, wants_pretty};
