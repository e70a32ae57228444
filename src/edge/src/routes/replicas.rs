//! `/debug/replicas`: the replica group, and changes of its members. Authorized as every path that is no resource: who
//! may not do everything may not do this.

use actix_web::{HttpRequest, HttpResponse, http::StatusCode, web};
use serde_json::{Value, json};
use trireme_machinery::{ApiError, json as json_text};

use crate::{
    api::EdgeShared,
    body,
    exchange::CurrentExchange,
    respond::{self, HandlerResult},
};

const PATH: &str = "/debug/replicas";

/// GET `/debug/replicas`
pub(super) async fn show(exchange: CurrentExchange, api: EdgeShared) -> HttpResponse {
    let view = serde_json::to_value(api.replicas.view());
    let answered = view
        .map(|view| respond::json_value(&exchange, StatusCode::OK, &view))
        .map_err(ApiError::internal);
    respond::finish(&exchange, answered)
}

/// POST `/debug/replicas` with `{"address": "host:port"}`
pub(super) async fn add(
    exchange: CurrentExchange,
    api: EdgeShared,
    request: HttpRequest,
    payload: web::Payload,
) -> HttpResponse {
    let answered = async {
        let bytes = body::read(&api, &exchange, &request, payload).await?;
        let address = address(&bytes)?;
        tracing::info!(audit_id = %exchange.audit_id, address, "a replica is to be added to the group");
        api.replicas.add(address).await?;
        done(&exchange, StatusCode::CREATED)
    };
    respond::finish(&exchange, answered.await)
}

/// DELETE `/debug/replicas/{id}`
pub(super) async fn remove(exchange: CurrentExchange, api: EdgeShared) -> HttpResponse {
    let answered = async {
        let path = exchange.info.path();
        let id = path.strip_prefix(PATH).unwrap_or_default().trim_matches('/').to_owned();
        tracing::info!(audit_id = %exchange.audit_id, replica = id, "a replica is to be removed from the group");
        api.replicas.remove(id).await?;
        done(&exchange, StatusCode::OK)
    };
    respond::finish(&exchange, answered.await)
}

fn address(bytes: &[u8]) -> Result<String, ApiError> {
    let wanted = r#"the body must be {"address": "HOST:PORT"}"#;
    let decoded = json_text::decode(bytes).map_err(|error| ApiError::bad_request(format!("{wanted}: {error}")))?;
    let address = decoded.value.get("address").and_then(Value::as_str);
    let address = address.filter(|address| !address.is_empty());
    address.map(str::to_owned).ok_or_else(|| ApiError::bad_request(wanted))
}

fn done(exchange: &CurrentExchange, code: StatusCode) -> HandlerResult {
    let status = json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "code": code.as_u16(),
    });
    Ok(respond::json_value(exchange, code, &status))
}
