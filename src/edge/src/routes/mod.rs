//! Which path goes to which handler.
//!
//! Paths of objects are distinguished from others by what [`crate::request_info`] made of them, once, so that it is the authorized
//! request that is carried out. They are matched by their first segment and a guard, as a pattern with variables is a
//! regular expression: a tenth of what the server does for a GET.

mod breakers;
mod debug;
mod debug_flags;
mod discovery;
pub(crate) mod health;
mod issuer;
mod openapi;
mod plain;
mod pprof;
mod proxied;
mod replicas;
mod resources;
mod zpages;

use std::rc::Rc;

use actix_web::{
    FromRequest, Handler, HttpResponse, Resource, Responder, Scope,
    guard::GuardContext,
    web::{self, ServiceConfig},
};
use trireme_machinery::ApiError;

use crate::{
    api::EdgeShared,
    exchange::{CurrentExchange, Exchange},
    installed_paths, respond,
};

/// Registers all routes; those that are used most come first, as they are tried in this order.
pub(crate) fn configure(config: &mut ServiceConfig) {
    config
        .service(objects("/api"))
        .service(objects("/apis"))
        .service(web::resource(["/api", "/api/"]).route(web::to(discovery::core)))
        .service(web::resource(["/apis", "/apis/"]).route(web::to(discovery::groups)))
        .service(web::resource(["/api/{version}", "/api/{version}/"]).route(web::to(discovery::core_version)))
        .service(web::resource(["/apis/{group}", "/apis/{group}/"]).route(web::to(discovery::group)))
        .service(
            web::resource(["/apis/{group}/{version}", "/apis/{group}/{version}/"]).route(web::to(discovery::version)),
        )
        .service(web::resource(["/healthz", "/livez", "/readyz"]).route(web::to(health::all)))
        .service(web::resource("/{probe:healthz|livez|readyz}/{check:.+}").route(web::to(health::one)))
        .service(web::resource("/openapi/v2").route(web::to(openapi::v2)))
        .service(web::resource(["/openapi/v3", "/openapi/v3/"]).route(web::to(openapi::v3_index)))
        .service(web::resource("/openapi/v3/{path:.+}").route(web::to(openapi::v3)))
        .service(
            web::resource(["/version", "/version/"])
                .route(web::get().to(plain::version))
                .default_service(web::to(refuse_method)),
        )
        .service(web::resource("/version/{path:.+}").route(web::to(plain::below_version)))
        .service(read_only(
            web::resource([
                "/.well-known/openid-configuration",
                "/.well-known/openid-configuration/",
            ]),
            issuer::configuration,
        ))
        .service(read_only(
            web::resource(["/openid/v1/jwks", "/openid/v1/jwks/"]),
            issuer::keys,
        ))
        .service(web::resource("/flagz").route(web::to(zpages::flagz)))
        .service(web::resource("/statusz").route(web::to(zpages::statusz)))
        .service(read_only(web::resource("/metrics"), plain::metrics))
        .service(read_only(web::resource("/metrics/slis"), health::slis))
        .service(read_only(web::resource("/debug/actors"), debug::actors))
        .service(read_only(web::resource("/debug/breakers"), breakers::show))
        .service(read_only(
            web::resource("/debug/unreadable-objects"),
            debug::unreadable_objects,
        ))
        .service(web::resource("/debug/api_priority_and_fairness/{table}").route(web::to(debug::flow_control)))
        .service(
            web::resource("/debug/replicas")
                .route(web::get().to(replicas::show))
                .route(web::head().to(replicas::show))
                .route(web::post().to(replicas::add))
                .default_service(web::to(refuse_method)),
        )
        .service(
            web::resource("/debug/replicas/{replica}")
                .route(web::delete().to(replicas::remove))
                .default_service(web::to(refuse_method)),
        )
        .service(web::resource("/debug/flags/v").route(web::to(debug_flags::verbosity)))
        .service(web::resource(["/debug/flags", "/debug/flags/{name:.*}"]).route(web::to(debug_flags::index)))
        .service(web::resource("/debug/pprof").route(web::to(pprof::with_slash)))
        .service(read_only(web::resource("/debug/pprof/"), pprof::index))
        .service(
            web::resource("/debug/pprof/profile")
                .route(web::get().to(pprof::profile))
                .default_service(web::to(refuse_method)),
        )
        .service(web::resource("/debug/pprof/{name}").route(web::to(pprof::absent)))
        .service(read_only(web::resource(["/", "/index.html"]), plain::index))
        .default_service(web::to(no_route));
}

async fn no_route(exchange: CurrentExchange, api: EdgeShared) -> HttpResponse {
    installed_paths::not_found(&exchange, api.paths.are_complete())
}

/// Everything below a first segment that is about objects; an empty group is none.
fn objects(prefix: &'static str) -> Scope {
    let is_resource = move |context: &GuardContext<'_>| {
        let extensions = context.req_data();
        extensions.get::<Rc<Exchange>>().is_some_and(|exchange| {
            let info = &exchange.info;
            info.is_resource && info.group().is_empty() == (prefix == "/api")
        })
    };
    web::scope(prefix)
        .guard(actix_web::guard::fn_guard(is_resource))
        .default_service(web::to(resources::dispatch))
}

/// A path that can be read and nothing else, in either way; kube-apiserver answers some of these to any method.
fn read_only<F, Args>(resource: Resource, handler: F) -> Resource
where
    F: Handler<Args>,
    Args: FromRequest + 'static,
    F::Output: Responder + 'static,
{
    resource
        .route(web::get().to(handler.clone()))
        .route(web::head().to(handler))
        .default_service(web::to(refuse_method))
}

async fn refuse_method(exchange: CurrentExchange) -> HttpResponse {
    respond::finish(&exchange, Err(ApiError::method_not_allowed()))
}
