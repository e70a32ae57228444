//! The events of a watch, in the form that was agreed on.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};
use trireme_actors::Clock;
use trireme_machinery::{
    ApiError, Object,
    protobuf::{MessageType, framing},
    schema::TypeTable,
};
use trireme_registry::{
    EventKind, Item, RegistryHandle, ResourceDefinition, ServedVersion, WatchFrame, protobuf, versions,
};

use super::object::{revision_of, table_metadata};
use crate::{
    exchange::CurrentExchange,
    metrics::watches::WatchMeters,
    negotiation::{Accept, MetaVersion, ResponseFormat, ShownPart},
    status,
    views::{IncludeObject, Tables, partial, stored},
    wire::{self, PARTIAL},
};

/// Writes events for one client.
pub(super) struct EventWriter {
    pub(super) registry: RegistryHandle,
    pub(super) info: Arc<ResourceDefinition>,
    pub(super) version: usize,
    pub(super) accept: Accept<ShownPart>,
    pub(super) include: IncludeObject,
    pub(super) types: &'static TypeTable,
    pub(super) clock: Clock,
    /// Only the first Table has headings.
    pub(super) first: bool,
    /// For the time that the initial events took.
    pub(super) exchange: CurrentExchange,
    pub(super) meters: WatchMeters,
}

impl EventWriter {
    /// Goes on by the definition of now; `None` if the version is served no longer.
    pub(super) fn follow(&mut self) -> Option<()> {
        if !self.registry.is_current(&self.info) {
            let current = self.registry.current();
            let version = self.info.versions.get(self.version)?;
            self.version = current.version_index(&version.group_version)?;
            self.info = current;
            self.first = true;
        }
        Some(())
    }

    /// The frames as the resource's converter shows them, in one call at most: other watchers may have made it.
    pub(super) async fn converted(&self, mut frames: Vec<WatchFrame>) -> Result<Vec<WatchFrame>, ApiError> {
        if self.info.converter.is_none() {
            return Ok(frames);
        }
        let items = frames.iter().filter_map(|frame| match frame {
            WatchFrame::Event { item, .. } => Some(item.clone()),
            WatchFrame::Bookmark { .. } | WatchFrame::Error(_) => None,
        });
        let mut items = versions::shared_in_version(&self.info, items.collect(), self.version)
            .await?
            .into_iter();
        for frame in &mut frames {
            if let WatchFrame::Event { item, .. } = frame
                && let Some(converted) = items.next()
            {
                *item = converted;
            }
        }
        Ok(frames)
    }

    /// An event for each of some frames, and whether more may follow; `None` if they cannot be shown as asked for.
    pub(super) fn write(&mut self, frames: Vec<WatchFrame>) -> Option<(Vec<Bytes>, bool)> {
        if matches!(self.accept.view, ShownPart::MetadataList(_)) {
            return None;
        }
        let mut out: Vec<Bytes> = Vec::with_capacity(frames.len());
        for frame in frames {
            match self.frame(frame) {
                Ok(event) => out.push(event),
                Err(error) => {
                    out.push(self.error(&error));
                    return Some((out, false));
                }
            }
        }
        Some((out, true))
    }

    /// The event of an error, which is the last one.
    pub(super) fn error(&self, error: &ApiError) -> Bytes {
        let status = status::object(error);
        let ty = wire::meta_type(self.types, "Status");
        self.event_of("ERROR", ty, &status).unwrap_or_default()
    }

    fn frame(&mut self, frame: WatchFrame) -> Result<Bytes, ApiError> {
        match (frame, self.accept.format) {
            (WatchFrame::Event { kind, item, .. }, ResponseFormat::Protobuf) => self.protobuf(kind, &item),
            (WatchFrame::Event { kind, item, frame, .. }, _) => Ok(self.line(kind, &item, frame)),
            (WatchFrame::Error(error), _) => Err(error),
            (
                WatchFrame::Bookmark {
                    revision,
                    initial_events_end,
                },
                _,
            ) => self.bookmark(&revision.to_string(), initial_events_end),
        }
    }

