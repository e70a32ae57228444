//! The subject of a URL: the rules of kube-apiserver's `RequestInfo`.
//!
//! Made once per request by the filter chain. Authorization and the handlers both work from it, and from nothing else,
//! so what was allowed is what is done.

#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use trireme_machinery::{
    percent,
    selector::{FieldSelector, LabelSelector},
};
use trireme_registry::Verb;

use crate::query::Query;

/// A request, classified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RequestInfo {
    /// True if it is for objects rather than for another path.
    pub(crate) is_resource: bool,
    /// `get`, `list`, `watch`, `create`, …; for other paths the method in lower case.
    pub(crate) verb: RequestVerb,
    path: String,
    parts: PathParts,
    /// The name that `fieldSelector=metadata.name=…` asks for on a collection.
    selected_name: Option<String>,
    /// The selectors of a request for a collection, as far as they can be parsed.
    fields: Option<FieldSelector>,
    labels: Option<LabelSelector>,
}

/// The verb of a request, for authorization, flow control, metrics and logs as for the handlers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RequestVerb {
    /// A verb of objects.
    Resource(Verb),
    /// The old form of a proxy, `/api/v1/proxy/…`.
    Proxy,
    /// A method that objects do not have.
    Unsupported,
    /// The method in lower case, of requests for other paths.
    Method(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct PathParts {
    group: PathSpan,
    version: PathSpan,
    namespace: PathSpan,
    resource: PathSpan,
    name: PathSpan,
    subresource: PathSpan,
    /// Whatever follows the subresource.
    rest: PathSpan,
}

/// A piece of the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct PathSpan {
    start: usize,
    end: usize,
}

/// A path that cannot be classified.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadPath {
    #[error("the path of the request is not properly encoded")]
    Encoding,
    #[error("unable to determine kind and namespace from url, {0}")]
    NoKind(String),
}

impl RequestVerb {
    pub(crate) fn as_str(&self) -> &str {
        match self {
            Self::Resource(verb) => verb.as_str(),
            Self::Proxy => "proxy",
            Self::Unsupported => "",
            Self::Method(method) => method,
        }
    }
}

impl RequestInfo {
    /// Classifies a request.
    pub(crate) fn parse(method: &str, raw_path: &str, query: &Query) -> Result<Self, BadPath> {
        let path = percent::decode(raw_path).ok_or(BadPath::Encoding)?.into_owned();
        let mut info = Self {
            is_resource: false,
            verb: RequestVerb::Method(method.to_ascii_lowercase()),
            path,
            parts: PathParts::default(),
            selected_name: None,
            fields: None,
            labels: None,
        };
        info.classify(method, query)?;
        Ok(info)
    }

    fn classify(&mut self, method: &str, query: &Query) -> Result<(), BadPath> {
        let spans = split(&self.path);
        let mut spans = spans.iter().copied();
        let count = spans.len();
        let Some(prefix) = spans.next() else { return Ok(()) };
        let grouped = match self.text(prefix) {
            "api" if count >= 3 => false,
            "apis" if count >= 4 => true,
            _ => return Ok(()),
        };
        if grouped {
            self.parts.group = spans.next().unwrap_or_default();
        }
        self.is_resource = true;
        self.parts.version = spans.next().unwrap_or_default();
        let mut rest: &[PathSpan] = &spans.collect::<Vec<_>>();
        let mut special = None;
        if let Some((first, after)) = rest.split_first() {
            special = special_verb(self.text(*first));
            if special.is_some() && after.is_empty() {
                return Err(BadPath::NoKind(self.path.clone()));
            }
            rest = if special.is_some() { after } else { rest };
        }
        self.locate(rest, special == Some(RequestVerb::Proxy));
        let is_named = !self.path_name().is_empty();
        let names_verb = special.is_some();
        self.verb = special.unwrap_or_else(|| object_verb(method, is_named, query));
        // Of a path that names its verb, such as `/api/v1/watch/pods`, selectors say nothing about what is authorized.
        if !names_verb {
            self.select(query);
        }
        Ok(())
    }

