//! Conversion between the versions of a custom resource.

use std::sync::Arc;

use serde_json::Value;
use trireme_machinery::GroupVersion;
use trireme_registry::Converter;

use crate::{object_schema::VersionSchema, resource::ConverterSource};

/// No webhook is called yet: a definition that asks for one is not served.
pub(crate) struct Unsupported;

impl ConverterSource for Unsupported {
    fn converter(&self, _: &Value, _: Vec<(GroupVersion, Arc<VersionSchema>)>) -> Result<Arc<dyn Converter>, String> {
        Err("conversion by a webhook is not implemented by this server yet".to_owned())
    }
}
