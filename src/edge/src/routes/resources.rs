//! Paths of objects: finds the resource, holds the request against what the resource can do, and calls the verb.

use actix_web::{HttpRequest, HttpResponse, http::Method, web};
use trireme_machinery::ApiError;
use trireme_registry::{
    Backend, ResourceDefinition, Route, SubresourceDefinition, SubresourceKind, Verb, Verbs, request::Subresource,
    subresource::SubresourceRole,
};

use super::proxied;
use crate::{
    api::EdgeShared,
    compress,
    exchange::{CurrentExchange, Exchange},
    handlers::{self, ResourceCall, virtual_resource},
    installed_paths::not_found,
    metrics,
    request_info::{RequestInfo, RequestVerb, is_segment},
    respond::{self, HandlerResult},
    status,
    status::not_implemented,
};

/// Everything below `/api/{version}/` and `/apis/{group}/{version}/`.
pub(super) async fn dispatch(
    exchange: CurrentExchange,
    api: EdgeShared,
    request: HttpRequest,
    payload: web::Payload,
) -> HttpResponse {
    let info = &exchange.info;
    let are_complete = api.paths.are_complete();
    let surface = api.director.surface();
    if let Some(proxied) = surface.proxied(info.group(), info.version()) {
        return proxied::forward(&exchange, &api, &request, payload, proxied).await;
    }
    let Some(served) = surface.resource(info.group(), info.version(), info.resource()) else {
        if !surface.serves_built_in(info.group()) {
            return not_found(&exchange, are_complete);
        }
        return respond::finish(&exchange, Err(status::resource_not_found()));
    };
    if served.definition.is_custom && !is_in_scope(info, served.definition) {
        return status::page_not_found();
    }
    // It was authorized as `proxy`, so nothing else may come of it.
    if info.verb == RequestVerb::Proxy {
        return respond::finish(&exchange, Err(status::resource_not_found()));
    }
    let version = served.definition.versions.get(served.version);
    let is_routed = match exchange.info.verb {
        RequestVerb::Resource(verb) => !info.subresource().is_empty() || served.definition.verbs.contains(verb),
        RequestVerb::Proxy => false,
        _ => true,
    };
    let deprecation = version.and_then(|version| version.deprecation.as_ref());
    if let Some(deprecation) = deprecation.filter(|_| is_routed) {
        exchange.warn(&*deprecation.warning);
        let part = served.definition.subresource(exchange.info.subresource());
        metrics::record_deprecated(served.definition, served.version, part, &deprecation.removed_release);
        if !served.definition.is_custom {
            exchange.annotate("k8s.io/deprecated", "true");
            if !deprecation.removed_release.is_empty() {
                exchange.annotate("k8s.io/removed-release", &deprecation.removed_release);
            }
        }
    }
    // Set once: a request has one resource.
    let _ = exchange.resource.set(served.definition.clone());
    let answered = match served.backend {
        Backend::Stored(registry) => {
            let route = Route {
                registry: registry.clone(),
                version: served.version,
            };
            stored(exchange.clone(), api, request, payload, route).await
        }
        Backend::Virtual(backend) => {
            let call = virtual_resource::VirtualResourceCall {
                exchange: exchange.clone(),
                api,
                http: request,
                definition: served.definition.clone(),
                version: served.version,
                backend: backend.clone(),
                surface: surface.clone(),
            };
            not_stored(call, payload).await
        }
    };
    respond::finish(&exchange, answered)
}