    /// Finds namespace, resource, name and subresource.
    fn locate(&mut self, mut rest: &[PathSpan], is_proxy: bool) {
        if let [first, namespace, after @ ..] = rest
            && self.text(*first) == "namespaces"
        {
            self.parts.namespace = *namespace;
            if let [next, ..] = after
                && !matches!(self.text(*next), "status" | "finalize")
            {
                rest = after;
            }
        }
        let part = |index: usize| rest.get(index).copied().unwrap_or_default();
        self.parts.resource = part(0);
        self.parts.name = part(1);
        if !is_proxy {
            self.parts.subresource = part(2);
        }
        if let (Some(first), Some(last)) = (rest.get(3), rest.last()) {
            self.parts.rest = PathSpan {
                start: first.start,
                end: last.end,
            };
        }
    }

    /// Reads the selectors of a request for a collection. The handlers refuse those that cannot be parsed.
    fn select(&mut self, query: &Query) {
        let RequestVerb::Resource(verb @ (Verb::List | Verb::Watch | Verb::DeleteCollection)) = self.verb else {
            return;
        };
        let given = |name| query.get(name).filter(|text| !text.is_empty());
        self.fields = given("fieldSelector").and_then(|text| FieldSelector::parse(text).ok());
        self.labels = given("labelSelector").and_then(|text| LabelSelector::parse(text).ok());
        if verb != Verb::DeleteCollection && self.path_name().is_empty() {
            let name = self.fields.as_ref();
            let name = name.and_then(|fields| fields.requires_exact_match("metadata.name"));
            self.selected_name = name.filter(|name| is_segment(name)).map(str::to_owned);
        }
    }

    fn text(&self, span: PathSpan) -> &str {
        self.path.get(span.start..span.end).unwrap_or("")
    }

    /// The path, decoded.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// The API group; empty for core.
    pub(crate) fn group(&self) -> &str {
        self.text(self.parts.group)
    }

    /// The API version.
    pub(crate) fn version(&self) -> &str {
        self.text(self.parts.version)
    }

    /// The namespace; empty at the cluster scope. A namespace is in itself.
    pub(crate) fn namespace(&self) -> &str {
        self.text(self.parts.namespace)
    }

    /// The plural.
    pub(crate) fn resource(&self) -> &str {
        self.text(self.parts.resource)
    }

    /// The subresource, or empty.
    pub(crate) fn subresource(&self) -> &str {
        self.text(self.parts.subresource)
    }

    /// The path after the subresource, or empty.
    pub(crate) fn rest(&self) -> &str {
        self.text(self.parts.rest)
    }

    /// The name in the path, or empty.
    pub(crate) fn path_name(&self) -> &str {
        self.text(self.parts.name)
    }

    /// The one name that the request is about, be it in the path or in a field selector; or empty.
    pub(crate) fn name(&self) -> &str {
        self.selected_name.as_deref().unwrap_or_else(|| self.path_name())
    }

    /// The field selector of a request for a collection.
    pub(crate) fn field_selector(&self) -> Option<&FieldSelector> {
        self.fields.as_ref()
    }

    /// The label selector of a request for a collection.
    pub(crate) fn label_selector(&self) -> Option<&LabelSelector> {
        self.labels.as_ref()
    }

    /// Reports whether the connection stays for as long as the client likes: such requests have no deadline and take no seat.
    pub(crate) fn is_long_running(&self) -> bool {
        if !self.is_resource {
            // A profile takes as long as it is asked to.
            return self.path.starts_with("/debug/pprof/");
        }
        matches!(self.verb, RequestVerb::Resource(Verb::Watch) | RequestVerb::Proxy)
            || matches!(self.subresource(), "attach" | "exec" | "proxy" | "log" | "portforward")
    }
}

fn special_verb(segment: &str) -> Option<RequestVerb> {
    match segment {
        "watch" => Some(RequestVerb::Resource(Verb::Watch)),
        "proxy" => Some(RequestVerb::Proxy),
        _ => None,
    }
}

