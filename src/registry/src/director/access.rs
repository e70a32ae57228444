//! The API surface as subresources of kinds see it.

use std::sync::Arc;

use super::ApiSurface;
use crate::access::{ObjectAccess, ResourceIndex};

impl ResourceIndex for ApiSurface {
    fn objects(&self, group: &str, version: &str, plural: &str) -> Option<Arc<dyn ObjectAccess>> {
        let route = self.find(group, version, plural)?;
        Some(Arc::new(route.registry))
    }
}
