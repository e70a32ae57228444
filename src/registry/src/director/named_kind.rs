//! Objects that name another kind than the one that they are written as: admission may have given them one.

use serde_json::Value;
use trireme_machinery::{ApiError, GroupVersion, GroupVersionKind, schema};

use super::ApiSurface;
use crate::write::{decode::check_kind, in_kind::strict_error};

impl ApiSurface {
    /// Refuses an object of a kind of Kubernetes that names another one, for kube-apiserver's reasons: it decodes the object as
    /// what it says it is, and cannot convert that into what it should be. What is left out is that of `kind`. `is_strict`: fields
    /// that the named kind does not have are an error.
    ///
    /// # Errors
    /// 500 with the text of the decoder or of the conversion.
    pub fn check_named_kind(&self, kind: &GroupVersionKind, object: &Value, is_strict: bool) -> Result<(), ApiError> {
        let text = |name: &str| object.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        let version = match text("apiVersion") {
            None => kind.group_version(),
            Some(given) => GroupVersion::parse(given)
                .ok_or_else(|| ApiError::internal(format!("unexpected GroupVersion string: {given}")))?,
        };
        let given = version.with_kind(text("kind").unwrap_or(&kind.kind));
        if given.kind == kind.kind && self.known_kinds().contains(&given) {
            return Ok(());
        }
        let Err(why) = check_kind(&given, kind, self.known_kinds()) else {
            return Ok(());
        };
        if !self.known_kinds().contains(&given) {
            return Err(ApiError::internal(why));
        }
        if let Some(definition) = self.of_kind(&version, &given.kind).map(|registry| registry.current())
            && let Some(served) = definition.version(&version.version)
            && served.schema.is_none()
        {
            let decoded = schema::decode(&definition.types, served.type_id, object.clone());
            let unknown = decoded.map_err(ApiError::internal)?.unknown;
            if is_strict && !unknown.is_empty() {
                return Err(strict_error(&unknown));
            }
        }
        Err(ApiError::unspecified(why))
    }
}
