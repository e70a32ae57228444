//! Which path goes to which handler.
//!
//! Paths of objects are one pattern each for the core group and the others: what they are about is worked out once, by
//! [`crate::request_info`], so that it is the authorized request that is carried out.

pub(crate) mod catalogue;
mod debug;
mod discovery;
pub(crate) mod health;
mod openapi;
mod plain;
mod resources;
mod review;

use actix_web::web::{self, ServiceConfig};

pub(crate) use resources::not_implemented;

use crate::status;

/// Registers all routes; those that are used most come first, as they are tried in this order.
pub(crate) fn configure(config: &mut ServiceConfig) {
    let objects = web::to(resources::dispatch);
    config
        .service(web::resource("/api/{version}/{rest:.+}").route(objects))
        .service(web::resource("/apis/{group}/{version}/{rest:.+}").route(web::to(resources::dispatch)))
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
        .service(web::resource(["/version", "/version/"]).route(web::to(plain::version)))
        .service(web::resource("/metrics").route(web::to(plain::metrics)))
        .service(web::resource("/debug/actors").route(web::to(debug::actors)))
        .service(web::resource("/").route(web::to(plain::index)))
        .default_service(web::to(|| async { status::page_not_found() }));
}
