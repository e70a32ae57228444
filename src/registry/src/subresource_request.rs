//! Requests for the subresources of a kind's own, as the edge hands them to a registry.

use std::sync::Arc;

use crate::{
    access::ResourceIndex,
    definition::ResourceDefinition,
    request::{Body, Target, WriteOptions},
    subresource::Destination,
};

/// POST to a [`Create`](crate::subresource::Create).
pub struct SubresourceCreateRequest {
    /// The place of the object.
    pub target: Target,
    /// The subresource.
    pub subresource: String,
    /// The collection that it was POSTed to, if not to the object: admission sees an object that is created there. The body names
    /// the object, and its uid says nothing.
    pub collection: Option<Arc<ResourceDefinition>>,
    /// The object that says what to do.
    pub body: Body,
    /// Options.
    pub options: WriteOptions,
    /// All resources.
    pub routes: Arc<dyn ResourceIndex>,
}

/// A request that is to be connected with the backend of an object.
pub struct ConnectRequest {
    /// The object.
    pub target: Target,
    /// The subresource.
    pub subresource: String,
    /// The query's decoded pairs, in order, and among them the `path` behind a proxy.
    pub query: Vec<(String, String)>,
    /// All resources.
    pub routes: Arc<dyn ResourceIndex>,
}

/// The outcome of a [`ConnectRequest`].
#[derive(Debug)]
pub struct ConnectAnswer {
    /// The other end.
    pub destination: Destination,
    /// `Warning` texts.
    pub warnings: Vec<String>,
}
