//! GET of a collection.
//!
//! The bytes of a list are those of its objects with commas between them. They are put together in chunks while the
//! client reads: nothing is encoded again, and no list stands in memory as a whole.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use actix_web::{
    HttpResponse,
    body::{BodySize, BoxBody, MessageBody},
    http::{StatusCode, header},
};
use bytes::{BufMut, Bytes, BytesMut};
use serde_json::{Value, json};
use trireme_machinery::{ApiError, Object, Reason};
use trireme_registry::{Item, ListPage, ResourceDefinition, protobuf, request::ListRequest, versions};

use super::{ResourceCall, list_query, protobuf_list::ProtobufListBody};
use crate::{
    audit_trail::AuditTrail,
    exchange::Exchange,
    negotiation::{Accept, MetaVersion, OfferedForms, Produces, ResponseFormat, ShownPart, negotiate_view},
    respond::{self, HandlerResult},
    views::{IncludeObject, Tables, partial, stored},
    wire::{self, PARTIAL_LIST},
};

/// Bytes of a list that are put together at a time. Large enough that the cost of a chunk (a TLS record or four, a wake-up)
/// does not count, small enough that thousands of slow readers do not add up.
pub(super) const CHUNK_BYTES: usize = 64 * 1024;

/// Reads a collection.
pub(crate) async fn handle(call: &ResourceCall) -> HandlerResult {
    let shape = ListShape::negotiate(&call.exchange, Produces::Lists, call.offered())?;
    let info = call.route.registry.info();
    let (selection, options) = list_query(&call.exchange.query).list(info, call.route.version)?;
    let request = ListRequest {
        target: call.target(),
        selection,
        options,
    };
    let mut page = call.route.registry.list(request).await?;
    page.items = versions::in_version(info, page.items, call.route.version).await?;
    shape.page(call, page).await
}

/// The form in which the client wants a list.
pub(super) struct ListShape {
    pub(super) accept: Accept<ShownPart>,
    pub(super) include: IncludeObject,
}

impl ListShape {
    /// Agrees on a shape before anything is done.
    pub(super) fn negotiate(exchange: &Exchange, produces: Produces, offered: OfferedForms) -> Result<Self, ApiError> {
        let accept = negotiate_view(exchange.accept.as_deref(), produces, offered)?;
        let include = match accept.view {
            ShownPart::Table(_) => IncludeObject::parse(&exchange.query)?,
            ShownPart::Metadata(_) => {
                let text = "you requested PartialObjectMetadata, but the requested object is a list";
                return Err(ApiError::new(Reason::NotAcceptable, text));
            }
            _ => IncludeObject::Metadata,
        };
        Ok(Self { accept, include })
    }

    /// An answer with a page in it.
    ///
    /// # Errors
    /// 500 for an object that is not of its type, if the page is to be in protobuf.
    pub(super) async fn page(&self, call: &ResourceCall, page: ListPage) -> HandlerResult {
        let format = self.accept.format;
        let value = match self.accept.view {
            ShownPart::Table(version) => self.table(call, version, &page),
            ShownPart::MetadataList(version) | ShownPart::Metadata(version) if format == ResponseFormat::Protobuf => {
                call.exchange.note_answer(|| metadata_list(call, version, &page));
                return protobuf_metadata_list(call, version, &page).await;
            }
            ShownPart::MetadataList(version) | ShownPart::Metadata(version) => metadata_list(call, version, &page),
            ShownPart::Whole => match format {
                ResponseFormat::Json => return Ok(stream(call, page)),
                ResponseFormat::Yaml => whole(call, &page),
                ResponseFormat::Protobuf => {
                    call.exchange.note_answer(|| whole(call, &page));
                    return protobuf_list(call, &page).await;
                }
            },
        };
        Ok(respond::value(&call.exchange, format, StatusCode::OK, None, &value))
    }

    fn table(&self, call: &ResourceCall, version: MetaVersion, page: &ListPage) -> Value {
        let info = call.route.registry.info();
        let tables = Tables::new(info, call.route.version, version, self.include, &call.api.clock);
        let rows = page.items.iter().map(|item| tables.row(item)).collect();
        tables.table(list_metadata(page), tables.columns(), rows)
    }
}

pub(super) fn list_metadata(page: &ListPage) -> Object {
    let mut metadata = Object::new();
    metadata.insert("resourceVersion".into(), page.revision.to_string().into());
    if let Some(token) = &page.continue_token {
        metadata.insert("continue".into(), token.as_str().into());
    }
    if let Some(remaining) = page.remaining.filter(|remaining| *remaining > 0) {
        metadata.insert("remainingItemCount".into(), remaining.into());
    }
    metadata
}

/// The metadata of a whole list; one of custom resources always has a token.
fn shown_metadata(info: &ResourceDefinition, page: &ListPage) -> Object {
    let mut metadata = list_metadata(page);
    if info.is_custom {
        metadata.entry("continue").or_insert_with(|| "".into());
    }
    metadata
}

