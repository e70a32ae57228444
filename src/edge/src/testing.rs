//! For fuzzing: what reads the parts of a request before its body, without a connection around it.

use trireme_machinery::{ApiError, schema::TypeTable};
use trireme_registry::request::{BodyFormat, DeleteOptions, WriteOptions};

use crate::{
    delete_options,
    filters::authentication,
    negotiation,
    options::{self, OptionsVerb},
    query::Query,
    request_info::RequestInfo,
};

/// A request line, classified: what authorization and routing go by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Classified {
    /// True if it is for objects.
    pub is_resource: bool,
    /// True if it has no deadline.
    pub is_long_running: bool,
    /// The verb.
    pub verb: String,
    /// The path, decoded.
    pub path: String,
    /// Group, version, namespace, resource, name in the path, subresource and what follows; empty if absent.
    pub parts: [String; 7],
    /// The name in the path or in the field selector.
    pub name: String,
}

/// Classifies a request; `None` for a path or a query that is refused.
pub fn classify(method: &str, raw_path: &str, raw_query: &str) -> Option<Classified> {
    let info = RequestInfo::parse(method, raw_path, &Query::parse(Some(raw_query)).ok()?).ok()?;
    let parts = [
        info.group(),
        info.version(),
        info.namespace(),
        info.resource(),
        info.path_name(),
        info.subresource(),
        info.rest(),
    ];
    Some(Classified {
        is_resource: info.is_resource,
        is_long_running: info.is_long_running(),
        verb: info.verb.as_str().to_owned(),
        path: info.path().to_owned(),
        parts: parts.map(str::to_owned),
        name: info.name().to_owned(),
    })
}

/// The decoded pairs of a query; `None` for one that is refused.
pub fn query_pairs(raw_query: &str) -> Option<Vec<(String, String)>> {
    Some(Query::parse(Some(raw_query)).ok()?.pairs().to_vec())
}

/// Reads the options of a create, an update, a patch and an apply, in this order; `None` for a query that is refused.
pub fn write_options(raw_query: &str, user_agent: Option<&str>) -> Option<[Result<WriteOptions, ApiError>; 4]> {
    let query = Query::parse(Some(raw_query)).ok()?;
    let writes = [
        OptionsVerb::Create,
        OptionsVerb::Update,
        OptionsVerb::Patch,
        OptionsVerb::Apply,
    ];
    Some(writes.map(|write| options::read(&query, user_agent, write)))
}

/// Reads the options of a delete from a query, with the gate for unsafe deletions on; `None` for one that is refused.
///
/// # Errors
/// 400 or 422, as a client would get it.
pub fn delete_options_in_query(raw_query: &str) -> Option<Result<DeleteOptions, ApiError>> {
    let query = Query::parse(Some(raw_query)).ok()?;
    Some(delete_options::from_query(&query, true).map(|deletion| deletion.options))
}

/// Reads the options of a delete from a body, with the gate for unsafe deletions on.
///
/// # Errors
/// 400 or 422, as a client would get it.
pub fn delete_options_in_body(body: &[u8], format: BodyFormat, types: &TypeTable) -> Result<DeleteOptions, ApiError> {
    delete_options::from_body(body, format, types, true).map(|deletion| deletion.options)
}

/// Agrees on the media type of an answer.
///
/// # Errors
/// 406, as a client would get it.
pub fn accept(header: Option<&str>) -> Result<&'static str, ApiError> {
    let offered = negotiation::OfferedForms {
        tables: true,
        protobuf: true,
    };
    negotiation::negotiate_view(header, negotiation::Produces::Documents, offered)
        .map(|accept| accept.format.media_type())
}

/// The format that a `Content-Type` gives the body of a write.
///
/// # Errors
/// 415, as a client would get it.
pub fn body_format(header: Option<&str>) -> Result<BodyFormat, ApiError> {
    negotiation::body_format(header)
}

/// Reports whether a `Content-Type` is that of a patch.
pub fn is_patch_type(header: Option<&str>) -> bool {
    negotiation::patch_type(header).is_ok()
}

/// Indents JSON for people.
pub fn indent(json: &[u8]) -> Vec<u8> {
    negotiation::indent(json)
}

/// The token of an `Authorization` header.
pub fn bearer_token(header: &str) -> Option<&str> {
    authentication::bearer_token(header)
}