/// The verb of a method on an object or a collection.
fn object_verb(method: &str, is_named: bool, query: &Query) -> RequestVerb {
    RequestVerb::Resource(match method {
        "POST" => Verb::Create,
        "PUT" => Verb::Update,
        "PATCH" => Verb::Patch,
        "GET" | "HEAD" if is_named => Verb::Get,
        "GET" | "HEAD" if query.flag("watch") => Verb::Watch,
        "GET" | "HEAD" => Verb::List,
        "DELETE" if is_named => Verb::Delete,
        "DELETE" => Verb::DeleteCollection,
        _ => return RequestVerb::Unsupported,
    })
}

/// Splits a path at its slashes, without the outer ones.
fn split(path: &str) -> Vec<PathSpan> {
    let inner = path.trim_matches('/');
    if inner.is_empty() {
        return Vec::new();
    }
    let offset = path.len().saturating_sub(path.trim_start_matches('/').len());
    let mut start = offset;
    inner
        .split('/')
        .map(|segment| {
            let span = PathSpan {
                start,
                end: start.saturating_add(segment.len()),
            };
            start = span.end.saturating_add(1);
            span
        })
        .collect()
}

/// Reports whether a text can be one segment of a path. kube-apiserver lets control characters pass, which no name has.
pub(crate) fn is_segment(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains(|c: char| matches!(c, '/' | '%') || c.is_control())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `verb group/version namespace resource name subresource`, with `-` for what is empty.
    fn check(method: &str, url: &str, expected: &str) {
        let (path, query) = url.split_once('?').unwrap_or((url, ""));
        let text = match RequestInfo::parse(method, path, &Query::parse(Some(query)).expect("is in order")) {
            Err(error) => error.to_string(),
            Ok(info) if !info.is_resource => format!("{} {}", info.verb.as_str(), info.path()),
            Ok(info) => {
                let or_dash = |text: &str| {
                    if text.is_empty() {
                        "-".to_owned()
                    } else {
                        text.to_owned()
                    }
                };
                [
                    info.verb.as_str(),
                    info.group(),
                    info.version(),
                    info.namespace(),
                    info.resource(),
                    info.name(),
                    info.subresource(),
                ]
                .map(or_dash)
                .join(" ")
            }
        };
        assert_eq!(text, expected, "{method} {url}");
    }

    #[test]
    fn resources() {
        check("GET", "/api/v1/namespaces", "list - v1 - namespaces - -");
        check("GET", "/api/v1/namespaces/other", "get - v1 other namespaces other -");
        check(
            "PUT",
            "/api/v1/namespaces/other/finalize",
            "update - v1 other namespaces other finalize",
        );
        check(
            "GET",
            "/api/v1/namespaces/other/status",
            "get - v1 other namespaces other status",
        );
        check("GET", "/api/v1/namespaces/other/pods", "list - v1 other pods - -");
        check("GET", "/api/v1/namespaces/other/pods/foo", "get - v1 other pods foo -");
        check("HEAD", "/api/v1/namespaces/other/pods/foo", "get - v1 other pods foo -");
        check("GET", "/api/v1/pods", "list - v1 - pods - -");
        check("HEAD", "/api/v1/pods", "list - v1 - pods - -");
        check("POST", "/api/v1/namespaces/n/pods", "create - v1 n pods - -");
        check(
            "DELETE",
            "/api/v1/namespaces/n/pods",
            "deletecollection - v1 n pods - -",
        );
        check("DELETE", "/api/v1/namespaces/n/pods/p", "delete - v1 n pods p -");
        check(
            "PATCH",
            "/apis/apps/v1/namespaces/n/deployments/d/scale",
            "patch apps v1 n deployments d scale",
        );
        check("GET", "/api/v1/nodes/n1/proxy/a/b", "get - v1 - nodes n1 proxy");
        check("TRACE", "/api/v1/pods", "- - v1 - pods - -");
        check("GET", "/apis/apps/v1/deployments/", "list apps v1 - deployments - -");
    }

    #[test]
    fn watches() {
        check(
            "GET",
            "/api/v1/namespaces/other/pods?watch=true",
            "watch - v1 other pods - -",
        );
        check("GET", "/api/v1/pods?watch=maybe", "watch - v1 - pods - -");
        check("GET", "/api/v1/pods?watch=false", "list - v1 - pods - -");
        check("GET", "/api/v1/namespaces/n/pods/p?watch=1", "get - v1 n pods p -");
        check("GET", "/api/v1/watch/pods", "watch - v1 - pods - -");
        check(
            "GET",
            "/api/v1/watch/namespaces/other/pods",
            "watch - v1 other pods - -",
        );
        check(
            "GET",
            "/api/v1/watch/namespaces/other/pods/p",
            "watch - v1 other pods p -",
        );
        check(
            "GET",
            "/apis/apps/v1/watch/deployments",
            "watch apps v1 - deployments - -",
        );
        check("GET", "/api/v1/proxy/nodes/n1/x", "proxy - v1 - nodes n1 -");
    }

    #[test]
    fn names_in_field_selectors() {
        check(
            "GET",
            "/api/v1/pods?fieldSelector=metadata.name%3Dx",
            "list - v1 - pods x -",
        );
        check(
            "GET",
            "/api/v1/pods?watch=1&fieldSelector=a%3Db,metadata.name%3D%3Dx",
            "watch - v1 - pods x -",
        );
        check(
            "GET",
            "/api/v1/pods?fieldSelector=metadata.name!%3Dx",
            "list - v1 - pods - -",
        );
        check(
            "GET",
            "/api/v1/pods?fieldSelector=metadata.name%3D..",
            "list - v1 - pods - -",
        );
        check(
            "GET",
            "/api/v1/pods?fieldSelector=metadata.name%3Da/b",
            "list - v1 - pods - -",
        );
        check(
            "GET",
            "/api/v1/pods?fieldSelector=metadata.name%3Da%5C,b",
            "list - v1 - pods a,b -",
        );
        check(
            "DELETE",
            "/api/v1/pods?fieldSelector=metadata.name%3Dx",
            "deletecollection - v1 - pods - -",
        );
    }

    #[test]
    fn paths_that_name_their_verb_are_authorized_without_selectors() {
        let url = "/api/v1/watch/namespaces/other/pods?labelSelector=a&fieldSelector=metadata.name%3Dx";
        check("GET", url, "watch - v1 other pods - -");
        let (path, query) = url.split_once('?').expect("there is one");
        let query = Query::parse(Some(query)).expect("is in order");
        let info = RequestInfo::parse("GET", path, &query).expect("is in order");
        assert_eq!((info.field_selector(), info.label_selector()), (None, None));
    }

    #[test]
    fn other_paths() {
        check("GET", "/", "get /");
        check("GET", "/api", "get /api");
        check("GET", "/api/v1", "get /api/v1");
        check("GET", "/api/v1/", "get /api/v1/");
        check("GET", "/apis/apps/v1", "get /apis/apps/v1");
        check("POST", "/healthz", "post /healthz");
        check("GET", "/%68ealthz", "get /healthz");
        check("GET", "/apiss/a/b/c/d", "get /apiss/a/b/c/d");
    }

    #[test]
    fn odd_paths() {
        check("GET", "/api/v1/namespaces/n/pods/a%2Fb", "get - v1 n pods a b");
        check("GET", "/api/v1//pods", "get - v1 - - pods -");
        check("GET", "/api/v1/namespaces/n/pods/..", "get - v1 n pods .. -");
        check(
            "GET",
            "/api/v1/pods/%zz",
            "the path of the request is not properly encoded",
        );
        check(
            "GET",
            "/api/v1/pods/%ff",
            "the path of the request is not properly encoded",
        );
        check(
            "GET",
            "/api/v1/watch",
            "unable to determine kind and namespace from url, /api/v1/watch",
        );
    }
}
