//! The schemas of the built-in types, as OpenAPI documents show them.

mod enums;
mod group_versions;
mod zeroes;

use std::{
    fmt::Write as _,
    sync::{Arc, LazyLock},
};

use serde_json::Value;
use sha2::{Digest as _, Sha256};
use trireme_machinery::{Feature, Features, scheme::Scheme};
use trireme_registry::{OpenApiFragment, SchemaSource};

// One source of all built-in resources: sharing it is what makes them one API in the documents.
static WITH_ENUMS: LazyLock<Arc<BuiltInSchemas>> = LazyLock::new(|| Arc::new(BuiltInSchemas::new(true)));
static WITHOUT_ENUMS: LazyLock<Arc<BuiltInSchemas>> = LazyLock::new(|| Arc::new(BuiltInSchemas::new(false)));

/// The schemas of all built-in types and of the API machinery.
struct BuiltInSchemas {
    digest: String,
    /// The values of fields that take no others are named.
    has_enums: bool,
}

impl BuiltInSchemas {
    fn new(has_enums: bool) -> Self {
        let table = if has_enums { trireme_schema::ENUM_TABLE } else { "" };
        let digest = Sha256::new()
            .chain_update(trireme_schema::packed_definitions())
            .chain_update(table)
            .finalize();
        let digest = digest.iter().fold(String::new(), |mut text, byte| {
            // Writing to a string does not fail.
            let _ = write!(text, "{byte:02x}");
            text
        });
        Self { digest, has_enums }
    }

    fn definition(&self, name: &str) -> Option<Value> {
        let mut schema = trireme_schema::definitions().get(name)?.clone();
        if self.has_enums {
            enums::add(&mut schema, name);
        }
        Some(schema)
    }
}

impl SchemaSource for BuiltInSchemas {
    fn component(&self, name: &str) -> Option<Arc<Value>> {
        let mut schema = self.definition(name)?;
        zeroes::add(&mut schema, name);
        group_versions::add(&mut schema, name, Scheme::Clients);
        Some(Arc::new(schema))
    }

    fn component_v2(&self, name: &str) -> Option<Arc<Value>> {
        let mut schema = self.definition(name)?;
        zeroes::remove(&mut schema);
        group_versions::add(&mut schema, name, Scheme::Server);
        Some(Arc::new(schema))
    }

    fn digest(&self) -> &str {
        &self.digest
    }
}

/// The schemas of all built-in types and of the API machinery. With the feature OpenAPIEnums they name the values of fields that
/// take no others.
pub fn schemas(features: Features) -> Arc<dyn SchemaSource> {
    match features.has(Feature::OpenApiEnums) {
        true => WITH_ENUMS.clone(),
        false => WITHOUT_ENUMS.clone(),
    }
}

/// The fragment of every built-in resource.
pub(crate) fn fragment(features: Features) -> OpenApiFragment {
    OpenApiFragment::new(schemas(features))
}

#[cfg(test)]
mod discovery_tests;
#[cfg(test)]
mod tests;
