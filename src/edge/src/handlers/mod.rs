//! Handlers of objects, one file a verb.
//!
//! `routes::resources` finds the resource and calls the verb. Each first agrees on the form of the answer, then
//! reads options and body, then asks the registry.

pub(crate) mod command;
pub(crate) mod connection;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod delete_collection;
mod event_writer;
pub(crate) mod get;
pub(crate) mod list;
mod object;
pub(crate) mod patch;
mod protobuf_list;
pub(crate) mod update;
pub(crate) mod virtual_resource;
pub(crate) mod watch;

use std::{borrow::Cow, sync::Arc};

use actix_web::{HttpRequest, http::header, web};
use bytes::Bytes;
use trireme_machinery::{ApiError, protobuf::MessageType};
use trireme_registry::{
    Route,
    list_options::ListQuery,
    protobuf,
    request::{Body, BodyFormat, CreationCheck, Subresource, Target},
    trace::TraceStep,
};

use crate::{
    api::EdgeShared,
    body,
    exchange::{CurrentExchange, header_text},
    filters::authorization::CreationAuthorization,
    negotiation::{self, OfferedForms},
    query::Query,
    wire,
};

/// A request for a resource that is served.
pub(crate) struct ResourceCall {
    /// The shared state.
    pub(crate) api: EdgeShared,
    /// The request.
    pub(crate) exchange: CurrentExchange,
    /// The request as actix-web has it: for headers.
    pub(crate) http: HttpRequest,
    /// The resource.
    pub(crate) route: Route,
    /// Which part of the object.
    pub(crate) subresource: Subresource,
}

impl ResourceCall {
    /// The object or collection that it is for.
    pub(crate) fn target(&self) -> Target {
        let info = &self.exchange.info;
        let namespaced = self.route.registry.info().namespaced;
        Target {
            version: self.route.version,
            namespace: if namespaced {
                info.namespace().to_owned()
            } else {
                String::new()
            },
            name: info.path_name().to_owned(),
            user: self.exchange.user(),
            trace: self.exchange.trace.clone(),
            audit: self.exchange.audit_notes(),
            webhooks: self.exchange.webhooks.clone(),
            fence: None,
            deadline: self.exchange.deadline.get(),
        }
    }

    /// Decides if the user may create what an update or an apply does not find.
    fn creation_check(&self) -> Arc<dyn CreationCheck> {
        Arc::new(CreationAuthorization {
            authorizer: Arc::clone(&self.api.authorizer),
            info: self.exchange.info.clone(),
        })
    }

    fn content_type(&self) -> Option<Cow<'_, str>> {
        header_text(self.http.headers(), header::CONTENT_TYPE)
    }

    /// The bytes of the body.
    ///
    /// # Errors
    /// As [`body::read`].
    async fn bytes(&self, payload: web::Payload) -> Result<Bytes, ApiError> {
        let body = body::read(&self.api, &self.exchange, &self.http, payload).await?;
        self.exchange.trace.pass(TraceStep::BodyRead);
        Ok(body)
    }

    /// The body of a create or update.
    ///
    /// # Errors
    /// 415 if it is of a media type that the resource is not written in, 413 if it is too large.
    async fn body(&self, payload: web::Payload) -> Result<Body, ApiError> {
        let format = negotiation::body_format(self.content_type().as_deref())?;
        if format == BodyFormat::Protobuf && !self.has_protobuf() {
            return Err(negotiation::no_protobuf());
        }
        let bytes = self.bytes(payload).await?;
        Ok(Body { bytes, format })
    }

    /// Reports whether objects of the resource have a protobuf form.
    fn has_protobuf(&self) -> bool {
        protobuf::is_served(self.route.registry.info(), self.route.version)
    }

    /// The forms of the resource's objects, or of the answers of the subresource.
    fn offered(&self) -> OfferedForms {
        let subresource = self.route.registry.info().subresource(self.subresource.name());
        OfferedForms {
            tables: subresource.is_none_or(|subresource| subresource.has_tables),
            protobuf: self.has_protobuf(),
        }
    }

    /// The type of the resource's objects in the version that is asked for.
    fn object_type(&self) -> Option<MessageType<'_>> {
        let info = self.route.registry.info();
        let version = info.versions.get(self.route.version)?;
        Some(protobuf::type_of(info, version))
    }

    /// The type of what a subresource is answered with: that of the resource's objects, unless it has one of its own.
    fn subresource_type(&self, name: &str) -> Option<MessageType<'_>> {
        let info = self.route.registry.info();
        let own = info.subresource(name).and_then(|part| part.type_name.as_deref());
        own.map_or_else(|| self.object_type(), |name| wire::named(&info.types, name))
    }

    fn warn(&self, warnings: Vec<String>) {
        for warning in warnings {
            self.exchange.warn(warning);
        }
    }
}

/// The query parameters of lists and watches.
fn list_query(query: &Query) -> ListQuery<'_> {
    ListQuery {
        limit: query.get("limit"),
        continue_token: query.get("continue"),
        resource_version: query.get("resourceVersion"),
        resource_version_match: query.get("resourceVersionMatch"),
        label_selector: query.get("labelSelector"),
        field_selector: query.get("fieldSelector"),
        timeout_seconds: query.get("timeoutSeconds"),
        watch: query.get("watch"),
        allow_watch_bookmarks: query.get("allowWatchBookmarks"),
        send_initial_events: query.get("sendInitialEvents"),
    }
}
