//! Watch streams, read at little cost: lines and frames are cut and scanned, never parsed.

use std::time::Instant;

use bytes::Bytes;
use futures_util::future::try_join_all;
use memchr::{memchr, memmem};
use tokio::sync::Semaphore;
use trireme_http::client::header::CONTENT_TYPE;
use trireme_http::client::{HeaderValue, IncomingBody, StatusCode};

use super::Bench;
use super::frames::{FrameEvent, Frames};
use crate::client::{Call, PROTOBUF_TYPE, Session};
use crate::failure::Failure;
use crate::measure::{Measured, Sample, microseconds, record};
use crate::objects;

/// Watches that are being opened at a time.
const OPENING: usize = 64;

/// An open watch.
pub(super) struct WatchClient {
    // Dropping it could end the connection under the stream.
    _session: Session,
    call: Call,
    body: IncomingBody,
    cutter: Cutter,
}

impl WatchClient {
    async fn open(mut session: Session, call: Call) -> Result<Self, Failure> {
        let response = session.send(&call).await?;
        let status = response.status();
        if status != StatusCode::OK {
            let body = response.into_body().collect().await.unwrap_or_default();
            return Err(call.wrong_status(status, &body));
        }
        let is_protobuf = response.headers().get(CONTENT_TYPE).is_some_and(is_protobuf);
        Ok(Self {
            _session: session,
            call,
            body: response.into_body(),
            cutter: match is_protobuf {
                true => Cutter::Frames(Frames::default()),
                false => Cutter::Lines(Lines::default()),
            },
        })
    }

    /// Waits for the next piece of the stream and hands its events on. That a watch ends is a failure.
    pub(super) async fn next(&mut self, mut seen: impl FnMut(&WatchedChange<'_>)) -> Result<(), Failure> {
        let data = self.body.chunk().await.map_err(|_| self.wrong("was cut"))?;
        let data = data.ok_or_else(|| self.wrong("ended"))?;
        let mut error = None;
        let mut see = |change: Result<Option<WatchedChange<'_>>, String>| match change {
            Ok(Some(event)) => seen(&event),
            Ok(None) => {}
            Err(why) => error = Some(why),
        };
        match &mut self.cutter {
            Cutter::Lines(lines) => lines.see(&data, |line| see(WatchedChange::of(line))),
            Cutter::Frames(frames) => frames.see(&data, |frame| see(WatchedChange::of_frame(frame))),
        }
        error.map_or(Ok(()), |why| Err(self.wrong(&why)))
    }

    fn wrong(&self, how: &str) -> Failure {
        Failure::Wrong(format!("the watch {} {how}", self.call.path()))
    }
}

/// Says whether events come as protobuf.
fn is_protobuf(content_type: &HeaderValue) -> bool {
    content_type.as_bytes().starts_with(PROTOBUF_TYPE.as_bytes())
}

enum Cutter {
    Lines(Lines),
    Frames(Frames),
}

/// A change of an object that concerns this watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WatchedChange<'a> {
    /// The object's resourceVersion.
    pub(super) version: u64,
    form: ChangeForm<'a>,
}

