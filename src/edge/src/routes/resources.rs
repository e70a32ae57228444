//! Paths of objects: finds the resource, holds the request against what the resource can do, and calls the verb.

use actix_web::{HttpRequest, HttpResponse, http::Method, web};
use trireme_kinds::data::ResourceData;
use trireme_machinery::{ApiError, Reason};
use trireme_registry::{ResourceInfo, Route, request::Subresource, subresource::SubresourceRole};

use crate::{
    api::Shared,
    exchange::{Current, Exchange},
    handlers::{self, Call},
    request_info::is_segment,
    respond::{self, Answered},
    reviews::{self, Review},
    status,
};

/// Resources that clients are told to leave: group, version, plural, warning.
const DEPRECATED: [(&str, &str, &str, &str); 2] = [
    (
        "",
        "v1",
        "endpoints",
        "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
    ),
    (
        "",
        "v1",
        COMPONENT_STATUSES,
        "v1 ComponentStatus is deprecated in v1.19+",
    ),
];

const COMPONENT_STATUSES: &str = "componentstatuses";

/// A resource that stands for a subresource, which the body's name is for: the resource, and whose subresource it is.
const LEGACY_BINDINGS: (&str, &str, &str) = ("bindings", "pods", "binding");

/// Everything below `/api/{version}/` and `/apis/{group}/{version}/`.
pub(super) async fn dispatch(
    exchange: Current,
    api: Shared,
    request: HttpRequest,
    payload: web::Payload,
) -> HttpResponse {
    let info = &exchange.info;
    if !api.catalogue.serves(info.group(), info.version()) {
        return status::page_not_found();
    }
    // It was authorized as `proxy`, so nothing else may come of it.
    if info.verb.as_str() == "proxy" {
        return respond::finish(&exchange, Err(status::resource_not_found()));
    }
    warn_if_deprecated(&exchange);
    let answered = match api
        .director
        .routes()
        .find(info.group(), info.version(), info.resource())
    {
        Some(route) => stored(exchange.clone(), api, request, payload, route).await,
        None => not_stored(&exchange, &api, &request, payload).await,
    };
    respond::finish(&exchange, answered)
}

fn warn_if_deprecated(exchange: &Exchange) {
    let info = &exchange.info;
    let place = (info.group(), info.version(), info.resource());
    for (group, version, resource, text) in DEPRECATED {
        if place == (group, version, resource) {
            exchange.warn(text);
        }
    }
}

/// What is asked of a resource, by method and by whether there is a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

impl Action {
    fn of(exchange: &Exchange) -> Option<Self> {
        let named = !exchange.info.path_name().is_empty();
        if exchange.info.verb.as_str() == "watch" {
            return (exchange.method == Method::GET).then_some(Self::Watch);
        }
        match (&exchange.method, named) {
            (&Method::GET, true) => Some(Self::Get),
            (&Method::GET, false) => Some(Self::List),
            (&Method::POST, _) => Some(Self::Create),
            (&Method::PUT, true) => Some(Self::Update),
            (&Method::PATCH, true) => Some(Self::Patch),
            (&Method::DELETE, true) => Some(Self::Delete),
            (&Method::DELETE, false) => Some(Self::DeleteCollection),
            _ => None,
        }
    }

    fn verb(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }
}

async fn stored(exchange: Current, api: Shared, http: HttpRequest, payload: web::Payload, route: Route) -> Answered {
    let resource = route.registry.info();
    // Set once: a request has one resource.
    let _ = exchange.resource.set(resource.clone());
    check_place(&exchange, resource)?;
    let data = api
        .catalogue
        .resource(&resource.resource.group, &resource.resource.resource);
    let asked = asked(&exchange, resource, data)?;
    let subresource = match asked {
        Asked::Object(subresource) => subresource,
        Asked::Create | Asked::Connect => Subresource::None,
    };
    let name = exchange.info.subresource().to_owned();
    let call = |exchange, api, http, route| Call {
        api,
        exchange,
        http,
        route,
        subresource,
    };
    match asked {
        Asked::Object(_) => {}
        Asked::Create => return handlers::command::handle(&call(exchange, api, http, route), &name, payload).await,
        Asked::Connect => return handlers::connection::handle(&call(exchange, api, http, route), &name).await,
    }
    let action = Action::of(&exchange).ok_or_else(ApiError::method_not_allowed)?;
    check_verb(&exchange, data, subresource, action)?;
    let needs_namespace = matches!(action, Action::Create | Action::DeleteCollection);
    if resource.namespaced && exchange.info.namespace().is_empty() && needs_namespace {
        return Err(ApiError::method_not_allowed());
    }
    let call = call(exchange, api, http, route);
    match action {
        Action::Get => handlers::get::handle(&call).await,
        Action::List => handlers::list::handle(&call).await,
        Action::Watch => handlers::watch::handle(&call).await,
        Action::Create => handlers::create::handle(&call, payload).await,
        Action::Update => handlers::update::handle(&call, payload).await,
        Action::Patch => handlers::patch::handle(&call, payload).await,
        Action::Delete => handlers::delete::handle(&call, payload).await,
        Action::DeleteCollection => handlers::delete_collection::handle(&call, payload).await,
    }
}

/// Holds namespace and name against the resource's scope and against what may stand in a key of the store.
fn check_place(exchange: &Exchange, resource: &ResourceInfo) -> Result<(), ApiError> {
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
            let text = trireme_machinery::field::quote(text);
            return Err(ApiError::bad_request(format!(
                "{what} parameter invalid: {text}: {why}"
            )));
        }
    }
    Ok(())
}

