//! `AdmissionReview`: the request to a webhook about a write.

use serde_json::{Value, json};
use trireme_machinery::ApiError;
use trireme_registry::Attributes;

use super::configuration::ReviewVersion;
use crate::{admission_request::admission_request, matching::MatchedKind};

/// The objects of a write in the kind that a webhook's rules match.
pub(super) struct ReviewedObjects {
    pub(super) object: Option<Value>,
    pub(super) old_object: Option<Value>,
}

impl ReviewedObjects {
    /// Converts the objects of a write.
    ///
    /// # Errors
    /// If they cannot be converted.
    pub(super) async fn of(attributes: &Attributes, matched: &MatchedKind) -> Result<Self, ApiError> {
        let version = matched.resource.group_version();
        let object = match &attributes.object {
            Some(object) => Some(attributes.object_in(&version, object).await?),
            None => None,
        };
        let old_object = match attributes.old_object.as_deref() {
            Some(object) => Some(attributes.object_in(&version, object).await?),
            None => None,
        };
        Ok(Self { object, old_object })
    }
}

/// The review of a write.
pub(super) fn review(
    attributes: &Attributes,
    matched: &MatchedKind,
    objects: &ReviewedObjects,
    version: ReviewVersion,
    uid: &str,
) -> Value {
    let mut request = admission_request(attributes, matched);
    let own = [
        ("uid", uid.into()),
        ("object", objects.object.clone().unwrap_or_default()),
        ("oldObject", objects.old_object.clone().unwrap_or_default()),
    ];
    request.extend(own.map(|(name, value)| (name.to_owned(), value)));
    json!({
        "kind": "AdmissionReview",
        "apiVersion": format!("admission.k8s.io/{}", version.name()),
        "request": request,
    })
}
