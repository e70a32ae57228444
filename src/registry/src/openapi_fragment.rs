//! The schemas that a definition brings along for the OpenAPI documents.

use std::sync::Arc;

use serde_json::Value;

/// Gives the schemas that OpenAPI documents show, by name.
pub trait SchemaSource: Send + Sync + 'static {
    /// The schema of a component, with bare names of others in `$ref`; `None` if the source does not have it.
    fn component(&self, name: &str) -> Option<Arc<Value>>;

    /// The schema of a component as OpenAPI version 2 shows it, where that is not what version 3 shows.
    fn component_v2(&self, name: &str) -> Option<Arc<Value>> {
        self.component(name)
    }

    /// Changes with the contents, and is the same in all replicas for the same contents.
    fn digest(&self) -> &str;
}

/// A source without schemas.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoSchemas;

impl SchemaSource for NoSchemas {
    fn component(&self, _: &str) -> Option<Arc<Value>> {
        None
    }

    fn digest(&self) -> &str {
        ""
    }
}

/// The part of the OpenAPI documents that a resource brings along: the schemas of its types, which are asked for when a
/// document is rendered. Resources that share a source are listed together in the documents of each.
#[derive(Clone)]
pub struct OpenApiFragment(Arc<dyn SchemaSource>);

impl OpenApiFragment {
    /// A fragment with these schemas.
    pub fn new(schemas: Arc<dyn SchemaSource>) -> Self {
        Self(schemas)
    }

    /// The schemas.
    pub fn schemas(&self) -> &Arc<dyn SchemaSource> {
        &self.0
    }
}

impl Default for OpenApiFragment {
    fn default() -> Self {
        Self(Arc::new(NoSchemas))
    }
}
