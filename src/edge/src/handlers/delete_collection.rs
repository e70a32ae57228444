//! DELETE of a collection.

use actix_web::web;
use trireme_registry::{DeletedCollection, request::DeleteCollectionRequest, versions};

use super::{ResourceCall, delete, list, list_query};
use crate::{negotiation::Produces, respond::HandlerResult};

/// Deletes the selected objects, and answers with their list.
pub(crate) async fn handle(call: &ResourceCall, payload: web::Payload) -> HandlerResult {
    let shape = list::ListShape::negotiate(&call.exchange, Produces::Documents, call.offered())?;
    let info = call.route.registry.info();
    let (selection, list) = list_query(&call.exchange.query).list(info, call.route.version)?;
    let deletion = delete::options(call, payload).await?;
    deletion.check_for_collection()?;
    delete::warn_of_default(call, &deletion.options);
    let request = DeleteCollectionRequest {
        target: call.target(),
        selection,
        list,
        options: deletion.options,
    };
    let DeletedCollection { mut page, warnings } = call.route.registry.delete_collection(request).await?;
    call.warn(warnings);
    page.items = versions::in_version(info, page.items, call.route.version).await?;
    shape.page(call, page).await
}
