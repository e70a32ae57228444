//! GET with `watch`: a stream of events, one JSON object a line, in protobuf each after its length, or a message each over a
//! WebSocket.

use std::{convert::Infallible, sync::Arc, time::Duration};

use actix_web::{HttpResponse, http::header};
use bytes::{Bytes, BytesMut};
use futures_util::{Stream, StreamExt, future, stream};
use trireme_http::{
    server::ConnectionEnding,
    websocket::{self, MessageFormat, MessagesUntil, Subprotocols},
};
use trireme_machinery::{ApiError, Reason, protobuf::framing::FRAME_LENGTH_BYTES};
use trireme_registry::{
    Watcher,
    request::{Selection, WatchRequest, WatchStart},
};

use super::{ResourceCall, event_writer::EventWriter, list_query};
use crate::{
    metrics::watches::WatchMeters,
    negotiation::{Produces, ResponseFormat, ShownPart, negotiate_view},
    respond::HandlerResult,
    views::IncludeObject,
    websocket as tokens,
};

/// The media types that are named when YAML events are asked for.
const STREAM_MEDIA_TYPES: &str = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";

/// Follows a collection, or one object of it.
pub(crate) async fn handle(call: &ResourceCall) -> HandlerResult {
    let header = call.exchange.accept.as_deref();
    Produces::Lists.admit(header)?;
    let info = Arc::clone(call.route.registry.info());
    let options = list_query(&call.exchange.query).watch(call.api.features, &info, call.route.version)?;
    let accept = negotiate_view(header, Produces::Lists, call.offered())?;
    let Some(media_type) = accept.format.stream_media_type() else {
        let text = format!("only the following media types are accepted: {STREAM_MEDIA_TYPES}");
        return Err(ApiError::new(Reason::NotAcceptable, text));
    };
    let include = match accept.view {
        ShownPart::Table(_) => IncludeObject::parse(&call.exchange.query)?,
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
    let handshake = match tokens::handshake(&call.http, Subprotocols::Any) {
        Ok(handshake) => handshake,
        Err(refused) => return Ok(tokens::refusal(refused, call.exchange.error_style())),
    };
    let watcher = call.route.registry.watch(request).await;
    let version = info.versions.get(call.route.version).unwrap_or_else(|| info.stored());
    let meters = WatchMeters::of(&version.group_version, &info.resource.resource);
    let writer = EventWriter {
        registry: call.route.registry.clone(),
        info,
        version: call.route.version,
        accept,
        include,
        types: call.exchange.types,
        clock: call.api.clock.clone(),
        first: true,
        exchange: call.exchange.clone(),
        meters: meters.clone(),
    };
    let ending = call.exchange.peer.as_ref().map(|peer| peer.ending.clone());
    let ending = ending.unwrap_or_default();
    let events = match watcher {
        Ok(mut watcher) => {
            watcher.hold_until_live(call.exchange.seat.take());
            events(watcher, writer, &ending).left_stream()
        }
        // Reported within the stream, as by kube-apiserver: some clients list anew only if they read it there.
        Err(error) if error.reason == Reason::Expired || starts_with_state && error.reason == Reason::Timeout => {
            stream::once(future::ready(vec![writer.error(&error)])).right_stream()
        }
        Err(error) => return Err(error),
    };
    let (format, prefix) = match accept.format {
        ResponseFormat::Protobuf => (MessageFormat::Binary, FRAME_LENGTH_BYTES),
        ResponseFormat::Json | ResponseFormat::Yaml => (MessageFormat::Text, 0),
    };
    let events = events.inspect(move |events| meters.record_events(events, prefix));
    Ok(match handshake {
        Some(handshake) => handshake.switch(move |connection| {
            // A message has a length of its own.
            let sliced = move |events: Vec<Bytes>| events.iter().map(|event| event.slice(prefix..)).collect();
            let events = events.map(sliced).map(Ok::<_, Infallible>);
            websocket::serve(
                connection,
                format,
                events,
                MessagesUntil::WatchesEnd(ending.watches().clone()),
            )
        }),
        None => HttpResponse::Ok()
            .insert_header((header::CONTENT_TYPE, media_type))
            .streaming(events.map(|events| Ok::<_, Infallible>(join(events)))),
    })
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
fn events(watcher: Watcher, writer: EventWriter, ending: &ConnectionEnding) -> impl Stream<Item = Vec<Bytes>> + use<> {
    // Listened to once, not anew for each event.
    let ended = Box::pin(ending.watches().clone().cancelled_owned());
    stream::unfold(Some((watcher, writer, ended)), |state| async move {
        let (mut watcher, mut writer, mut ended) = state?;
        let frames = tokio::select! {
            biased;
            () = &mut ended => return None,
            frames = watcher.next() => frames?,
        };
        writer.follow()?;
        let (written, goes_on) = match writer.converted(frames).await {
            Ok(frames) => writer.write(frames)?,
            Err(error) => (vec![writer.error(&error)], false),
        };
        Some((written, goes_on.then_some((watcher, writer, ended))))
    })
}

fn join(mut events: Vec<Bytes>) -> Bytes {
    if events.len() == 1 {
        return events.pop().unwrap_or_default();
    }
    let mut out = BytesMut::with_capacity(events.iter().map(Bytes::len).sum());
    for event in events {
        out.extend_from_slice(&event);
    }
    out.freeze()
}
