//! `PersistentVolumeClaimResize`: a claim grows only if it is bound and its class allows that
//! (`plugin/pkg/admission/storage/persistentvolume/resize`).

use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::Value;
use trireme_machinery::{ApiError, quantity::Quantity};
use trireme_registry::{Admission, Attributes, Operation, WriteRequest};

use crate::{
    attributes::{annotation, forbidden, is_write_of},
    object_lookup::ObjectLookup,
};

const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

/// The plugin.
pub(crate) struct PersistentVolumeClaimResize {
    classes: ObjectLookup,
}

impl PersistentVolumeClaimResize {
    /// Looks at these storage classes.
    pub(crate) fn new(classes: ObjectLookup) -> Self {
        Self { classes }
    }

    async fn check(&self, attributes: &Attributes) -> Result<(), ApiError> {
        let (Some(claim), Some(old)) = (attributes.object.as_ref(), attributes.old_object.as_deref()) else {
            return Ok(());
        };
        if requested(claim) <= requested(old) {
            return Ok(());
        }
        if old.pointer("/status/phase").and_then(Value::as_str) != Some("Bound") {
            return Err(forbidden(
                attributes,
                "Only bound persistent volume claims can be expanded",
            ));
        }
        if self.may_grow(class(claim), class(old)).await {
            return Ok(());
        }
        let why = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize";
        Err(forbidden(attributes, why))
    }

    async fn may_grow(&self, class: &str, old_class: &str) -> bool {
        if class.is_empty() || class != old_class {
            return false;
        }
        // A class that cannot be read allows nothing.
        let class = self.classes.find("", class).await.ok().flatten();
        let allowed = class
            .as_ref()
            .and_then(|class| class.get("allowVolumeExpansion")?.as_bool());
        allowed == Some(true)
    }
}

fn requested(claim: &Value) -> Quantity {
    let text = claim
        .pointer("/spec/resources/requests/storage")
        .and_then(Value::as_str);
    text.and_then(|text| Quantity::parse(text).ok())
        .unwrap_or(Quantity::ZERO)
}

fn class(claim: &Value) -> &str {
    let named = claim.pointer("/spec/storageClassName").and_then(Value::as_str);
    annotation(claim, CLASS_ANNOTATION).or(named).unwrap_or_default()
}

impl Admission for PersistentVolumeClaimResize {
    fn handles(&self, request: &WriteRequest) -> bool {
        is_write_of(request, "", "persistentvolumeclaims", &[Operation::Update])
    }

    fn validate<'a>(&'a self, attributes: &'a Attributes) -> BoxFuture<'a, Result<(), ApiError>> {
        self.check(attributes).boxed()
    }
}
