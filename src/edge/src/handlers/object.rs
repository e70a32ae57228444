//! Answers that hold one object.

use std::sync::Arc;

use actix_web::{HttpResponse, http::StatusCode};
use serde_json::{Value, json};
use trireme_machinery::{
    ApiError, Object, Reason,
    protobuf::{MessageType, framing},
};
use trireme_registry::{
    Item, protobuf,
    request::{Answer, Subresource},
    versions,
};

use super::ResourceCall;
use crate::{
    exchange::Exchange,
    negotiation::{Accept, MetaVersion, OfferedForms, Produces, ResponseFormat, ShownPart, negotiate_view},
    respond::{self, HandlerResult},
    views::{IncludeObject, Tables, metadata_alone, partial, stored, to_stored},
    wire::{self, PARTIAL},
};

/// The form in which the client wants an object, and the facts that it needs.
pub(super) struct ObjectShape {
    pub(super) accept: Accept<ShownPart>,
    pub(super) include: IncludeObject,
}

impl ObjectShape {
    /// Agrees on a shape before anything is done.
    pub(super) fn negotiate(exchange: &Exchange, offered: OfferedForms) -> Result<Self, ApiError> {
        let accept = negotiate_view(exchange.accept.as_deref(), Produces::Documents, offered)?;
        let include = match accept.view {
            ShownPart::Table(_) => IncludeObject::parse(&exchange.query)?,
            ShownPart::MetadataList(_) => {
                let text = "you requested PartialObjectMetadataList, but the requested object is not a list";
                return Err(ApiError::new(Reason::NotAcceptable, text));
            }
            _ => IncludeObject::Metadata,
        };
        Ok(Self { accept, include })
    }

    /// An answer with a `Status` in it, which has no other form.
    pub(super) fn status(&self, call: &ResourceCall, code: StatusCode, status: &Value) -> HttpResponse {
        let ty = wire::meta_type(call.exchange.types, "Status");
        respond::value(&call.exchange, self.accept.format, code, ty, status)
    }

    /// An answer with a cached object in it.
    ///
    /// # Errors
    /// What the resource's converter says.
    pub(super) async fn item(&self, call: &ResourceCall, code: StatusCode, item: &Arc<Item>) -> HandlerResult {
        let info = call.route.registry.info();
        if info.converter.is_none() {
            return self.shown(call, code, item);
        }
        let converted = versions::item_in_version(info, item, call.route.version).await?;
        self.shown(call, code, &converted)
    }

    fn shown(&self, call: &ResourceCall, code: StatusCode, item: &Item) -> HandlerResult {
        let info = call.route.registry.info();
        let value = match (self.accept.view, self.accept.format) {
            (ShownPart::Whole | ShownPart::MetadataList(_), ResponseFormat::Json) => {
                let bytes = versions::object_bytes(info, item, call.route.version);
                return Ok(respond::json(&call.exchange, code, bytes));
            }
            (ShownPart::Whole | ShownPart::MetadataList(_), ResponseFormat::Protobuf) => {
                let bytes = protobuf::object(info, item, call.route.version)?;
                call.exchange
                    .note_answer(|| versions::object_value(info, item, call.route.version));
                return Ok(respond::bytes(ResponseFormat::Protobuf, code, bytes));
            }
            (ShownPart::Whole | ShownPart::MetadataList(_), ResponseFormat::Yaml) => {
                versions::object_value(info, item, call.route.version)
            }
            (ShownPart::Metadata(version), ResponseFormat::Protobuf) => {
                let message = wire::metadata_message(call.exchange.types, info, item)?;
                call.exchange
                    .note_answer(|| partial(info, &stored(info, item), version));
                let bytes = framing::enveloped(version.api_version(), PARTIAL, &message);
                return Ok(respond::bytes(ResponseFormat::Protobuf, code, bytes.into()));
            }
            (ShownPart::Metadata(version), _) => partial(info, &stored(info, item), version),
            (ShownPart::Table(version), _) => {
                let tables = self.tables(call, version);
                let row = tables.row(item);
                tables.table(revision_of(item), tables.columns(), vec![row])
            }
        };
        Ok(respond::value(&call.exchange, self.accept.format, code, None, &value))
    }