/// The whole line, or what is looked at of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChangeForm<'a> {
    Line(&'a [u8]),
    Frame(FrameEvent<'a>),
}

impl<'a> WatchedChange<'a> {
    /// Nothing for a bookmark.
    fn of(line: &'a [u8]) -> Result<Option<Self>, String> {
        let kind = event_type(line).ok_or_else(|| format!("sent what is no event: {}", shown(line)))?;
        Self::of_kind(kind, ChangeForm::Line(line), line)
    }

    fn of_frame(frame: &'a [u8]) -> Result<Option<Self>, String> {
        let event = FrameEvent::of(frame).ok_or_else(|| format!("sent what is no event: {}", shown(frame)))?;
        Self::of_kind(event.kind, ChangeForm::Frame(event), frame)
    }

    fn of_kind(kind: &[u8], form: ChangeForm<'a>, sent: &[u8]) -> Result<Option<Self>, String> {
        let version = match form {
            ChangeForm::Line(line) => objects::resource_version(line),
            ChangeForm::Frame(event) => event.resource_version(),
        };
        match kind {
            b"ADDED" | b"MODIFIED" | b"DELETED" => {
                let version = version.ok_or_else(|| format!("sent no resourceVersion: {}", shown(sent)))?;
                Ok(Some(Self { version, form }))
            }
            b"BOOKMARK" => Ok(None),
            _ => Err(format!("sent {}", shown(sent))),
        }
    }

    /// Reports whether it is of the object with this name.
    pub(super) fn is_of(&self, name: &str) -> bool {
        match self.form {
            ChangeForm::Line(line) => memmem::find(line, format!("\"name\":\"{name}\"").as_bytes()).is_some(),
            ChangeForm::Frame(event) => event.name() == name.as_bytes(),
        }
    }

    /// The number in the annotation [`TURN`](objects::TURN).
    pub(super) fn turn(&self) -> Option<u64> {
        match self.form {
            ChangeForm::Line(line) => objects::turn(line),
            ChangeForm::Frame(event) => event.turn(),
        }
    }
}

fn shown(sent: &[u8]) -> String {
    String::from_utf8_lossy(&sent[..sent.len().min(300)]).into_owned()
}

fn event_type(line: &[u8]) -> Option<&[u8]> {
    let rest = line.strip_prefix(b"{\"type\":\"")?;
    Some(&rest[..memchr(b'"', rest)?])
}

/// Cuts a stream of pieces into lines; what is whole within a piece is not copied.
#[derive(Default)]
struct Lines {
    begun: Vec<u8>,
}

impl Lines {
    fn see(&mut self, data: &Bytes, mut line: impl FnMut(&[u8])) {
        let mut rest: &[u8] = data;
        while let Some(end) = memchr(b'\n', rest) {
            if self.begun.is_empty() {
                line(&rest[..end]);
            } else {
                self.begun.extend_from_slice(&rest[..end]);
                line(&self.begun);
                self.begun.clear();
            }
            rest = &rest[end + 1..];
        }
        self.begun.extend_from_slice(rest);
    }
}

/// Opens a watch for each call, in their order, some at a time, over as many connections as the server's limit of
/// streams takes. An operation of the measurement is one watch that answers.
pub(super) async fn open_all(bench: &Bench, calls: Vec<Call>) -> Result<(Vec<WatchClient>, Measured), Failure> {
    let target = &bench.target;
    let connections = match target.wire.http1 {
        true => calls.len(),
        false => calls.len().div_ceil(target.wire.watches_per_connection.max(1)),
    };
    let many = calls.len() as u64;
    let sessions = Session::spread(target, calls.len(), connections).await?;
    let gate = &Semaphore::new(OPENING);
    let before = Sample::take(target.pid)?;
    let opening = sessions.into_iter().zip(calls).map(|(session, call)| async move {
        let permit = gate.acquire().await;
        let begun = Instant::now();
        let watcher = WatchClient::open(session, call).await?;
        drop(permit);
        Ok::<_, Failure>((watcher, begun.elapsed()))
    });
    let opened = try_join_all(opening).await?;
    let after = Sample::take(target.pid)?;
    let mut latency = microseconds();
    opened.iter().for_each(|(_, took)| record(&mut latency, *took));
    let watchers = opened.into_iter().map(|(watcher, _)| watcher).collect();
    Ok((watchers, before.until(after, many, 0, latency)))
}

/// The resourceVersion to watch a collection from.
pub(super) async fn current_version(bench: &Bench, collection: &str) -> Result<u64, Failure> {
    let mut session = Session::open(&bench.target).await?;
    let list = Call::get(format!("{collection}?limit=1"));
    let body = session.expect(&list, StatusCode::OK).await?;
    let list: serde_json::Value =
        serde_json::from_slice(&body).map_err(|error| Failure::Wrong(format!("{collection}: {error}")))?;
    let version = list["metadata"]["resourceVersion"].as_str();
    version
        .and_then(|version| version.parse().ok())
        .ok_or_else(|| Failure::Wrong(format!("{collection}: the list has no resourceVersion")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_whole_wherever_the_pieces_end() {
        let text = b"first\nsecond line\n\nfourth\nbegun";
        for size in 1..=text.len() {
            let (mut lines, mut seen) = (Lines::default(), Vec::new());
            for piece in text.chunks(size) {
                let piece = Bytes::copy_from_slice(piece);
                lines.see(&piece, |line| seen.push(String::from_utf8(line.to_vec()).unwrap()));
            }
            assert_eq!(seen, ["first", "second line", "", "fourth"], "pieces of {size}");
        }
    }

    #[test]
    fn events_are_distinguished_from_bookmarks_and_errors() {
        let line = br#"{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"7"}}}"#;
        let event = WatchedChange::of(line).unwrap().unwrap();
        assert_eq!(event.version, 7);
        assert!(event.is_of("a") && !event.is_of("b"));
        let bookmark = br#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"8"}}}"#;
        assert_eq!(WatchedChange::of(bookmark), Ok(None));
        let error = br#"{"type":"ERROR","object":{"kind":"Status","code":410}}"#;
        assert!(WatchedChange::of(error).unwrap_err().contains("410"));
        assert!(WatchedChange::of(b"").is_err());
    }
}
