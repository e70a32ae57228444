//! `Accept`: which representation the client gets.

use std::cmp::Ordering;

use trireme_machinery::{ApiError, ErrorDetails, Reason};

/// The representations that kube-apiserver names in its refusals.
const MEDIA_TYPES: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";

/// Headers with more clauses are sorted in another way, as by Go.
const MOST_INSERTED: usize = 12;

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
    /// A text. It is had only by who would take an object, though.
    Texts,
}

impl Produces {
    fn media_types(self) -> &'static [&'static str] {
        const ALL: [&str; 6] = [
            "text/plain",
            "application/json",
            "application/yaml",
            "application/vnd.kubernetes.protobuf",
            "application/json;stream=watch",
            "application/vnd.kubernetes.protobuf;stream=watch",
        ];
        let range = match self {
            Self::Json => 1..2,
            Self::Documents => 1..4,
            Self::Lists => 1..6,
            Self::Texts => 0..4,
        };
        ALL.get(range).unwrap_or(&ALL)
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
pub(crate) enum ResponseFormat {
    #[default]
    Json,
    Yaml,
    Protobuf,
}

impl ResponseFormat {
    /// All of them, first the one that a client gets who does not mind.
    const ALL: [Self; 3] = [Self::Json, Self::Yaml, Self::Protobuf];

    /// Its media type.
    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Yaml => "application/yaml",
            Self::Protobuf => "application/vnd.kubernetes.protobuf",
        }
    }

    /// The media type of a watch; `None` if there are no events in it.
    pub(crate) fn stream_media_type(self) -> Option<&'static str> {
        match self {
            Self::Json => Some("application/json"),
            Self::Yaml => None,
            Self::Protobuf => Some("application/vnd.kubernetes.protobuf;stream=watch"),
        }
    }
}

/// The part of an object that is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum ShownPart {
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
    pub(crate) format: ResponseFormat,
    pub(crate) view: T,
}

/// The forms of a resource's objects beside JSON and YAML of all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OfferedForms {
    /// Rows of Tables. What has no columns has none.
    pub(crate) tables: bool,
    /// Whole objects in protobuf. Custom resources have none, only their metadata.
    pub(crate) protobuf: bool,
}

/// The `as`, `g` and `v` of a clause.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Transform<'a> {
    pub(crate) kind: &'a str,
    pub(crate) group: &'a str,
    pub(crate) version: &'a str,
}

struct Clause<'a> {
    kind: &'a str,
    subtype: &'a str,
    quality: f32,
    /// Absent if there is none of the parameters.
    transform: Option<Transform<'a>>,
    stream: &'a str,
    /// `sv`, the version of the machinery's own types.
    server_version: &'a str,
    is_pretty: bool,
}

/// Agrees on how objects are shown.
///
/// # Errors
/// 406, with one of two texts: either no media type fits or none of the transformations that are asked for.
pub(crate) fn negotiate_view(
    header: Option<&str>,
    produces: Produces,
    offered: OfferedForms,
) -> Result<Accept<ShownPart>, ApiError> {
    // Custom resources do not go through the router, which has a text of its own.
    if offered.protobuf {
        produces.admit(header)?;
    }
    let accept = negotiate(header, |format, transform| offered.view(format, transform));
    accept.ok_or_else(no_transformation)
}

impl OfferedForms {
    fn view(self, format: ResponseFormat, transform: Option<Transform<'_>>) -> Option<ShownPart> {
        let Some(transform) = transform else {
            return (format != ResponseFormat::Protobuf || self.protobuf).then_some(ShownPart::Whole);
        };
        let version = match (transform.group, transform.version) {
            ("meta.k8s.io", "v1") => MetaVersion::V1,
            ("meta.k8s.io", "v1beta1") => MetaVersion::V1Beta1,
            _ => return None,
        };
        match transform.kind {
            "Table" => (self.tables && format != ResponseFormat::Protobuf).then_some(ShownPart::Table(version)),
            "PartialObjectMetadata" => Some(ShownPart::Metadata(version)),
            "PartialObjectMetadataList" => Some(ShownPart::MetadataList(version)),
            _ => None,
        }
    }
}

/// Agrees on a format in which a value is had as it is, such as an error.
pub(crate) fn negotiate_format(header: Option<&str>) -> Option<ResponseFormat> {
    let accept = negotiate(header, |_, transform| transform.is_none().then_some(()));
    accept.map(|accept| accept.format)
}

