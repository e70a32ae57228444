//! `Content-Type`: what a request body is.

use trireme_machinery::{ApiError, ErrorDetails, Reason};
use trireme_registry::request::{BodyFormat, PatchKind};

const UNKNOWN_FORMAT: &str = "the body of the request was in an unknown format - accepted media types include: \
    application/json, application/yaml, application/vnd.kubernetes.protobuf";
const TEXT_FORMATS_ONLY: &str = "the body of the request was in an unknown format - accepted media types include: \
    application/json, application/yaml";
const CUSTOM_PATCHES_ONLY: &str = "the body of the request was in an unknown format - accepted media types include: \
    application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";

/// The kind of a PATCH body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PatchType {
    /// One of the kinds that the registry applies.
    Patch(PatchKind),
    /// Server-side apply.
    Apply,
}

/// The format of a body; without a `Content-Type` it is JSON.
///
/// # Errors
/// 415 for all other types.
pub(crate) fn body_format(content_type: Option<&str>) -> Result<BodyFormat, ApiError> {
    let media_type = content_type.map(essence).unwrap_or_default();
    if content_type.is_none_or(str::is_empty) || media_type.eq_ignore_ascii_case("application/json") {
        Ok(BodyFormat::Json)
    } else if media_type.eq_ignore_ascii_case("application/yaml") {
        Ok(BodyFormat::Yaml)
    } else if media_type.eq_ignore_ascii_case("application/vnd.kubernetes.protobuf") {
        Ok(BodyFormat::Protobuf)
    } else {
        Err(ApiError::new(Reason::UnsupportedMediaType, UNKNOWN_FORMAT))
    }
}

/// The refusal of protobuf for an object that has no protobuf form.
pub(crate) fn no_protobuf() -> ApiError {
    ApiError::new(Reason::UnsupportedMediaType, TEXT_FORMATS_ONLY)
}

/// The refusal of a patch of a custom resource.
pub(crate) fn no_such_custom_patch() -> ApiError {
    ApiError::new(Reason::UnsupportedMediaType, CUSTOM_PATCHES_ONLY)
}

/// The kind of a patch.
///
/// # Errors
/// 415 for all other types.
pub(crate) fn patch_type(content_type: Option<&str>) -> Result<PatchType, ApiError> {
    match content_type.map(essence).unwrap_or_default() {
        "application/json-patch+json" => Ok(PatchType::Patch(PatchKind::Json)),
        "application/merge-patch+json" => Ok(PatchType::Patch(PatchKind::Merge)),
        "application/strategic-merge-patch+json" => Ok(PatchType::Patch(PatchKind::StrategicMerge)),
        "application/apply-patch+yaml" => Ok(PatchType::Apply),
        _ => Err(
            ApiError::new(Reason::UnsupportedMediaType, "415: Unsupported Media Type")
                .with_details(ErrorDetails::default()),
        ),
    }
}

fn essence(content_type: &str) -> &str {
    content_type
        .split_once(';')
        .map_or(content_type, |(essence, _)| essence)
        .trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies() {
        for (content_type, expected) in [
            (None, Some(BodyFormat::Json)),
            (Some(""), Some(BodyFormat::Json)),
            (Some("application/json; charset=utf-8"), Some(BodyFormat::Json)),
            (Some("application/json;charset=latin1"), Some(BodyFormat::Json)),
            (Some("APPLICATION/JSON"), Some(BodyFormat::Json)),
            (Some("application/yaml"), Some(BodyFormat::Yaml)),
            (Some("text/yaml"), None),
            (Some("application/json/x"), None),
            (Some("application/vnd.kubernetes.protobuf"), Some(BodyFormat::Protobuf)),
            (
                Some("application/vnd.kubernetes.protobuf;stream=watch"),
                Some(BodyFormat::Protobuf),
            ),
            (Some("application/cbor"), None),
            (Some(";"), None),
            (Some("*/*"), None),
        ] {
            assert_eq!(body_format(content_type).ok(), expected, "{content_type:?}");
        }
    }

    #[test]
    fn patches() {
        for (content_type, expected) in [
            ("application/json-patch+json", Some(PatchType::Patch(PatchKind::Json))),
            ("application/merge-patch+json", Some(PatchType::Patch(PatchKind::Merge))),
            (
                "application/strategic-merge-patch+json; charset=utf-8",
                Some(PatchType::Patch(PatchKind::StrategicMerge)),
            ),
            ("application/apply-patch+yaml", Some(PatchType::Apply)),
            ("application/json", None),
            ("application/vnd.kubernetes.protobuf", None),
            ("", None),
        ] {
            assert_eq!(patch_type(Some(content_type)).ok(), expected, "{content_type:?}");
        }
    }

    #[test]
    fn the_refusal_names_what_is_accepted() {
        let message = body_format(Some("text/plain")).err().map(|error| error.message);
        assert_eq!(
            message.as_deref(),
            Some(
                "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf"
            )
        );
    }
}
