//! `/debug/flags/v`: how much is logged, to be changed while the server runs, as kube-apiserver has it beside its profiles.

use actix_web::{
    HttpRequest, HttpResponse,
    http::{Method, StatusCode, header},
    web,
};
use trireme_machinery::go_text::parse_uint;

use crate::{api::EdgeShared, body, exchange::CurrentExchange, respond, status};

const INDEX: &str = "<html>\n<head>\n<title>/debug/flags/</title>\n</head>\n<body>\n/debug/flags/<br>\n<br>\nflags:<br>\n\
    <table>\n<tr>v<br>\n</table>\n<br>\nfull flags configurable<br>\n</body>\n</html>\n";

/// `/debug/flags/` and what is below it that is no flag
pub(super) async fn index(api: EdgeShared) -> HttpResponse {
    if api.profiler.is_none() {
        return status::page_not_found();
    }
    HttpResponse::Ok()
        .insert_header((header::CONTENT_TYPE, "text/html; charset=utf-8"))
        .body(INDEX)
}

/// `/debug/flags/v`
pub(super) async fn verbosity(
    exchange: CurrentExchange,
    api: EdgeShared,
    request: HttpRequest,
    payload: web::Payload,
) -> HttpResponse {
    if api.profiler.is_none() {
        return status::page_not_found();
    }
    if request.method() != Method::PUT {
        return plain(StatusCode::NOT_ACCEPTABLE, "unsupported http method");
    }
    let bytes = match body::read(&api, &exchange, &request, payload).await {
        Ok(bytes) => bytes,
        Err(error) => return respond::finish(&exchange, Err(error)),
    };
    match parse_uint(&String::from_utf8_lossy(&bytes)) {
        Ok(level) => {
            tracing::info!(audit_id = %exchange.audit_id, level, "the verbosity of the log is changed");
            (api.set_verbosity)(u8::try_from(level).unwrap_or(u8::MAX));
            let text = format!("successfully set klog.logging.verbosity to {level}");
            plain(StatusCode::OK, &text)
        }
        Err(error) => plain(StatusCode::BAD_REQUEST, &error),
    }
}

fn plain(code: StatusCode, text: &str) -> HttpResponse {
    HttpResponse::build(code)
        .insert_header((header::CONTENT_TYPE, "text/plain"))
        .insert_header(("X-Content-Type-Options", "nosniff"))
        .body(format!("{text}\n"))
}
