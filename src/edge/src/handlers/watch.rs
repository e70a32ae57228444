//! GET with `watch`: a stream of events, one JSON object a line, or a message each over a WebSocket.

use std::{convert::Infallible, sync::Arc, time::Duration};

use actix_web::{HttpResponse, http::header};
use bytes::{Bytes, BytesMut};
use futures_util::{Stream, StreamExt, future, stream};
use serde_json::{Value, json};
use trireme_actors::Clock;
use trireme_http::{server::Ending, websocket};
use trireme_machinery::{ApiError, Object, Reason};
use trireme_registry::{
    EventKind, Item, RegistryHandle, ResourceDefinition, WatchFrame, Watcher,
    list_options::WatchOptions,
    request::{Selection, WatchRequest, WatchStart},
    versions,
};

use super::{
    Call, list_query,
    object::{revision_of, table_metadata},
};
use crate::{
    negotiation::{Accept, Format, MetaVersion, Produces, View, negotiate_view, negotiate_without_tables},
    respond::Answered,
    status,
    views::{IncludeObject, Tables, partial, stored},
    websocket as tokens,
};

/// The media types that are named when YAML events are asked for.
const STREAM_MEDIA_TYPES: &str = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";

/// Follows a collection, or one object of it.
pub(crate) async fn handle(call: &Call) -> Answered {
    let header = call.exchange.accept.as_deref();
    Produces::Lists.admit(header)?;
    let info = Arc::clone(call.route.registry.info());
    let options = list_query(&call.exchange.query).watch(&info, call.route.version)?;
    let accept = negotiate(header, &options)?;
    if accept.format == Format::Yaml {
        let text = format!("only the following media types are accepted: {STREAM_MEDIA_TYPES}");
        return Err(ApiError::new(Reason::NotAcceptable, text));
    }
    let include = match accept.view {
        View::Table(_) => IncludeObject::parse(&call.exchange.query)?,
        _ => IncludeObject::Metadata,
    };
    check_name(call.exchange.info.path_name(), &options.selection)?;
    let starts_with_state = matches!(options.start, WatchStart::State(_));
    let request = WatchRequest {
        target: call.target(),
        selection: options.selection,
        start: options.start,
        bookmarks: options.bookmarks,
        initial_events_end: options.initial_events_end,
        timeout: options.timeout.unwrap_or_else(|| some_time(call.api.min_watch)),
    };
    let handshake = match tokens::handshake(&call.http) {
        Ok(handshake) => handshake,
        Err(refused) => return Ok(tokens::refusal(refused, call.exchange.error_style())),
    };
    let watcher = call.route.registry.watch(request).await;
    let lines = Lines {
        registry: call.route.registry.clone(),
        info,
        version: call.route.version,
        view: accept.view,
        include,
        clock: call.api.clock.clone(),
        first: true,
    };
    let ending = call.exchange.peer.as_ref().map(|peer| peer.ending.clone());
    let ending = ending.unwrap_or_default();
    let events = match watcher {
        Ok(watcher) => events(watcher, lines, &ending).left_stream(),
        // Told within the stream, as by kube-apiserver: some clients list anew only if they read it there.
        Err(error) if error.reason == Reason::Expired || starts_with_state && error.reason == Reason::Timeout => {
            stream::once(future::ready(vec![line("ERROR", &status::object(&error))])).right_stream()
        }
        Err(error) => return Err(error),
    };
    Ok(match handshake {
        Some(handshake) => handshake.switch(|connection| websocket::serve(connection, events, ending)),
        None => HttpResponse::Ok()
            .insert_header((header::CONTENT_TYPE, Format::Json.media_type()))
            .streaming(events.map(|lines| Ok::<_, Infallible>(join(lines)))),
    })
}

/// Agrees on how events are shown. A watch that begins with a list is for clients that keep objects: it has no Tables.
fn negotiate(header: Option<&str>, options: &WatchOptions) -> Result<Accept<View>, ApiError> {
    if options.initial_events_end && options.bookmarks {
        negotiate_without_tables(header, Produces::Lists)
    } else {
        negotiate_view(header, Produces::Lists)
    }
}

/// Of a watch of one object, whose name is in the path, the field selector can only say the same.
fn check_name(name: &str, selection: &Selection) -> Result<(), ApiError> {
    let fields = &selection.fields;
    let selected = fields.requires_exact_match("metadata.name");
    if name.is_empty() || fields.terms().is_empty() || selected == Some(name) {
        return Ok(());
    }
    Err(ApiError::bad_request(
        "fieldSelector metadata.name doesn't match requested name",
    ))
}

/// Once to twice as long, so that watches that began together do not end together.
fn some_time(at_least: Duration) -> Duration {
    at_least + at_least.mul_f64(rand::random())
}