async fn stored(
    exchange: CurrentExchange,
    api: EdgeShared,
    http: HttpRequest,
    payload: web::Payload,
    route: Route,
) -> HandlerResult {
    let definition = route.registry.info().clone();
    check_place(&exchange, &definition)?;
    let part = subresource(&exchange, &definition, route.version)?;
    let verbs = part.map_or(definition.verbs, |part| part.verbs);
    let verb = match part {
        Some(part) if exchange.method == Method::OPTIONS && is_proxy(part) => Verb::Get,
        _ => served_verb(&exchange, verbs, part)?,
    };
    if let Some(part) = part.filter(|part| part.role != SubresourceKind::Update) {
        let (name, call) = (part.name.clone(), call(exchange, api, http, route, Subresource::None));
        // The largest branch is the size of this future, and a future is copied on its way: what objects do not need is apart.
        return match part.role {
            SubresourceKind::Create => Box::pin(handlers::command::handle(&call, &name, payload)).await,
            _ => Box::pin(handlers::connection::handle(&call, &name, payload)).await,
        };
    }
    let needs_namespace = matches!(verb, Verb::Create | Verb::DeleteCollection);
    if definition.namespaced && exchange.info.namespace().is_empty() && needs_namespace {
        return Err(ApiError::method_not_allowed());
    }
    let part = part.map_or(Ok(Subresource::None), |part| part_of(&definition, part))?;
    let mut call = call(exchange, api, http, route, part);
    let answered = match verb {
        Verb::Watch => return read(&mut call, verb).await,
        Verb::Get | Verb::List => read(&mut call, verb).await,
        Verb::Create => handlers::create::handle(&call, payload).await,
        Verb::Update => handlers::update::handle(&call, payload).await,
        Verb::Patch => handlers::patch::handle(&call, payload).await,
        Verb::Delete => handlers::delete::handle(&call, payload).await,
        Verb::DeleteCollection => handlers::delete_collection::handle(&call, payload).await,
    };
    answered.map(|response| compress::large(call.api.features, &call.http, response))
}

/// Reads from the registry that serves the resource. If that is superseded meanwhile, its successor is asked.
async fn read(call: &mut ResourceCall, verb: Verb) -> HandlerResult {
    loop {
        let answered = match verb {
            Verb::List => handlers::list::handle(call).await,
            Verb::Watch => handlers::watch::handle(call).await,
            _ => handlers::get::handle(call).await,
        };
        match answered {
            Err(refusal) if call.route.registry.is_superseded() => route_anew(call, refusal)?,
            answered => return answered,
        }
    }
}

/// Routes a read whose registry is superseded. The surface names none that is.
///
/// # Errors
/// Those of a resource that does not serve such a read any more, and the refusal if there is no other registry after all.
fn route_anew(call: &mut ResourceCall, refusal: ApiError) -> Result<(), ApiError> {
    let (info, surface) = (&call.exchange.info, call.api.director.surface());
    let route = surface.find(info.group(), info.version(), info.resource());
    let route = route.ok_or_else(status::resource_not_found)?;
    if route.registry.cache_id() == call.route.registry.cache_id() {
        return Err(refusal);
    }
    let definition = route.registry.info();
    check_place(&call.exchange, definition)?;
    let part = subresource(&call.exchange, definition, route.version)?;
    served_verb(&call.exchange, part.map_or(definition.verbs, |part| part.verbs), part)?;
    call.subresource = part.map_or(Ok(Subresource::None), |part| part_of(definition, part))?;
    call.route = route;
    Ok(())
}

fn call(
    exchange: CurrentExchange,
    api: EdgeShared,
    http: HttpRequest,
    route: Route,
    subresource: Subresource,
) -> ResourceCall {
    ResourceCall {
        api,
        exchange,
        http,
        route,
        subresource,
    }
}

/// Reports whether a request has a namespace if the resource is namespaced, and has none otherwise. kube-apiserver passes
/// other requests for custom resources on, to a handler that answers 404.
fn is_in_scope(info: &RequestInfo, definition: &ResourceDefinition) -> bool {
    let has_namespace = !info.namespace().is_empty();
    let across_namespaces = matches!(info.verb, RequestVerb::Resource(Verb::List | Verb::Watch));
    has_namespace == definition.namespaced || definition.namespaced && across_namespaces
}

/// Holds namespace and name against the resource's scope and against what may stand in a key of the store.
fn check_place(exchange: &Exchange, resource: &ResourceDefinition) -> Result<(), ApiError> {
    let info = &exchange.info;
    // A namespace is, in `RequestInfo`'s view, in itself.
    let in_namespace = !info.namespace().is_empty() && info.namespace() != info.path_name();
    let itself = &*resource.resource.resource == "namespaces" && resource.resource.group.is_empty();
    let wrong_scope = if resource.namespaced {
        info.namespace().is_empty() && !info.path_name().is_empty()
    } else {
        !itself && !info.namespace().is_empty() || itself && in_namespace
    };
    if wrong_scope || (!info.rest().is_empty() && info.subresource() != "proxy") {
        return Err(status::resource_not_found());
    }
    for (what, text) in [("Name", info.path_name()), ("Namespace", info.namespace())] {
        if !text.is_empty() && !is_segment(text) {
            let why = match text {
                "." | ".." => format!("may not be '{text}'"),
                text if text.contains('/') => "may not contain '/'".to_owned(),
                text if text.contains('%') => "may not contain '%'".to_owned(),
                _ => "may not contain control characters".to_owned(),
            };
            let text = trireme_machinery::go_text::quote(text);
            return Err(ApiError::bad_request(format!(
                "{what} parameter invalid: {text}: {why}"
            )));
        }
    }
    Ok(())
}

