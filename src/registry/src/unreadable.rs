//! Stored values that cannot be read, and their errors.
//!
//! Such a value is neither an object nor the absence of one: its key is taken, and its content is unknown. So a read
//! that would have to show it fails, and names the key, instead of leaving it out.

use std::sync::Arc;

use trireme_machinery::{ApiError, ErrorDetails, Reason, StatusCause};
use trireme_storage::Revision;

use crate::{definition::ResourceDefinition, item::ItemKey, stored::ItemError};

/// The number of keys that an error names, as with kube-apiserver.
const NAMED_AT_MOST: usize = 100;
/// The step that fails for a value that is encrypted.
const TRANSFORM: &str = "data from the storage is not transformable";
/// The reason of a cause that names a key (`CauseTypeUnexpectedServerResponse`).
const UNEXPECTED: &str = "UnexpectedServerResponse";

/// A value that is there and cannot be read.
#[derive(Debug)]
pub struct UnreadableValue {
    /// The key within the resource.
    pub key: ItemKey,
    /// The revision of the last write.
    pub revision: Revision,
    /// The step that failed.
    problem: &'static str,
    /// The reason, for people.
    pub cause: Box<str>,
}

impl UnreadableValue {
    /// The value at a key within the resource that gave this error.
    pub(crate) fn new(key: ItemKey, revision: Revision, error: &ItemError) -> Arc<Self> {
        let source = std::error::Error::source(error);
        let cause = match source {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        };
        Arc::new(Self {
            key,
            revision,
            problem: match error {
                ItemError::Undecrypted(_) => TRANSFORM,
                _ => "object not decodable",
            },
            cause: cause.into(),
        })
    }

    /// The key in the store.
    pub fn storage_key(&self, info: &ResourceDefinition) -> String {
        format!("{}/{}", info.storage_prefix, self.key)
    }

    /// Reports whether it could not be decrypted: that may change without a write.
    pub(crate) fn is_undecrypted(&self) -> bool {
        self.problem == TRANSFORM
    }

    /// `Error` of a `StorageError` in `k8s.io/apiserver/pkg/storage`.
    fn text(&self, info: &ResourceDefinition) -> String {
        format!(
            "StorageError: corrupt object, Code: 7, Key: {}, ResourceVersion: 0, AdditionalErrorMsg: {} \
             revision={}: {}",
            self.storage_key(info),
            self.problem,
            self.revision,
            self.cause
        )
    }

    fn status_cause(&self, info: &ResourceDefinition) -> StatusCause {
        StatusCause {
            reason: UNEXPECTED.to_owned(),
            message: self.text(info),
            field: self.storage_key(info),
        }
    }

    /// The error for a request that is about this one object.
    pub(crate) fn error(&self, info: &ResourceDefinition) -> ApiError {
        let name = self.key.rsplit('/').next().unwrap_or_default();
        ApiError::new(
            Reason::StorageReadError,
            format!("Internal error occurred: {}", self.text(info)),
        )
        .with_details(details(info, name, vec![self.status_cause(info)]))
    }
}

/// The error for a request that is about all of these; `None` if there are none.
pub(crate) fn error_of_all<'a>(
    info: &ResourceDefinition,
    values: impl IntoIterator<Item = &'a Arc<UnreadableValue>>,
) -> Option<ApiError> {
    let mut values = values.into_iter();
    let mut causes: Vec<StatusCause> = values
        .by_ref()
        .take(NAMED_AT_MOST)
        .map(|value| value.status_cause(info))
        .collect();
    if causes.is_empty() {
        return None;
    }
    if values.next().is_some() {
        causes.push(StatusCause {
            reason: "FieldValueTooMany".to_owned(),
            message: "too many errors, the list is truncated".to_owned(),
            field: String::new(),
        });
    }
    let message = format!("failed to read one or more {} from the storage", info.resource);
    Some(ApiError::new(Reason::StorageReadError, message).with_details(details(info, "list", causes)))
}

fn details(info: &ResourceDefinition, name: &str, causes: Vec<StatusCause>) -> ErrorDetails {
    ErrorDetails {
        name: name.to_owned(),
        group: info.resource.group.to_string(),
        kind: info.resource.resource.to_string(),
        causes,
        ..ErrorDetails::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{configmaps, widgets};

    fn value(key: &str) -> Arc<UnreadableValue> {
        UnreadableValue::new(key.into(), 7, &ItemError::Unparsable("it is junk".to_owned()))
    }

    #[test]
    fn a_list_names_every_key_in_kube_apiservers_words() {
        let info = widgets();
        let error = error_of_all(&info, &[value("ns/a"), value("ns/b")]).expect("there are some");
        assert_eq!(error.reason, Reason::StorageReadError);
        assert_eq!(
            error.message,
            "failed to read one or more widgets.example.com from the storage"
        );
        let details = error.details.expect("there are details");
        assert_eq!(
            (&*details.name, &*details.group, &*details.kind),
            ("list", "example.com", "widgets")
        );
        let fields: Vec<_> = details.causes.iter().map(|cause| &*cause.field).collect();
        assert_eq!(fields, ["/registry/widgets/ns/a", "/registry/widgets/ns/b"]);
        assert_eq!(details.causes[0].reason, "UnexpectedServerResponse");
        assert_eq!(
            details.causes[0].message,
            "StorageError: corrupt object, Code: 7, Key: /registry/widgets/ns/a, ResourceVersion: 0, \
             AdditionalErrorMsg: object not decodable revision=7: value cannot be decoded: it is junk"
        );
        assert!(error_of_all(&info, &[]).is_none());
    }

    #[test]
    fn a_hundred_keys_are_named_and_that_there_are_more() {
        let many: Vec<_> = (0..101).map(|number| value(&format!("ns/{number}"))).collect();
        let causes = |values: &[Arc<UnreadableValue>]| {
            let error = error_of_all(&configmaps(), values).expect("there are some");
            error.details.expect("there are details").causes
        };
        assert_eq!(causes(&many[..100]).len(), 100);
        let causes = causes(&many);
        assert_eq!(causes.len(), 101);
        let last = causes.last().expect("there are some");
        assert_eq!((&*last.reason, &*last.field), ("FieldValueTooMany", ""));
    }
}
