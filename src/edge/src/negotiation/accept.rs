//! `Accept`: which representation the client gets.

use std::cmp::Ordering;

use trireme_machinery::{ApiError, ErrorDetails, Reason};

/// The representations that kube-apiserver names in its refusals.
const MEDIA_TYPES: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";

/// The media types of a path in the eyes of kube-apiserver's router. It looks at a request before any other code
/// does, takes a media type only by its full name or as `*/*`, and knows no parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Produces {
    /// One object or document.
    Documents,
    /// A list, or a watch of it.
    Lists,
    /// JSON and nothing else.
    Json,
}

impl Produces {
    fn media_types(self) -> &'static [&'static str] {
        const ALL: [&str; 5] = [
            "application/json",
            "application/yaml",
            "application/vnd.kubernetes.protobuf",
            "application/json;stream=watch",
            "application/vnd.kubernetes.protobuf;stream=watch",
        ];
        let count = match self {
            Self::Json => 1,
            Self::Documents => 3,
            Self::Lists => ALL.len(),
        };
        ALL.get(..count).unwrap_or(&ALL)
    }

    /// Reports whether the router lets a request with this `Accept` header pass.
    ///
    /// # Errors
    /// 406.
    pub(crate) fn admit(self, header: Option<&str>) -> Result<(), ApiError> {
        let media_types = self.media_types();
        let fits = |clause: &str| {
            let essence = clause.split(';').next().unwrap_or_default().trim();
            essence == "*/*" || media_types.contains(&essence)
        };
        let header = header.unwrap_or_default().trim();
        if header.is_empty() || header.split(',').any(fits) {
            return Ok(());
        }
        let message = format!(
            "406: Not Acceptable\n\nAvailable representations: {}",
            media_types.join(", ")
        );
        Err(ApiError::new(Reason::NotAcceptable, message).with_details(ErrorDetails::default()))
    }
}

/// The encoding of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Format {
    #[default]
    Json,
    Yaml,
}

impl Format {
    /// Its media type.
    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Yaml => "application/yaml",
        }
    }
}

/// The part of an object that is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum View {
    /// All of it.
    #[default]
    Whole,
    /// A row of a Table.
    Table(MetaVersion),
    /// `PartialObjectMetadata`.
    Metadata(MetaVersion),
    /// `PartialObjectMetadataList`.
    MetadataList(MetaVersion),
}

/// A version of `meta.k8s.io`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MetaVersion {
    V1,
    V1Beta1,
}

impl MetaVersion {
    /// The `apiVersion`.
    pub(crate) fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "meta.k8s.io/v1",
            Self::V1Beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// The outcome of the negotiation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Accept<T> {
    pub(crate) format: Format,
    pub(crate) view: T,
}

/// The `as`, `g` and `v` of a clause.
#[derive(Debug, Clone, Copy, Default)]
struct Transform<'a> {
    kind: &'a str,
    group: &'a str,
    version: &'a str,
}

struct Clause<'a> {
    kind: &'a str,
    subtype: &'a str,
    quality: f32,
    transform: Transform<'a>,
    stream: Option<&'a str>,
}

/// Agrees on how objects are shown.
///
/// # Errors
/// 406, with one of two texts: either no media type fits or none of the transformations that are asked for.
pub(crate) fn negotiate_view(header: Option<&str>, produces: Produces) -> Result<Accept<View>, ApiError> {
    negotiate_among(header, produces, true)
}

/// The same of what is never shown as a Table: what has no columns, and watches that begin with a list.
///
/// # Errors
/// As [`negotiate_view`].
pub(crate) fn negotiate_without_tables(header: Option<&str>, produces: Produces) -> Result<Accept<View>, ApiError> {
    negotiate_among(header, produces, false)
}

fn negotiate_among(header: Option<&str>, produces: Produces, tables: bool) -> Result<Accept<View>, ApiError> {
    produces.admit(header)?;
    let accept = negotiate(header, |group, version, kind| {
        let version = match (group, version) {
            ("meta.k8s.io", "v1") => MetaVersion::V1,
            ("meta.k8s.io", "v1beta1") => MetaVersion::V1Beta1,
            _ => return None,
        };
        match kind {
            "Table" => tables.then_some(View::Table(version)),
            "PartialObjectMetadata" => Some(View::Metadata(version)),
            "PartialObjectMetadataList" => Some(View::MetadataList(version)),
            _ => None,
        }
    });
    accept.ok_or_else(no_transformation)
}

/// Agrees on a format and on one of the transformations that `offered` knows by group, version and kind; `None` if
/// there is nothing to agree on.
pub(crate) fn negotiate<T: Default>(
    header: Option<&str>,
    offered: impl Fn(&str, &str, &str) -> Option<T>,
) -> Option<Accept<T>> {
    let Some(header) = header.filter(|header| !header.trim().is_empty()) else {
        return Some(Accept {
            format: Format::Json,
            view: T::default(),
        });
    };
    let mut clauses: Vec<Clause<'_>> = header.split(',').filter_map(clause).collect();
    clauses.sort_by(preference);
    for clause in &clauses {
        let Some(format) = clause.format() else {
            continue;
        };
        if clause.stream.is_some_and(|stream| stream != "watch") {
            continue;
        }
        let transform = clause.transform;
        let view = if transform.kind.is_empty() {
            Some(T::default())
        } else {
            offered(transform.group, transform.version, transform.kind)
        };
        if let Some(view) = view {
            return Some(Accept { format, view });
        }
    }
    None
}

/// The refusal of a request for known media types in forms that are not offered.
pub(crate) fn no_transformation() -> ApiError {
    let message = format!("only the following media types are accepted: {MEDIA_TYPES}");
    ApiError::new(Reason::NotAcceptable, message)
}

