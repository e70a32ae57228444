//! The OpenAPI documents: `/openapi/v3`, a document a group and version, and `/openapi/v2`.
//!
//! A document is known by the hash of what it is made of, which costs next to nothing, so that the index names the
//! documents of a thousand custom resources without rendering one of them. What has been rendered is kept under that
//! hash for as long as it is served.

mod media_types;
mod merged;
mod operations;
mod other_paths;
mod parameters;
mod protobuf;
mod render;
mod rendered;
mod resource_operations;
mod schemas;
mod shared_parameters;
#[cfg(test)]
mod tests;

pub(super) use rendered::RenderedOpenApi;
