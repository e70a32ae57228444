//! `/api` and `/apis`: what groups, versions and resources there are.

use actix_web::{
    HttpRequest, HttpResponse,
    http::{Method, header},
    web,
};
use trireme_machinery::ApiError;
use trireme_registry::{ApiSurface, documents::Document};

use super::proxied;
use crate::{
    api::EdgeShared,
    compress,
    exchange::{CurrentExchange, Exchange},
    installed_paths::not_found,
    negotiation::{self, Accept, Produces, Transform, negotiate},
    respond::{self, HandlerResult},
    status,
};

/// The form of the groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Form {
    /// One document each for groups, versions and resources.
    #[default]
    Plain,
    /// All in one `APIGroupDiscoveryList`.
    Aggregated,
}

/// `/api`
pub(super) async fn core(exchange: CurrentExchange, api: EdgeShared, request: HttpRequest) -> HttpResponse {
    let answered = negotiate_form(&exchange, Routed::Yes).map(|accept| {
        let surface = api.director.surface();
        let aggregated = surface.documents().aggregated_core();
        let response = tagged(&exchange, &request, accept, &api.api_versions, aggregated);
        compress::large(api.features, &request, response)
    });
    respond::finish(&exchange, read_only(&exchange, answered))
}

/// `/apis`, which kube-apiserver answers whatever the method is.
pub(super) async fn groups(exchange: CurrentExchange, api: EdgeShared, request: HttpRequest) -> HttpResponse {
    let surface = api.director.settled_surface().await;
    let documents = surface.documents();
    let answered = negotiate_form(&exchange, Routed::No).map(|accept| {
        let (plain, aggregated) = (documents.group_list(), documents.aggregated_groups());
        let response = tagged(&exchange, &request, accept, plain, aggregated);
        compress::large(api.features, &request, response)
    });
    respond::finish(&exchange, answered)
}

/// `/apis/{group}`, with any method, too.
pub(super) async fn group(exchange: CurrentExchange, api: EdgeShared) -> HttpResponse {
    let name = segment(&exchange, 1).to_owned();
    let are_complete = api.paths.are_complete();
    let surface = api.director.settled_surface().await;
    plain(&exchange, are_complete, Routed::No, surface.documents().group(&name))
}

/// `/api/{version}`
pub(super) async fn core_version(exchange: CurrentExchange, api: EdgeShared) -> HttpResponse {
    let version = segment(&exchange, 1).to_owned();
    resource_list(&exchange, &api, &api.director.surface(), "", &version)
}

/// `/apis/{group}/{version}`
pub(super) async fn version(
    exchange: CurrentExchange,
    api: EdgeShared,
    request: HttpRequest,
    payload: web::Payload,
) -> HttpResponse {
    let (group, version) = (segment(&exchange, 1).to_owned(), segment(&exchange, 2).to_owned());
    let surface = api.director.settled_surface().await;
    if let Some(proxied) = surface.proxied(&group, &version) {
        return proxied::forward(&exchange, &api, &request, payload, proxied).await;
    }
    resource_list(&exchange, &api, &surface, &group, &version)
}

/// The resources of a version. A built-in group answers itself for versions that it does not have.
fn resource_list(
    exchange: &Exchange,
    api: &EdgeShared,
    surface: &ApiSurface,
    group: &str,
    version: &str,
) -> HttpResponse {
    let are_complete = api.paths.are_complete();
    let list = surface.documents().resource_list(group, version);
    if list.is_none() && surface.serves_built_in(group) {
        return respond::finish(exchange, Err(status::resource_not_found()));
    }
    plain(exchange, are_complete, Routed::Yes, list)
}

fn segment(exchange: &Exchange, index: usize) -> &str {
    exchange
        .info
        .path()
        .trim_start_matches('/')
        .split('/')
        .nth(index)
        .unwrap_or_default()
}

/// The routers of kube-apiserver: some paths go through one that has its own say about media types.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Routed {
    Yes,
    No,
}

/// Agrees on a form; the router comes first.
fn agree<T: Default>(
    exchange: &Exchange,
    routed: Routed,
    offered: impl Fn(Option<Transform<'_>>) -> Option<T>,
) -> Result<Accept<T>, ApiError> {
    let header = exchange.accept.as_deref();
    if routed == Routed::Yes {
        Produces::Documents.admit(header)?;
    }
    negotiate(header, |_, transform| offered(transform)).ok_or_else(negotiation::no_transformation)
}

fn negotiate_form(exchange: &Exchange, routed: Routed) -> Result<Accept<Form>, ApiError> {
    let offered = |transform: Option<Transform<'_>>| {
        let Some(Transform { group, version, kind }) = transform else {
            return Some(Form::Plain);
        };
        let known = (group, version, kind) == ("apidiscovery.k8s.io", "v2", "APIGroupDiscoveryList");
        known.then_some(Form::Aggregated)
    };
    agree(exchange, routed, offered)
}

fn plain(exchange: &Exchange, are_complete: bool, routed: Routed, document: Option<&Document>) -> HttpResponse {
    let Some(document) = document else {
        return not_found(exchange, are_complete);
    };
    let offered = |transform: Option<Transform<'_>>| transform.is_none().then_some(());
    let answered = agree(exchange, routed, offered).map(|accept| respond::document(exchange, accept.format, document));
    match routed {
        Routed::Yes => respond::finish(exchange, read_only(exchange, answered)),
        Routed::No => respond::finish(exchange, answered),
    }
}

fn read_only(exchange: &Exchange, answered: HandlerResult) -> HandlerResult {
    if exchange.method == Method::GET {
        answered
    } else {
        Err(ApiError::method_not_allowed())
    }
}

fn tagged(
    exchange: &Exchange,
    request: &HttpRequest,
    accept: Accept<Form>,
    plain: &Document,
    aggregated: &Document,
) -> HttpResponse {
    let vary = (header::VARY, "Accept");
    // As kube-apiserver has it, whose discovery documents are the same for all users.
    let cached = (header::CACHE_CONTROL, "public");
    if accept.view == Form::Plain {
        let mut response = respond::document(exchange, accept.format, plain);
        response
            .headers_mut()
            .insert(vary.0, header::HeaderValue::from_static(vary.1));
        return response;
    }
    let known = request
        .headers()
        .get(header::IF_NONE_MATCH)
        .and_then(|value| value.to_str().ok());
    let etag = aggregated.etag();
    if known == Some(&etag) {
        return HttpResponse::NotModified()
            .insert_header((header::ETAG, &*etag))
            .insert_header(vary)
            .insert_header(cached)
            .finish();
    }
    let media_type = format!(
        "{};g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        accept.format.media_type()
    );
    let mut response = respond::document(exchange, accept.format, aggregated);
    let headers = response.headers_mut();
    for (name, text) in [vary, cached] {
        headers.insert(name, header::HeaderValue::from_static(text));
    }
    for (name, text) in [(header::CONTENT_TYPE, &media_type), (header::ETAG, &etag)] {
        if let Ok(value) = header::HeaderValue::from_str(text) {
            headers.insert(name, value);
        }
    }
    response
}
