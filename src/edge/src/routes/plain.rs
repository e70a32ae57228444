//! Paths that are no resources: version, metrics and the index of paths.

use actix_web::{
    HttpRequest, HttpResponse,
    http::{StatusCode, header},
};
use serde_json::json;

use crate::{api::EdgeShared, compress, exchange::CurrentExchange, negotiation::Produces, respond, status};

/// The paths beside the groups' and versions'.
const PATHS: [&str; 15] = [
    "/debug/actors",
    "/debug/breakers",
    "/debug/replicas",
    "/debug/unreadable-objects",
    "/healthz",
    "/healthz/ping",
    "/livez",
    "/livez/ping",
    "/metrics",
    "/metrics/slis",
    "/openapi/v2",
    "/openapi/v3",
    "/readyz",
    "/readyz/ping",
    "/version",
];

/// The version of Go that this is built with.
pub(super) const GO_VERSION: &str = "none";

/// Those that are there if the issuer of service-account tokens can be looked up.
const ISSUER_PATHS: [&str; 2] = ["/.well-known/openid-configuration", "/openid/v1/jwks"];

/// `/version`
pub(super) async fn version(exchange: CurrentExchange, api: EdgeShared) -> HttpResponse {
    let version = &api.version;
    let (major, minor) = ("1", "36");
    let value = json!({
        "major": major,
        "minor": minor,
        "emulationMajor": major,
        "emulationMinor": minor,
        "minCompatibilityMajor": major,
        "minCompatibilityMinor": "35",
        "gitVersion": version.git_version,
        "gitCommit": version.git_commit,
        "gitTreeState": "clean",
        "buildDate": version.build_date,
        "goVersion": GO_VERSION,
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, platform()),
    });
    let answered = Produces::Json
        .admit(exchange.accept.as_deref())
        .map(|()| respond::raw_json(StatusCode::OK, &value));
    respond::finish(&exchange, answered)
}

/// Below `/version` there is nothing.
pub(super) async fn below_version(exchange: CurrentExchange) -> HttpResponse {
    respond::finish(&exchange, Err(status::resource_not_found()))
}

/// The processor as Go calls it.
fn platform() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// `/metrics`
pub(super) async fn metrics(api: EdgeShared, request: HttpRequest) -> HttpResponse {
    let response = HttpResponse::Ok()
        .insert_header((
            header::CONTENT_TYPE,
            "text/plain; version=0.0.4; charset=utf-8; escaping=underscores",
        ))
        .body(api.metrics.render() + &api.aggregation.render_metrics());
    compress::any(&request, response)
}

/// `/`
pub(super) async fn index(api: EdgeShared) -> HttpResponse {
    let mut paths = api.director.surface().documents().paths();
    paths.extend(PATHS.map(str::to_owned));
    let zpages = [("/flagz", api.flagz.is_some()), ("/statusz", api.started.is_some())];
    paths.extend(
        zpages
            .iter()
            .filter(|(_, served)| *served)
            .map(|(path, _)| (*path).to_owned()),
    );
    if api.issuer.is_some() {
        paths.extend(ISSUER_PATHS.map(str::to_owned));
    }
    respond::raw_json(StatusCode::OK, &json!({"paths": paths}))
}
