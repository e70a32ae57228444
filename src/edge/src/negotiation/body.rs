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
    if !content_type.is_none_or(has_valid_parameters) {
        return Err(ApiError::new(Reason::UnsupportedMediaType, UNKNOWN_FORMAT));
    }
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

/// Reports whether all parameters of a media type have a name and a value, each name once, as Go's `mime.ParseMediaType` wants
/// it. Empty parameters at the end do no harm.
fn has_valid_parameters(content_type: &str) -> bool {
    let Some((_, mut rest)) = content_type.split_once(';') else {
        return true;
    };
    let mut names = Vec::new();
    while !rest.trim().is_empty() {
        let Some((name, after)) = rest.trim_start().split_once('=') else {
            return false;
        };
        let Some((value, after)) = parameter_value(after) else {
            return false;
        };
        let name = name.trim_end().to_ascii_lowercase();
        if !is_token(&name) || value.is_empty() || names.contains(&name) {
            return false;
        }
        names.push(name);
        rest = match after.trim_start() {
            "" => "",
            more => match more.strip_prefix(';') {
                Some(more) => more,
                None => return false,
            },
        };
    }
    true
}

/// The value that a text begins with, a token or a quoted string, and what follows it.
fn parameter_value(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start();
    if let Some(quoted) = text.strip_prefix('"') {
        let mut escaped = false;
        let end = quoted.find(|letter| {
            let is_end = letter == '"' && !escaped;
            escaped = letter == '\\' && !escaped;
            is_end
        })?;
        // With the quotes: an empty string is a value.
        return text.split_at_checked(end.saturating_add(2));
    }
    let end = text.find(|letter| !is_token_char(letter)).unwrap_or(text.len());
    text.split_at_checked(end)
}

fn is_token(text: &str) -> bool {
    !text.is_empty() && text.chars().all(is_token_char)
}

/// A character of a token of RFC 1521.
fn is_token_char(letter: char) -> bool {
    letter.is_ascii_graphic() && !r#"()<>@,;:\"/[]?="#.contains(letter)
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
