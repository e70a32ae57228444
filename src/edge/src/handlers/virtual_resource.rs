//! Requests for resources that are not stored: the handler of the resource answers, and this shows the answer.

use std::sync::Arc;

use actix_web::{
    HttpRequest,
    http::{StatusCode, header},
    web,
};
use serde_json::{Value, json};
use trireme_machinery::{Object, protobuf::MessageType};
use trireme_registry::{
    ApiSurface, ResourceDefinition, ServedVersion, VirtualBackend, VirtualCall, protobuf,
    request::{Body, BodyFormat, CreateRequest, Target},
    trace::TraceStep,
};

use super::{list, list_query, object};
use crate::{
    api::EdgeShared,
    body,
    exchange::{CurrentExchange, header_text},
    negotiation::{self, MetaVersion, OfferedForms, Produces, ShownPart, negotiate_view},
    options::{self, OptionsVerb},
    respond::{self, HandlerResult},
    views::{IncludeObject, Tables, partial, to_stored},
    wire::{self, PARTIAL, PARTIAL_LIST},
};

/// A request for a virtual resource.
pub(crate) struct VirtualResourceCall {
    pub(crate) api: EdgeShared,
    pub(crate) exchange: CurrentExchange,
    pub(crate) http: HttpRequest,
    pub(crate) definition: Arc<ResourceDefinition>,
    /// The served version.
    pub(crate) version: usize,
    pub(crate) backend: VirtualBackend,
    pub(crate) surface: Arc<ApiSurface>,
}

impl VirtualResourceCall {
    fn target(&self) -> Target {
        let info = &self.exchange.info;
        Target {
            version: self.version,
            namespace: info.namespace().to_owned(),
            name: info.path_name().to_owned(),
            user: self.exchange.user(),
            trace: self.exchange.trace.clone(),
            audit: self.exchange.audit_notes(),
            webhooks: self.exchange.webhooks.clone(),
            fence: None,
            deadline: self.exchange.deadline.get(),
        }
    }

    fn circumstances(&self) -> VirtualCall {
        VirtualCall {
            definition: self.definition.clone(),
            surface: self.surface.clone(),
            admission: self.backend.admission.clone(),
        }
    }

    fn served(&self) -> &ServedVersion {
        let version = self.definition.versions.get(self.version);
        version.unwrap_or_else(|| self.definition.stored())
    }

    fn offered(&self) -> OfferedForms {
        OfferedForms {
            tables: true,
            protobuf: protobuf::is_served(&self.definition, self.version),
        }
    }

    fn object_type(&self) -> MessageType<'_> {
        protobuf::type_of(&self.definition, self.served())
    }

    fn table(&self, version: MetaVersion, include: IncludeObject, objects: Vec<Value>) -> Value {
        let tables = Tables::new(&self.definition, self.version, version, include, &self.api.clock);
        let rows = objects.into_iter().map(|object| tables.row_of_served(object)).collect();
        tables.table(Object::new(), tables.columns(), rows)
    }

    fn partial(&self, object: Value, version: MetaVersion) -> Value {
        let stored = to_stored(&self.definition, self.version, object);
        partial(&self.definition, &stored, version)
    }
}

/// POST: answers with what the handler made of the body, or with a `Status`.
pub(crate) async fn create(call: &VirtualResourceCall, payload: web::Payload) -> HandlerResult {
    let exchange = &call.exchange;
    let offered = OfferedForms {
        tables: false,
        ..call.offered()
    };
    let accept = negotiate_view(exchange.accept.as_deref(), Produces::Documents, offered)?;
    let content_type = header_text(call.http.headers(), header::CONTENT_TYPE);
    let format = negotiation::body_format(content_type.as_deref())?;
    if format == BodyFormat::Protobuf && !call.offered().protobuf {
        return Err(negotiation::no_protobuf());
    }
    let bytes = body::read(&call.api, exchange, &call.http, payload).await?;
    exchange.trace.pass(TraceStep::BodyRead);
    let request = CreateRequest {
        target: call.target(),
        body: Body { bytes, format },
        options: options::read(&exchange.query, exchange.user_agent.as_deref(), OptionsVerb::Create)?,
    };
    let done = call.backend.handler.create(call.circumstances(), request).await?;
    done.warnings.into_iter().for_each(|warning| exchange.warn(warning));
    let ty = Some(call.object_type());
    Ok(object::posted(exchange, &accept, done.object, ty))
}

/// GET of one object.
pub(crate) async fn get(call: &VirtualResourceCall) -> HandlerResult {
    let shape = object::ObjectShape::negotiate(&call.exchange, call.offered())?;
    let found = call.backend.handler.get(call.circumstances(), call.target()).await?;
    let ty = match shape.accept.view {
        ShownPart::Whole => Some(call.object_type()),
        _ => wire::meta_type(call.exchange.types, PARTIAL),
    };
    let value = match shape.accept.view {
        ShownPart::Whole | ShownPart::MetadataList(_) => found,
        ShownPart::Metadata(version) => call.partial(found, version),
        ShownPart::Table(version) => call.table(version, shape.include, vec![found]),
    };
    Ok(respond::value(
        &call.exchange,
        shape.accept.format,
        StatusCode::OK,
        ty,
        &value,
    ))
}

/// GET of the collection.
pub(crate) async fn list(call: &VirtualResourceCall) -> HandlerResult {
    let shape = list::ListShape::negotiate(&call.exchange, Produces::Lists, call.offered())?;
    let (selection, _) = list_query(&call.exchange.query).list(&call.definition, call.version)?;
    let found = call
        .backend
        .handler
        .list(call.circumstances(), call.target(), selection)
        .await?;
    let ty = match shape.accept.view {
        ShownPart::Whole => wire::named(&call.definition.types, &format!("{}List", call.served().type_name)),
        _ => wire::meta_type(call.exchange.types, PARTIAL_LIST),
    };
    let value = match shape.accept.view {
        ShownPart::Table(version) => call.table(version, shape.include, found),
        ShownPart::MetadataList(version) | ShownPart::Metadata(version) => {
            let partial = found.into_iter().map(|object| call.partial(object, version));
            whole(PARTIAL_LIST, version.api_version(), partial.collect())
        }
        ShownPart::Whole => {
            let items = found.into_iter().map(as_item).collect();
            let api_version = call.served().group_version.to_string();
            whole(&call.definition.list_kind, &api_version, items)
        }
    };
    Ok(respond::value(
        &call.exchange,
        shape.accept.format,
        StatusCode::OK,
        ty,
        &value,
    ))
}

fn as_item(mut object: Value) -> Value {
    if let Some(fields) = object.as_object_mut() {
        fields.remove("kind");
        fields.remove("apiVersion");
    }
    object
}

fn whole(kind: &str, api_version: &str, items: Vec<Value>) -> Value {
    json!({"kind": kind, "apiVersion": api_version, "metadata": {}, "items": items})
}