    fn tables<'c>(&self, call: &'c ResourceCall, version: MetaVersion) -> Tables<'c> {
        let info = call.route.registry.info();
        Tables::new(info, call.route.version, version, self.include, &call.api.clock)
    }

    /// An answer with what a write came to in it.
    ///
    /// # Errors
    /// What the resource's converter says.
    pub(super) async fn answer(&self, call: &ResourceCall, code: StatusCode, answer: &Answer) -> HandlerResult {
        match answer {
            Answer::Cached(item) => self.item(call, code, item).await,
            Answer::Materialized(value) => Ok(self.value(call, code, value.clone())),
        }
    }

    /// An answer with an object of the requested version in it, or with a scale.
    pub(super) fn value(&self, call: &ResourceCall, code: StatusCode, object: Value) -> HttpResponse {
        let is_scale = call.subresource == Subresource::Scale;
        let (info, served) = (call.route.registry.info(), call.route.version);
        let ty = match self.accept.view {
            ShownPart::Whole if is_scale => call.subresource_type("scale"),
            ShownPart::Whole => call.object_type(),
            _ => wire::meta_type(call.exchange.types, PARTIAL),
        };
        let value = match self.accept.view {
            ShownPart::Whole | ShownPart::MetadataList(_) => object,
            ShownPart::Metadata(version) if is_scale => partial(info, &object, version),
            ShownPart::Metadata(version) => partial(info, &to_stored(info, served, object), version),
            ShownPart::Table(version) => {
                let (tables, metadata) = (self.tables(call, version), table_metadata(&object));
                if is_scale {
                    tables.of_scale(metadata, object)
                } else {
                    tables.table(metadata, tables.columns(), vec![tables.row_of_served(object)])
                }
            }
        };
        respond::value(&call.exchange, self.accept.format, code, ty, &value)
    }
}

/// An answer to what was posted and is not kept: what became of it, in the type `ty`, or a `Status`, which has no other form.
pub(super) fn posted(
    exchange: &Exchange,
    accept: &Accept<ShownPart>,
    object: Option<Value>,
    ty: Option<MessageType<'_>>,
) -> HttpResponse {
    let success = || json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    let object = object.unwrap_or_else(success);
    let (object, ty) = match accept.view {
        ShownPart::Metadata(version) if !wire::is_status(&object) => {
            let ty = wire::meta_type(exchange.types, PARTIAL);
            (metadata_alone(&object, version), ty)
        }
        _ => {
            let ty = wire::or_status(exchange.types, &object, ty);
            (object, ty)
        }
    };
    respond::value(exchange, accept.format, StatusCode::CREATED, ty, &object)
}

/// The metadata of a Table that shows one object.
pub(super) fn table_metadata(object: &Value) -> Object {
    let mut metadata = Object::new();
    if let Some(revision) = object.pointer("/metadata/resourceVersion") {
        metadata.insert("resourceVersion".into(), revision.clone());
    }
    metadata
}

/// The same of a cached object.
pub(super) fn revision_of(item: &Item) -> Object {
    let mut metadata = Object::new();
    metadata.insert("resourceVersion".into(), item.revision.to_string().into());
    metadata
}

/// The `Status` of a deletion.
pub(super) fn deleted(call: &ResourceCall, item: &Item) -> Value {
    let resource = &call.route.registry.info().resource_in(call.route.version);
    let mut details = Object::new();
    details.insert("name".into(), item.name().into());
    if !resource.group.is_empty() {
        details.insert("group".into(), (&*resource.group).into());
    }
    details.insert("kind".into(), (&*resource.resource).into());
    details.insert("uid".into(), (&*item.uid).into());
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}
