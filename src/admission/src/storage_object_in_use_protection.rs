//! `StorageObjectInUseProtection`: claims and volumes are born with the finalizer that keeps them while they are used
//! (`plugin/pkg/admission/storage/storageobjectinuseprotection`).

use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::Value;
use trireme_machinery::ApiError;
use trireme_registry::{Admission, Attributes, Operation, WriteRequest};

use crate::attributes::{is_write_of, push};

/// Group, resource and finalizer.
const PROTECTED: [(&str, &str, &str); 3] = [
    ("", "persistentvolumes", "kubernetes.io/pv-protection"),
    ("", "persistentvolumeclaims", "kubernetes.io/pvc-protection"),
    (
        "storage.k8s.io",
        "volumeattributesclasses",
        "kubernetes.io/vac-protection",
    ),
];

/// The plugin.
pub(crate) struct StorageObjectInUseProtection;

fn finalizer(request: &WriteRequest) -> Option<&'static str> {
    let mut all = PROTECTED.iter();
    let found = all.find(|(group, resource, _)| is_write_of(request, group, resource, &[Operation::Create]));
    found.map(|(_, _, finalizer)| *finalizer)
}

impl Admission for StorageObjectInUseProtection {
    fn handles(&self, request: &WriteRequest) -> bool {
        finalizer(request).is_some()
    }

    fn mutate<'a>(&'a self, attributes: &'a mut Attributes) -> BoxFuture<'a, Result<(), ApiError>> {
        let finalizer = finalizer(attributes).unwrap_or_default();
        let metadata = attributes.object.as_mut().and_then(|object| object.get_mut("metadata"));
        if let Some(metadata) = metadata {
            let there = metadata.get("finalizers").and_then(Value::as_array);
            if !there.is_some_and(|there| there.iter().any(|name| name == finalizer)) {
                push(metadata, "finalizers", finalizer.into());
            }
        }
        async { Ok(()) }.boxed()
    }
}