fn metadata_list(call: &ResourceCall, version: MetaVersion, page: &ListPage) -> Value {
    let info = call.route.registry.info();
    let object = |item: &Arc<Item>| partial(info, &stored(info, item), version);
    let items: Vec<Value> = page.items.iter().map(object).collect();
    json!({
        "kind": PARTIAL_LIST,
        "apiVersion": version.api_version(),
        "metadata": list_metadata(page),
        "items": if items.is_empty() { Value::Null } else { items.into() },
    })
}

async fn protobuf_list(call: &ResourceCall, page: &ListPage) -> HandlerResult {
    let (info, version) = (call.route.registry.info(), call.route.version);
    let encode = |item: &Item| protobuf::message(info, item, version);
    let kind = (&*api_version(info, version), &*info.list_kind);
    ProtobufListBody::of(call, page, kind, encode).await.map(sent)
}

async fn protobuf_metadata_list(call: &ResourceCall, version: MetaVersion, page: &ListPage) -> HandlerResult {
    let (info, types) = (call.route.registry.info(), call.exchange.types);
    let encode = |item: &Item| wire::metadata_message(types, info, item);
    let kind = (version.api_version(), PARTIAL_LIST);
    ProtobufListBody::of(call, page, kind, encode).await.map(sent)
}

fn sent(body: ProtobufListBody) -> HttpResponse {
    HttpResponse::Ok()
        .insert_header((header::CONTENT_TYPE, ResponseFormat::Protobuf.media_type()))
        .message_body(BoxBody::new(body))
        .expect("these headers are well-formed")
}

/// The list as a value: for YAML.
fn whole(call: &ResourceCall, page: &ListPage) -> Value {
    let info = call.route.registry.info();
    let object = |item: &Arc<Item>| {
        let mut object = versions::object_value(info, item, call.route.version);
        if let Some(fields) = object.as_object_mut().filter(|_| !info.is_custom) {
            fields.remove("apiVersion");
            fields.remove("kind");
        }
        object
    };
    let items: Vec<Value> = page.items.iter().map(object).collect();
    json!({
        "kind": &*info.list_kind,
        "apiVersion": api_version(info, call.route.version),
        "metadata": shown_metadata(info, page),
        "items": items,
    })
}

fn api_version(info: &ResourceDefinition, version: usize) -> String {
    let version = info.versions.get(version).unwrap_or_else(|| info.stored());
    version.group_version.to_string()
}

fn stream(call: &ResourceCall, page: ListPage) -> HttpResponse {
    let info = Arc::clone(call.route.registry.info());
    let mut body = ListBody::new(info, call.route.version, page);
    let first = body.chunk().unwrap_or_default();
    let is_recorded = call.exchange.audit.get().is_some_and(AuditTrail::wants_answer);
    if body.stage == Stage::Done || call.exchange.pretty() || is_recorded {
        let mut whole = BytesMut::from(first);
        while let Some(chunk) = body.chunk() {
            whole.extend_from_slice(&chunk);
        }
        return respond::json(&call.exchange, StatusCode::OK, whole.freeze());
    }
    body.ready = Some(first);
    HttpResponse::Ok()
        .insert_header((header::CONTENT_TYPE, ResponseFormat::Json.media_type()))
        .message_body(BoxBody::new(body))
        .expect("these headers are well-formed")
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Head,
    Items,
    Done,
}

/// A list as it goes over the wire.
struct ListBody {
    info: Arc<ResourceDefinition>,
    version: usize,
    head: Vec<u8>,
    items: std::vec::IntoIter<Arc<Item>>,
    stage: Stage,
    /// A chunk that has been made already.
    ready: Option<Bytes>,
}

impl ListBody {
    fn new(info: Arc<ResourceDefinition>, version: usize, page: ListPage) -> Self {
        let kind = Value::from(&*info.list_kind);
        let api_version = Value::from(api_version(&info, version));
        let metadata = Value::Object(shown_metadata(&info, &page));
        Self {
            head: format!(r#"{{"kind":{kind},"apiVersion":{api_version},"metadata":{metadata},"items":["#).into(),
            info,
            version,
            items: page.items.into_iter(),
            stage: Stage::Head,
            ready: None,
        }
    }

    /// The next bytes; `None` at the end.
    fn chunk(&mut self) -> Option<Bytes> {
        if self.stage == Stage::Done {
            return None;
        }
        let mut out = BytesMut::with_capacity(CHUNK_BYTES);
        let mut separator: &[u8] = b",";
        if self.stage == Stage::Head {
            out.put_slice(&self.head);
            self.stage = Stage::Items;
            separator = b"";
        }
        while out.len() < CHUNK_BYTES {
            let Some(item) = self.items.next() else {
                out.put_slice(b"]}");
                self.stage = Stage::Done;
                break;
            };
            out.put_slice(separator);
            out.put_u8(b'{');
            out.put_slice(&versions::list_item_body(&self.info, &item, self.version));
            separator = b",";
        }
        Some(out.freeze())
    }
}

impl MessageBody for ListBody {
    type Error = Infallible;

    fn size(&self) -> BodySize {
        BodySize::Stream
    }

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, Infallible>>> {
        let ready = self.ready.take();
        Poll::Ready(ready.or_else(|| self.chunk()).map(Ok))
    }
}