/// The subresource that a request is for, if it is for one.
fn subresource<'d>(
    exchange: &Exchange,
    definition: &'d ResourceDefinition,
    version: usize,
) -> Result<Option<&'d SubresourceDefinition>, ApiError> {
    let name = exchange.info.subresource();
    if name.is_empty() {
        return Ok(None);
    }
    let version = definition.versions.get(version).unwrap_or_else(|| definition.stored());
    let mut subresources = definition.subresources_in(version);
    let known = subresources.find(|subresource| &*subresource.name == name);
    let known = known.ok_or_else(|| match definition.is_custom {
        true => ApiError::not_found(&definition.resource, exchange.info.path_name()),
        false => status::resource_not_found(),
    })?;
    Ok(Some(known))
}

/// The part of the object that an updating subresource is.
fn part_of(definition: &ResourceDefinition, part: &SubresourceDefinition) -> Result<Subresource, ApiError> {
    match &*part.name {
        "status" => Ok(Subresource::Status),
        "scale" if definition.scale.is_some() => Ok(Subresource::Scale),
        "finalize" => Ok(Subresource::Finalize),
        name => match definition.strategy.subresource(name) {
            Some(SubresourceRole::Update(updater)) => Ok(Subresource::Update(updater.name())),
            _ => Err(not_implemented(&format!("{}/{name}", definition.resource.resource))),
        },
    }
}

/// The verb of the request, if it is among `verbs` and served at such a path. HEAD is served by what is behind a proxy only.
fn served_verb(exchange: &Exchange, verbs: Verbs, part: Option<&SubresourceDefinition>) -> Result<Verb, ApiError> {
    let RequestVerb::Resource(verb) = exchange.info.verb else {
        return Err(ApiError::method_not_allowed());
    };
    let is_named = !exchange.info.path_name().is_empty();
    let is_served = match verb {
        Verb::Get | Verb::List | Verb::Watch => match exchange.method {
            Method::GET => true,
            Method::HEAD => part.is_some_and(is_proxy),
            _ => false,
        },
        Verb::Create => !is_named || part.is_some_and(|part| part.role != SubresourceKind::Update),
        Verb::Update | Verb::Patch => is_named,
        Verb::Delete | Verb::DeleteCollection => true,
    };
    if is_served && verbs.contains(verb) {
        Ok(verb)
    } else {
        Err(ApiError::method_not_allowed())
    }
}

/// Reports whether a subresource has what is behind a proxy, which may be asked with any method; no other has OPTIONS and HEAD.
fn is_proxy(part: &SubresourceDefinition) -> bool {
    part.role == SubresourceKind::Connect && &*part.name == "proxy"
}

/// Reports whether there is a path for the request at all, whatever its method: that of a single object, of a collection,
/// or of what all namespaces have is there for certain verbs only.
fn has_path(exchange: &Exchange, definition: &ResourceDefinition) -> bool {
    let info = &exchange.info;
    let in_scope = info.namespace().is_empty() != definition.namespaced;
    match info.path_name() {
        // Of what lives in namespaces, all there are can be listed.
        "" => in_scope || definition.namespaced && definition.verbs.contains(Verb::List),
        _ => {
            let of_objects = [Verb::Get, Verb::Update, Verb::Patch, Verb::Delete];
            in_scope && of_objects.into_iter().any(|verb| definition.verbs.contains(verb))
        }
    }
}

/// Resources that no registry keeps: reviews, bindings, component statuses.
async fn not_stored(call: virtual_resource::VirtualResourceCall, payload: web::Payload) -> HandlerResult {
    let (info, definition) = (&call.exchange.info, &call.definition);
    let is_known = info.subresource().is_empty() || definition.subresource(info.subresource()).is_some();
    if !is_known || !has_path(&call.exchange, definition) {
        return Err(status::resource_not_found());
    }
    match served_verb(&call.exchange, definition.verbs, None)? {
        Verb::Create => virtual_resource::create(&call, payload).await,
        Verb::Get => virtual_resource::get(&call).await,
        Verb::List => virtual_resource::list(&call).await,
        _ => Err(not_implemented(&definition.resource.resource)),
    }
}
