//! The head before a body: `METHOD URL` on the first line, then headers, one a line.
//!
//! Invariants: the parts that a request is authorized by are pieces of its path, in order; options are read or refused
//! with an error of the client's; a continue token that is accepted stays within its collection and is written as it
//! was; whatever is negotiated is a media type that is served.

use trireme_edge::testing::{self as edge, Classified};
use trireme_machinery::{ApiError, Features, Reason, selector::FieldSelector};
use trireme_registry::{
    list_options::{self, ListQuery},
    request::{BodyFormat, ListOptions},
    testing,
};

use crate::{input::text_lines, world};

/// Checks the input as the head of a request.
pub fn check(data: &[u8]) {
    let mut lines = text_lines(data);
    let Some((method, url)) = lines.next().and_then(|line| line.split_once(' ')) else {
        return;
    };
    let (path, query) = url.split_once('?').unwrap_or((url, ""));
    let mut user_agent = None;
    for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
        match name {
            "Accept" => accept(value),
            "Content-Type" => content_type(value),
            "User-Agent" => user_agent = Some(value),
            "Authorization" => drop(edge::bearer_token(value)),
            _ => {}
        }
    }
    if let Some(classified) = edge::classify(method, path, query) {
        is_piecewise(&classified);
    }
    options(query, user_agent);
}

/// Group, version, namespace, resource, name and the rest are what stands between the slashes of the path.
fn is_piecewise(request: &Classified) {
    let [group, version, namespace, resource, name, subresource, rest] = &request.parts;
    if !request.is_resource {
        assert!(request.parts.iter().all(String::is_empty), "{request:?}");
        return;
    }
    let segments: Vec<&str> = request.path.trim_matches('/').split('/').collect();
    for part in [group, version, namespace, resource, name, subresource] {
        assert!(part.is_empty() || segments.contains(&part.as_str()), "{request:?}");
    }
    assert!(request.path.contains(rest.as_str()));
    let prefix = if group.is_empty() && segments.first() == Some(&"api") {
        1
    } else {
        2
    };
    assert_eq!(
        segments.get(prefix).copied().unwrap_or_default(),
        version,
        "{request:?}"
    );
    let named_by_selector = request.name != *name;
    let on_collection = matches!(request.verb.as_str(), "list" | "watch");
    assert!(!named_by_selector || (on_collection && name.is_empty()), "{request:?}");
    if request.verb == "watch" || subresource == "exec" {
        assert!(request.is_long_running);
    }
}

fn options(query: &str, user_agent: Option<&str>) {
    let (Some(pairs), Some(written)) = (edge::query_pairs(query), edge::write_options(query, user_agent)) else {
        return;
    };
    let first = |key: &str| pairs.iter().find(|(k, _)| k == key).map(|(_, value)| value.as_str());
    for written in written {
        match written {
            Ok(options) => assert!(options.field_manager.len() <= 128 && !options.field_manager.contains('\n')),
            Err(error) => is_the_clients(&error),
        }
    }
    if let Some(Err(error)) = edge::delete_options_in_query(query) {
        is_the_clients(&error);
    }
    if let Err(error) = list_options::get_freshness(first("resourceVersion")) {
        is_the_clients(&error);
    }
    let list = ListQuery {
        limit: first("limit"),
        continue_token: first("continue"),
        resource_version: first("resourceVersion"),
        resource_version_match: first("resourceVersionMatch"),
        label_selector: first("labelSelector"),
        field_selector: first("fieldSelector"),
        timeout_seconds: first("timeoutSeconds"),
        watch: first("watch"),
        allow_watch_bookmarks: first("allowWatchBookmarks"),
        send_initial_events: first("sendInitialEvents"),
    };
    for plural in ["pods", "configmaps", "events"] {
        let info = world::RESOURCES.iter().find(|info| &*info.resource.resource == plural);
        let info = info.expect("a built-in resource");
        match list.list(info, 0) {
            Ok((selection, options)) => {
                knows(&selection.fields, info);
                page(&options);
            }
            Err(error) => is_the_clients(&error),
        }
        if let Err(error) = list.watch(Features::default(), info, 0) {
            is_the_clients(&error);
        }
    }
}

/// A list that is accepted selects by fields of the resource.
fn knows(fields: &FieldSelector, info: &trireme_registry::ResourceDefinition) {
    for term in fields.terms() {
        let known = matches!(term.field.as_str(), "metadata.name" | "metadata.namespace")
            || info.selectable.iter().any(|field| *field.label == *term.field);
        assert!(known, "{term:?}");
    }
}

fn page(options: &ListOptions) {
    let Some(token) = &options.continue_token else { return };
    match testing::decode_continue_token(token) {
        Ok((start, revision)) => {
            assert!(
                start
                    .split('/')
                    .skip(usize::from(start.starts_with('/')))
                    .all(|s| !matches!(s, "" | "." | ".."))
            );
            let written = testing::encode_continue_token(&start, revision);
            assert_eq!(testing::decode_continue_token(&written), Ok((start, revision)));
        }
        Err(error) => assert_eq!(error.reason, Reason::BadRequest),
    }
}

fn accept(header: &str) {
    match edge::accept(Some(header)) {
        Ok(media_type) => assert!(edge::accept(Some(media_type)).is_ok_and(|again| again == media_type)),
        Err(error) => assert_eq!(error.reason, Reason::NotAcceptable),
    }
}

fn content_type(header: &str) {
    let _ = edge::is_patch_type(Some(header));
    match edge::body_format(Some(header)) {
        Ok(BodyFormat::Json | BodyFormat::Yaml | BodyFormat::Protobuf) => {}
        Err(error) => assert_eq!(error.reason, Reason::UnsupportedMediaType),
    }
}

/// 400, or 422 with what is wrong.
fn is_the_clients(error: &ApiError) {
    assert!(
        matches!(error.reason, Reason::BadRequest | Reason::Invalid),
        "{error:?}"
    );
    assert!(!error.message.is_empty());
}