impl Clause<'_> {
    fn format(&self) -> Option<Format> {
        match (self.kind, self.subtype) {
            ("*", "*") | ("application", "*" | "json") => Some(Format::Json),
            ("application", "yaml") => Some(Format::Yaml),
            _ => None,
        }
    }
}

fn clause(text: &str) -> Option<Clause<'_>> {
    let mut parts = text.split(';').map(str::trim);
    let media_type = parts.next().filter(|media_type| !media_type.is_empty())?;
    let (kind, subtype) = match media_type.split_once('/') {
        Some(both) => both,
        None if media_type == "*" => ("*", "*"),
        None => (media_type, ""),
    };
    let mut clause = Clause {
        kind,
        subtype,
        quality: 1.0,
        transform: Transform::default(),
        stream: None,
    };
    for (key, value) in parts.filter_map(|part| part.split_once('=')) {
        let value = value.trim().trim_matches('"');
        match key.trim() {
            "q" => clause.quality = value.parse().unwrap_or(1.0),
            "as" => clause.transform.kind = value,
            "g" => clause.transform.group = value,
            "v" => clause.transform.version = value,
            "stream" => clause.stream = Some(value),
            _ => {}
        }
    }
    Some(clause)
}

/// By quality; among equals wildcards come last. The sort is stable, so that else the client's order counts.
fn preference(a: &Clause<'_>, b: &Clause<'_>) -> Ordering {
    let wildcards = |clause: &Clause<'_>| (clause.kind == "*", clause.subtype == "*");
    b.quality
        .total_cmp(&a.quality)
        .then_with(|| wildcards(a).cmp(&wildcards(b)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(header: &str, expected: &str) {
        let text = match negotiate_view(Some(header), Produces::Documents) {
            Ok(accept) => format!("{:?} {:?}", accept.format, accept.view),
            Err(error) if error.details.is_some() => "406 type".to_owned(),
            Err(_) => "406 transformation".to_owned(),
        };
        assert_eq!(text, expected, "{header}");
    }

    #[test]
    fn formats() {
        check("", "Json Whole");
        check("application/json", "Json Whole");
        check("application/yaml", "Yaml Whole");
        check("*/*", "Json Whole");
        check("application/vnd.kubernetes.protobuf,application/json", "Json Whole");
        check("application/vnd.kubernetes.protobuf, */*", "Json Whole");
        check("application/json;q=0.5, application/yaml", "Yaml Whole");
        check("*/*, application/yaml", "Yaml Whole");
        check("application/json; charset=utf-8", "Json Whole");
        check("application/json;stream=watch", "Json Whole");
        check("image/png, application/yaml;q=0.1", "Yaml Whole");
    }

    #[test]
    fn views() {
        check(
            "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
            "Json Table(V1)",
        );
        check(
            "application/json;as=Table;v=v1beta1;g=meta.k8s.io",
            "Json Table(V1Beta1)",
        );
        check(
            "application/yaml;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
            "Yaml Metadata(V1)",
        );
        check(
            "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
            "Json MetadataList(V1)",
        );
        check(
            "application/json;as=Table;v=v9;g=meta.k8s.io,application/json",
            "Json Whole",
        );
        check(
            "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json",
            "Json Metadata(V1)",
        );
    }

    #[test]
    fn what_has_no_columns_is_no_table() {
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
        let agreed = |header: &str| negotiate_without_tables(Some(header), Produces::Lists).map(|accept| accept.view);
        assert_eq!(agreed(table), Err(no_transformation()));
        assert_eq!(agreed(&format!("{table},application/json")), Ok(View::Whole));
        let metadata = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
        assert_eq!(agreed(metadata), Ok(View::Metadata(MetaVersion::V1)));
    }

    #[test]
    fn refusals() {
        check("text/html", "406 type");
        check("text/*", "406 type");
        check("application/*", "406 type");
        check("*", "406 type");
        check("garbage", "406 type");
        check("image/png, text/plain", "406 type");
        check("application/apply-patch+yaml", "406 type");
        check("application/json;as=Nope;g=x;v=v1", "406 transformation");
        check("application/json;as=Table;g=meta.k8s.io;v=v2", "406 transformation");
        check("application/json;as=Table;v=v1;g=nope", "406 transformation");
        check("application/vnd.kubernetes.protobuf", "406 transformation");
        check("application/json;stream=other", "406 transformation");
    }

    #[test]
    fn each_path_names_what_it_can_be_answered_as() {
        let available = |produces: Produces| {
            let refused = produces.admit(Some("text/html")).expect_err("it is refused").message;
            let (_, available) = refused.split_once(": ").expect("it has a colon");
            available.split_once(": ").expect("it has two").1.to_owned()
        };
        assert_eq!(available(Produces::Json), "application/json");
        assert_eq!(available(Produces::Documents), MEDIA_TYPES);
        assert_eq!(
            available(Produces::Lists),
            format!("{MEDIA_TYPES}, application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch")
        );
        assert!(Produces::Json.admit(Some("application/yaml")).is_err());
        assert!(Produces::Json.admit(Some("text/html, */*;q=0.1")).is_ok());
    }

    #[test]
    fn the_texts_of_refusals() {
        let text = |header| {
            let refused = negotiate_view(Some(header), Produces::Documents);
            refused.err().map(|error| error.message)
        };
        assert_eq!(
            text("text/html").as_deref(),
            Some(
                "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, application/vnd.kubernetes.protobuf"
            )
        );
        assert_eq!(
            text("application/json;as=No").as_deref(),
            Some(
                "only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf"
            )
        );
    }
}