/// What a request is for.
enum Asked {
    /// An object, or a part of one.
    Object(Subresource),
    /// Something to be done to an object.
    Create,
    /// Somebody behind an object.
    Connect,
}

/// Finds out what the subresource is, if there is one. Of what is not the object itself it is also known that the
/// method is served.
fn asked(exchange: &Exchange, resource: &ResourceInfo, data: Option<&ResourceData>) -> Result<Asked, ApiError> {
    let info = &exchange.info;
    let name = info.subresource();
    if name.is_empty() {
        return Ok(Asked::Object(Subresource::None));
    }
    let known = data.and_then(|data| data.subresources.iter().find(|subresource| subresource.name == name));
    let known = known.ok_or_else(status::resource_not_found)?;
    let role = resource.strategy.subresource(name);
    match (name, &role) {
        ("status", _) => return Ok(Asked::Object(Subresource::Status)),
        ("scale", _) if resource.scale.is_some() => return Ok(Asked::Object(Subresource::Scale)),
        ("finalize", _) => return Ok(Asked::Object(Subresource::Finalize)),
        (_, Some(SubresourceRole::Update(updater))) => return Ok(Asked::Object(Subresource::Update(updater.name()))),
        _ => {}
    }
    let verb = subresource_verb(&exchange.method).ok_or_else(ApiError::method_not_allowed)?;
    if !known.verbs.iter().any(|known| known == verb) {
        return Err(ApiError::method_not_allowed());
    }
    match role {
        Some(SubresourceRole::Create(_)) => Ok(Asked::Create),
        Some(SubresourceRole::Connect(_)) => Ok(Asked::Connect),
        _ => Err(not_implemented(&format!("{}/{name}", info.resource()))),
    }
}

fn subresource_verb(method: &Method) -> Option<&'static str> {
    match *method {
        Method::GET | Method::HEAD => Some("get"),
        Method::POST => Some("create"),
        Method::PUT => Some("update"),
        Method::PATCH => Some("patch"),
        Method::DELETE => Some("delete"),
        _ => None,
    }
}

pub(crate) fn not_implemented(what: &str) -> ApiError {
    let text = format!("{what} is not implemented by this server yet");
    ApiError::new(Reason::NotImplemented, text)
}

fn check_verb(
    exchange: &Exchange,
    data: Option<&ResourceData>,
    subresource: Subresource,
    action: Action,
) -> Result<(), ApiError> {
    let named = !exchange.info.path_name().is_empty();
    if action == Action::Create && named {
        return Err(ApiError::method_not_allowed());
    }
    let Some(data) = data else { return Ok(()) };
    let verbs = match subresource {
        Subresource::None => Some(&data.verbs),
        _ => data
            .subresources
            .iter()
            .find(|known| known.name == exchange.info.subresource())
            .map(|known| &known.verbs),
    };
    if verbs.is_some_and(|verbs| verbs.iter().any(|verb| verb == action.verb())) {
        Ok(())
    } else {
        Err(ApiError::method_not_allowed())
    }
}

/// Whether there is a path for the request at all, whatever its method: that of a single object, of a collection, or of
/// what all namespaces have is there for certain verbs only.
fn has_path(exchange: &Exchange, data: &ResourceData) -> bool {
    let info = &exchange.info;
    let serves = |wanted: &[&str]| data.verbs.iter().any(|verb| wanted.contains(&verb.as_str()));
    let in_scope = info.namespace().is_empty() != data.namespaced;
    match info.path_name() {
        // Of what lives in namespaces, all there are can be listed.
        "" => in_scope || data.namespaced && serves(&["list"]),
        _ => in_scope && serves(&["get", "update", "patch", "delete"]),
    }
}

/// Resources that exist but are kept by no registry: reviews, bindings, component statuses.
async fn not_stored(exchange: &Current, api: &Shared, request: &HttpRequest, payload: web::Payload) -> Answered {
    let info = &exchange.info;
    let data = api.catalogue.resource(info.group(), info.resource());
    let data = data.filter(|data| data.versions.iter().any(|version| version.name == info.version()));
    let data = data.ok_or_else(status::resource_not_found)?;
    if !info.subresource().is_empty() && !data.subresources.iter().any(|known| known.name == info.subresource()) {
        return Err(status::resource_not_found());
    }
    if !has_path(exchange, data) {
        return Err(status::resource_not_found());
    }
    let action = Action::of(exchange).ok_or_else(ApiError::method_not_allowed)?;
    check_verb(exchange, Some(data), Subresource::None, action)?;
    if let Some(review) = Review::of(info.group(), info.resource()) {
        return reviews::create(exchange, api, request, payload, review, data).await;
    }
    if (info.group(), info.resource()) == ("", COMPONENT_STATUSES) {
        return match info.path_name() {
            "" => handlers::components::list(exchange, api).await,
            name => handlers::components::get(exchange, api, name).await,
        };
    }
    if (info.group(), info.resource()) == ("", LEGACY_BINDINGS.0) {
        let route = api.director.routes().find("", info.version(), LEGACY_BINDINGS.1);
        let call = Call {
            api: api.clone(),
            exchange: exchange.clone(),
            http: request.clone(),
            route: route.ok_or_else(status::resource_not_found)?,
            subresource: Subresource::None,
        };
        return handlers::command::handle(&call, LEGACY_BINDINGS.2, payload).await;
    }
    Err(not_implemented(info.resource()))
}
