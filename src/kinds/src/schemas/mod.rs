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
use trireme_registry::{OpenApiFragment, SchemaSource};

use group_versions::Scheme;

/// The one source of all built-in resources: sharing it is what makes them one API in the documents.
static BUILT_IN: LazyLock<Arc<BuiltInSchemas>> = LazyLock::new(|| {
    let digest = Sha256::new()
        .chain_update(trireme_schema::packed_definitions())
        .chain_update(trireme_schema::ENUM_TABLE)
        .finalize();
    let digest = digest.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    });
    Arc::new(BuiltInSchemas { digest })
});

/// The schemas of all built-in types and of the API machinery.
struct BuiltInSchemas {
    digest: String,
}

impl SchemaSource for BuiltInSchemas {
    fn component(&self, name: &str) -> Option<Arc<Value>> {
        let mut schema = trireme_schema::definitions().get(name)?.clone();
        enums::add(&mut schema, name);
        zeroes::add(&mut schema, name);
        group_versions::add(&mut schema, name, Scheme::Clients);
        Some(Arc::new(schema))
    }

    fn component_v2(&self, name: &str) -> Option<Arc<Value>> {
        let mut schema = trireme_schema::definitions().get(name)?.clone();
        enums::add(&mut schema, name);
        zeroes::remove(&mut schema);
        group_versions::add(&mut schema, name, Scheme::Server);
        Some(Arc::new(schema))
    }

    fn digest(&self) -> &str {
        &self.digest
    }
}

/// The schemas of all built-in types and of the API machinery.
pub fn schemas() -> Arc<dyn SchemaSource> {
    BUILT_IN.clone()
}

/// The fragment of every built-in resource.
pub(crate) fn fragment() -> OpenApiFragment {
    OpenApiFragment::new(schemas())
}

#[cfg(test)]
mod discovery_tests;
#[cfg(test)]
mod tests;
