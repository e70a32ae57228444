//! `/healthz`, `/livez` and `/readyz`, as a whole and check by check, and `/metrics/slis`.

use actix_web::{
    HttpResponse,
    http::{StatusCode, header},
};

use crate::{api::EdgeShared, exchange::CurrentExchange, respond, status};

/// `/healthz`, `/livez`, `/readyz`
pub(super) async fn all(exchange: CurrentExchange, api: EdgeShared) -> HttpResponse {
    let probe = exchange.info.path().trim_start_matches('/').to_owned();
    let excluded: Vec<&str> = exchange.query.all("exclude").collect();
    api.health.renew(&probe, &excluded).await;
    let (well, report) = api.health.report(&probe, &excluded);
    match (well, exchange.query.get("verbose").is_some()) {
        (true, false) => respond::text(StatusCode::OK, "ok"),
        (true, true) => respond::text(StatusCode::OK, report),
        (false, _) => respond::text(StatusCode::INTERNAL_SERVER_ERROR, report),
    }
}

/// `/healthz/{check}` and the like
pub(super) async fn one(exchange: CurrentExchange, api: EdgeShared) -> HttpResponse {
    let path = exchange.info.path().trim_start_matches('/');
    let Some((probe, name)) = path.split_once('/') else {
        return status::page_not_found();
    };
    let Some(check) = api.health.of(probe).find(|check| check.name == name) else {
        return status::page_not_found();
    };
    check.renew().await;
    match check.run() {
        Ok(()) => respond::text(StatusCode::OK, "ok"),
        Err(why) => respond::text(
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("internal server error: {why}\n"),
        ),
    }
}

/// `/metrics/slis`
pub(super) async fn slis(api: EdgeShared) -> HttpResponse {
    HttpResponse::build(StatusCode::OK)
        .insert_header((
            header::CONTENT_TYPE,
            "text/plain; version=0.0.4; charset=utf-8; escaping=underscores",
        ))
        .body(api.health.slis().render())
}
