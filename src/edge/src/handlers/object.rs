//! Answers that hold one object.

use actix_web::{HttpResponse, http::StatusCode};
use serde_json::{Value, json};
use trireme_machinery::{ApiError, Object, Reason};
use trireme_registry::{Item, request::Answer, versions};

use super::Call;
use crate::{
    negotiation::{Accept, Format, View, negotiate_view},
    respond,
    views::{IncludeObject, Tables, partial},
};

/// How the client wants an object, and what that needs to be known.
pub(super) struct Shape {
    accept: Accept<View>,
    include: IncludeObject,
}

impl Shape {
    /// Agrees on a shape before anything is done.
    pub(super) fn negotiate(call: &Call) -> Result<Self, ApiError> {
        let accept = negotiate_view(call.exchange.accept.as_deref())?;
        let include = match accept.view {
            View::Table(_) => IncludeObject::parse(&call.exchange.query)?,
            View::MetadataList(_) => {
                let text = "you requested PartialObjectMetadataList, but the requested object is not a list";
                return Err(ApiError::new(Reason::NotAcceptable, text));
            }
            _ => IncludeObject::Metadata,
        };
        Ok(Self { accept, include })
    }

    /// The format that was agreed on.
    pub(super) fn format(&self) -> Format {
        self.accept.format
    }

    /// An answer with a cached object in it.
    pub(super) fn item(&self, call: &Call, code: StatusCode, item: &Item) -> HttpResponse {
        let info = call.route.registry.info();
        if self.accept
            == (Accept {
                format: Format::Json,
                view: View::Whole,
            })
        {
            return respond::json(
                &call.exchange,
                code,
                versions::object_bytes(info, item, call.route.version),
            );
        }
        self.value(call, code, versions::object_value(info, item, call.route.version))
    }

    /// An answer with what a write came to in it.
    pub(super) fn answer(&self, call: &Call, code: StatusCode, answer: &Answer) -> HttpResponse {
        match answer {
            Answer::Stored(item) => self.item(call, code, item),
            Answer::Made(value) => self.value(call, code, value.clone()),
        }
    }

    /// An answer with an object in it.
    pub(super) fn value(&self, call: &Call, code: StatusCode, object: Value) -> HttpResponse {
        let value = match self.accept.view {
            View::Whole | View::MetadataList(_) => object,
            View::Metadata(version) => partial(&object, version),
            View::Table(version) => {
                let info = call.route.registry.info();
                let tables = Tables::new(info, call.route.version, version, self.include, &call.api.clock);
                let metadata = table_metadata(&object);
                tables.table(metadata, tables.columns(), vec![tables.row_of(object)])
            }
        };
        respond::value(&call.exchange, self.accept.format, code, &value)
    }
}

/// The metadata of a Table that shows one object.
pub(super) fn table_metadata(object: &Value) -> Object {
    let mut metadata = Object::new();
    if let Some(revision) = object.pointer("/metadata/resourceVersion") {
        metadata.insert("resourceVersion".into(), revision.clone());
    }
    metadata
}

/// The `Status` that tells of a deletion.
pub(super) fn deleted(call: &Call, item: &Item) -> Value {
    let resource = &call.route.registry.info().resource;
    let mut details = Object::new();
    details.insert("name".into(), item.name().into());
    if !resource.group.is_empty() {
        details.insert("group".into(), (&*resource.group).into());
    }
    details.insert("kind".into(), (&*resource.resource).into());
    details.insert("uid".into(), (&*item.uid).into());
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}