/// Agrees on a format and on what `offered` makes of it and of the transformation that is asked for; `None` if there is
/// nothing to agree on.
pub(crate) fn negotiate<T: Default>(
    header: Option<&str>,
    offered: impl Fn(ResponseFormat, Option<Transform<'_>>) -> Option<T>,
) -> Option<Accept<T>> {
    let Some(header) = header.filter(|header| !header.trim().is_empty()) else {
        return Some(Accept {
            format: ResponseFormat::Json,
            view: T::default(),
        });
    };
    let clauses = clauses(header);
    let choices = clauses
        .iter()
        .flat_map(|clause| ResponseFormat::ALL.map(|format| (clause, format)));
    choices
        .filter(|(clause, format)| clause.fits(*format))
        .find_map(|(clause, format)| offered(format, clause.transform).map(|view| Accept { format, view }))
}

/// The refusal of a request for known media types in forms that are not offered.
pub(crate) fn no_transformation() -> ApiError {
    let message = format!("only the following media types are accepted: {MEDIA_TYPES}");
    ApiError::new(Reason::NotAcceptable, message)
}

impl Clause<'_> {
    /// Reports whether the client takes the format, as a stream if it says so.
    fn fits(&self, format: ResponseFormat) -> bool {
        let named = match (self.kind, self.subtype) {
            ("*", "*") | ("application", "*") => true,
            (kind, subtype) => format.media_type().split_once('/') == Some((kind, subtype)),
        };
        named
            && (self.stream.is_empty() || self.stream == "watch" && format.stream_media_type().is_some())
            && matches!(self.server_version, "" | "v1")
    }
}

/// Reads a clause as `goautoneg` does: what it cannot make sense of is left out.
fn clause(text: &str) -> Option<Clause<'_>> {
    let (media_type, parameters) = text.split_once(';').unwrap_or((text, ""));
    let (kind, subtype) = media_type.split_once('/').unwrap_or((media_type, ""));
    let (kind, subtype) = match (kind.trim(), subtype.strip_suffix('/').unwrap_or(subtype).trim()) {
        ("*", "") => ("*", "*"),
        (_, subtype) if subtype.is_empty() || subtype.contains('/') => return None,
        both => both,
    };
    let mut clause = Clause {
        kind,
        subtype,
        quality: 1.0,
        transform: None,
        stream: "",
        server_version: "",
        is_pretty: false,
    };
    for parameter in parameters.split(';') {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let value = value.strip_suffix('=').unwrap_or(value);
        if !value.is_empty() && !value.contains('=') {
            clause.set(name.trim(), value);
        }
    }
    Some(clause)
}

impl<'a> Clause<'a> {
    fn set(&mut self, name: &str, value: &'a str) {
        let text = value.trim();
        match name {
            // One that is no number is none.
            "q" => self.quality = value.parse().unwrap_or(0.0),
            "as" => self.transform.get_or_insert_default().kind = text,
            "g" => self.transform.get_or_insert_default().group = text,
            "v" => self.transform.get_or_insert_default().version = text,
            "stream" => self.stream = text,
            "sv" => self.server_version = text,
            "pretty" => self.is_pretty = text == "1",
            _ => {}
        }
    }

    /// Reports whether it goes before another one in the eyes of `goautoneg`. That is no order: of `*/*;q=0.9` and
    /// `a/b;q=0.1` each goes before the other.
    fn goes_before(&self, other: &Self) -> bool {
        self.quality > other.quality
            || self.kind != "*" && other.kind == "*"
            || self.subtype != "*" && other.subtype == "*"
    }
}

/// The clauses of a header in the order in which they are tried.
fn clauses(header: &str) -> Vec<Clause<'_>> {
    let clauses = header.split(',').filter_map(clause);
    if header.split(',').nth(MOST_INSERTED).is_some() {
        let mut clauses: Vec<Clause<'_>> = clauses.collect();
        clauses.sort_by(preference);
        return clauses;
    }
    // Each goes as far to the front as those that it meets let it.
    clauses.fold(Vec::new(), |mut sorted, clause| {
        let stays = sorted.iter().rposition(|other| !clause.goes_before(other));
        sorted.insert(stays.map_or(0, |stays| stays.saturating_add(1)), clause);
        sorted
    })
}

/// The media types of a header, the preferred first.
pub(crate) fn preferred_types(header: &str) -> impl Iterator<Item = (&str, &str)> {
    clauses(header).into_iter().map(|clause| (clause.kind, clause.subtype))
}

/// Reports whether a header asks for text that is made for people, by the clause that is agreed on if its transformation is offered.
pub(super) fn asks_for_pretty(header: &str) -> bool {
    let is_served = |clause: &&Clause<'_>| ResponseFormat::ALL.iter().any(|format| clause.fits(*format));
    header.contains("pretty")
        && clauses(header)
            .iter()
            .find(is_served)
            .is_some_and(|clause| clause.is_pretty)
}

/// By quality; among equals wildcards come last. The sort is stable, so that else the client's order counts.
fn preference(a: &Clause<'_>, b: &Clause<'_>) -> Ordering {
    let wildcards = |clause: &Clause<'_>| (clause.kind == "*", clause.subtype == "*");
    b.quality
        .total_cmp(&a.quality)
        .then_with(|| wildcards(a).cmp(&wildcards(b)))
}

#[cfg(test)]
mod tests;
