//! GET of component statuses: every request looks at the components anew, and nothing is kept.

use actix_web::http::StatusCode;
use futures_util::future::join_all;
use serde_json::{Value, json};
use trireme_kinds::component_status;
use trireme_machinery::{ApiError, Object};
use trireme_registry::request::Selection;

use super::{list, list_query, object};
use crate::{
    api::Shared,
    components::ComponentStatuses,
    exchange::Current,
    negotiation::{MetaVersion, Produces, View},
    respond::{self, Answered},
    views::{IncludeObject, Tables, partial},
};

/// Looks at one component.
///
/// # Errors
/// 404 if there is none of the name.
pub(crate) async fn get(exchange: &Current, api: &Shared, name: &str) -> Answered {
    let shape = object::Shape::negotiate(exchange)?;
    let statuses = &api.component_statuses;
    if !statuses.components.names().contains(&name) {
        return Err(ApiError::not_found(&statuses.info.resource, name));
    }
    let status = statuses.look(name).await;
    let value = match shape.accept.view {
        View::Whole | View::MetadataList(_) => status,
        View::Metadata(version) => partial(&statuses.info, &status, version),
        View::Table(version) => table(api, version, shape.include, vec![status]),
    };
    Ok(respond::value(exchange, shape.accept.format, StatusCode::OK, &value))
}

/// Looks at all components that are selected, at once.
pub(crate) async fn list(exchange: &Current, api: &Shared) -> Answered {
    let shape = list::Shape::negotiate(exchange, Produces::Lists)?;
    let statuses = &api.component_statuses;
    let (selection, _) = list_query(&exchange.query).list(&statuses.info, 0)?;
    let names = statuses.components.names().iter();
    let names = names.filter(|name| is_selected(&selection, name));
    let found = join_all(names.map(|name| statuses.look(name))).await;
    let value = match shape.accept.view {
        View::Table(version) => table(api, version, shape.include, found),
        View::MetadataList(version) | View::Metadata(version) => {
            let partial = found.iter().map(|status| partial(&statuses.info, status, version));
            whole("PartialObjectMetadataList", version.api_version(), partial.collect())
        }
        View::Whole => whole(&statuses.info.list_kind, "v1", found.into_iter().map(as_item).collect()),
    };
    Ok(respond::value(exchange, shape.accept.format, StatusCode::OK, &value))
}

impl ComponentStatuses {
    async fn look(&self, name: &str) -> Value {
        let health = self.components.look(name).await;
        component_status(name, health.is_healthy, &health.message, &health.error)
    }
}

/// They have a name and nothing else to be selected by.
fn is_selected(selection: &Selection, name: &str) -> bool {
    selection.labels.matches(None)
        && selection
            .fields
            .matches_with(|field| (field == "metadata.name").then_some(name))
}

fn as_item(mut status: Value) -> Value {
    if let Some(fields) = status.as_object_mut() {
        fields.remove("kind");
        fields.remove("apiVersion");
    }
    status
}

fn whole(kind: &str, api_version: &str, items: Vec<Value>) -> Value {
    json!({"kind": kind, "apiVersion": api_version, "metadata": {}, "items": items})
}

fn table(api: &Shared, version: MetaVersion, include: IncludeObject, found: Vec<Value>) -> Value {
    let tables = Tables::new(&api.component_statuses.info, 0, version, include, &api.clock);
    let rows = found.into_iter().map(|status| tables.row_of_served(status)).collect();
    tables.table(Object::new(), tables.columns(), rows)
}