/// The events: all that are ready go out together. Ends with the watch, or when its connection is to end.
fn events(watcher: Watcher, lines: Lines, ending: &Ending) -> impl Stream<Item = Vec<Bytes>> + use<> {
    // Listened to once, not anew for each event.
    let ended = Box::pin(ending.watches().clone().cancelled_owned());
    stream::unfold(Some((watcher, lines, ended)), |state| async move {
        let (mut watcher, mut lines, mut ended) = state?;
        let frames = tokio::select! {
            biased;
            () = &mut ended => return None,
            frames = watcher.next() => frames?,
        };
        lines.follow()?;
        let (written, goes_on) = match lines.converted(frames).await {
            Ok(frames) => lines.write(frames)?,
            Err(error) => (vec![line("ERROR", &status::object(&error))], false),
        };
        Some((written, goes_on.then_some((watcher, lines, ended))))
    })
}

/// Writes events in the form that was agreed on.
struct Lines {
    registry: RegistryHandle,
    info: Arc<ResourceDefinition>,
    version: usize,
    view: View,
    include: IncludeObject,
    clock: Clock,
    /// Only the first Table has headings.
    first: bool,
}

impl Lines {
    /// Goes on by the definition of now; `None` if the version is served no longer.
    fn follow(&mut self) -> Option<()> {
        if !self.registry.is_current(&self.info) {
            let current = self.registry.current();
            let version = self.info.versions.get(self.version)?;
            self.version = current.version_index(&version.group_version)?;
            self.info = current;
            self.first = true;
        }
        Some(())
    }

    /// The frames as the resource's converter shows them, in one call.
    async fn converted(&self, mut frames: Vec<WatchFrame>) -> Result<Vec<WatchFrame>, ApiError> {
        if self.info.converter.is_none() {
            return Ok(frames);
        }
        let items = frames.iter().filter_map(|frame| match frame {
            WatchFrame::Event { item, .. } => Some(item.clone()),
            WatchFrame::Bookmark { .. } | WatchFrame::Error(_) => None,
        });
        let mut items = versions::in_version(&self.info, items.collect(), self.version)
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

    /// A line for each of some frames, and whether more may follow; `None` if the events cannot be shown as asked for.
    fn write(&mut self, frames: Vec<WatchFrame>) -> Option<(Vec<Bytes>, bool)> {
        if matches!(self.view, View::MetadataList(_)) {
            return None;
        }
        let mut goes_on = true;
        let mut out: Vec<Bytes> = Vec::with_capacity(frames.len());
        for frame in frames {
            out.push(match frame {
                WatchFrame::Event { kind, item, frame } => self.event(kind, &item, frame),
                WatchFrame::Bookmark {
                    revision,
                    initial_events_end,
                } => self.bookmark(&revision.to_string(), initial_events_end),
                WatchFrame::Error(error) => {
                    goes_on = false;
                    line("ERROR", &status::object(&error))
                }
            });
        }
        Some((out, goes_on))
    }

    fn event(&mut self, kind: EventKind, item: &Item, frame: Bytes) -> Bytes {
        if self.view == View::Whole {
            if self.version == self.info.storage_version && self.info.converter.is_none() {
                return frame;
            }
            let object = versions::object_bytes(&self.info, item, self.version);
            let head = format!(r#"{{"type":"{}","object":"#, kind.as_str());
            return [head.as_bytes(), &object, b"}\n"].concat().into();
        }
        let shown = match self.view {
            View::Table(version) => {
                let columns = self.headings(version);
                let tables = self.tables(version);
                tables.table(revision_of(item), columns, vec![tables.row(item)])
            }
            View::Metadata(version) => partial(&self.info, &stored(&self.info, item), version),
            View::Whole | View::MetadataList(_) => versions::object_value(&self.info, item, self.version),
        };
        line(kind.as_str(), &shown)
    }

    fn bookmark(&mut self, revision: &str, initial_events_end: bool) -> Bytes {
        let mut metadata = Object::new();
        metadata.insert("resourceVersion".into(), revision.into());
        if initial_events_end {
            metadata.insert("annotations".into(), json!({"k8s.io/initial-events-end": "true"}));
        }
        let version = self
            .info
            .versions
            .get(self.version)
            .unwrap_or_else(|| self.info.stored());
        let object = json!({
            "kind": &*self.info.kind,
            "apiVersion": version.group_version.to_string(),
            "metadata": metadata,
        });
        line("BOOKMARK", &self.shown(object))
    }

    fn shown(&mut self, object: Value) -> Value {
        match self.view {
            View::Whole | View::MetadataList(_) => object,
            View::Metadata(version) => partial(&self.info, &object, version),
            View::Table(version) => {
                let columns = self.headings(version);
                let tables = self.tables(version);
                tables.table(table_metadata(&object), columns, vec![tables.row_of_served(object)])
            }
        }
    }

    fn tables(&self, version: MetaVersion) -> Tables<'_> {
        Tables::new(&self.info, self.version, version, self.include, &self.clock)
    }

    fn headings(&mut self, version: MetaVersion) -> Value {
        if std::mem::take(&mut self.first) {
            self.tables(version).columns()
        } else {
            Value::Null
        }
    }
}

fn line(kind: &str, object: &Value) -> Bytes {
    format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n").into()
}

fn join(mut lines: Vec<Bytes>) -> Bytes {
    if lines.len() == 1 {
        return lines.pop().unwrap_or_default();
    }
    let mut out = BytesMut::with_capacity(lines.iter().map(Bytes::len).sum());
    for line in lines {
        out.extend_from_slice(&line);
    }
    out.freeze()
}