    fn protobuf(&self, kind: EventKind, item: &Item) -> Result<Bytes, ApiError> {
        let ShownPart::Metadata(version) = self.accept.view else {
            return protobuf::frame(&self.info, item, kind, self.version);
        };
        let message = wire::metadata_message(self.types, &self.info, item)?;
        let frame = framing::event_frame(kind.as_str(), version.api_version(), PARTIAL, &message);
        Ok(frame.bytes.into())
    }

    fn line(&mut self, kind: EventKind, item: &Item, frame: Bytes) -> Bytes {
        let shown = match self.accept.view {
            ShownPart::Whole | ShownPart::MetadataList(_) => {
                if self.version == self.info.storage_version && self.info.converter.is_none() {
                    return frame;
                }
                let object = versions::object_bytes(&self.info, item, self.version);
                let head = format!(r#"{{"type":"{}","object":"#, kind.as_str());
                return [head.as_bytes(), &object, b"}\n"].concat().into();
            }
            ShownPart::Table(version) => {
                let columns = self.headings(version);
                let tables = self.tables(version, self.include);
                tables.table(revision_of(item), columns, vec![tables.row(item)])
            }
            ShownPart::Metadata(version) => partial(&self.info, &stored(&self.info, item), version),
        };
        line(kind.as_str(), &shown)
    }

    fn bookmark(&mut self, revision: &str, initial_events_end: bool) -> Result<Bytes, ApiError> {
        let mut metadata = Object::new();
        metadata.insert("resourceVersion".into(), revision.into());
        if initial_events_end {
            let took = self.clock.now().saturating_duration_since(self.exchange.received);
            self.meters.record_initial_events(&self.exchange.info, took);
            metadata.insert("annotations".into(), json!({"k8s.io/initial-events-end": "true"}));
        }
        let object = json!({
            "kind": &*self.info.kind,
            "apiVersion": self.served().group_version.to_string(),
            "metadata": metadata,
        });
        let shown = match self.accept.view {
            ShownPart::Whole | ShownPart::MetadataList(_) => object,
            ShownPart::Metadata(version) => partial(&self.info, &object, version),
            ShownPart::Table(version) => {
                // Without its object the row would not say what the bookmark marks.
                let include = match self.include {
                    IncludeObject::None if initial_events_end => IncludeObject::Metadata,
                    include => include,
                };
                let columns = self.headings(version);
                let tables = self.tables(version, include);
                tables.table(table_metadata(&object), columns, vec![tables.row_of_served(object)])
            }
        };
        let ty = match self.accept.view {
            ShownPart::Whole => Some(protobuf::type_of(&self.info, self.served())),
            _ => wire::meta_type(self.types, PARTIAL),
        };
        self.event_of("BOOKMARK", ty, &shown)
    }

    fn event_of(&self, kind: &str, ty: Option<MessageType<'_>>, object: &Value) -> Result<Bytes, ApiError> {
        if self.accept.format != ResponseFormat::Protobuf {
            return Ok(line(kind, object));
        }
        let text = |name| object.get(name).and_then(Value::as_str).unwrap_or_default();
        let message = wire::message(ty, object)?;
        let frame = framing::event_frame(kind, text("apiVersion"), text("kind"), &message);
        Ok(frame.bytes.into())
    }

    fn served(&self) -> &ServedVersion {
        let version = self.info.versions.get(self.version);
        version.unwrap_or_else(|| self.info.stored())
    }

    fn tables(&self, version: MetaVersion, include: IncludeObject) -> Tables<'_> {
        Tables::new(&self.info, self.version, version, include, &self.clock)
    }

    fn headings(&mut self, version: MetaVersion) -> Value {
        if std::mem::take(&mut self.first) {
            self.tables(version, self.include).columns()
        } else {
            Value::Null
        }
    }
}

fn line(kind: &str, object: &Value) -> Bytes {
    format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n").into()
}
