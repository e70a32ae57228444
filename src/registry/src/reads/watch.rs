//! A watch: a cursor into the events of a resource, and a filter.
//!
//! A watcher holds no queue. It first sends the state it started from (if asked to), then reads the shared log up to its
//! end, then waits on its topic. If it falls behind what the topic keeps it goes back to the log; if it falls behind
//! the log, too, it ends with 410, and the client lists again. Events are identified by their sequence, so that nothing
//! is sent twice or left out on the way between the three.

use std::{
    any::Any,
    ops::Bound,
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use bytes::Bytes;
use tokio::sync::broadcast::{
    Receiver,
    error::{RecvError, TryRecvError},
};
use trireme_actors::{AskError, Clock};
use trireme_machinery::{ApiError, GroupVersion};
use trireme_storage::Revision;

use super::{FRESH_WITHIN, converted::ConvertedSelection, errors, filter::Filter, freshness::CacheProgress};
use crate::{
    definition::ResourceDefinition,
    event::LogEvent,
    event_kind::EventKind,
    item::{Item, ItemKey},
    request::{WatchRequest, WatchStart},
    watch_cache::{CacheSnapshot, Subscription, WatchCacheHandle},
};

/// The number of objects or events that are looked at between two answers: bounds the memory of a slow client.
const LOOK_AT_ONCE: usize = 256;
/// The time between two bookmarks for one client, give or take a quarter so that they spread.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// The time after which a watcher without events notes how far the log is, well below the age of kept history: else a
/// burst after a long silence could not be distinguished from a hole in the log.
const REFRESH_EVERY: Duration = Duration::from_secs(30);
/// The last bookmark comes so long before the end.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);

/// An item of a watch's stream.
#[derive(Debug, Clone)]
pub enum WatchFrame {
    /// An object has changed.
    Event {
        /// The kind of change, as seen through the selector.
        kind: EventKind,
        /// The object after the change, or as it was last.
        item: Arc<Item>,
        /// The object before the change, while converted objects have yet to be selected; never seen from outside.
        previous: Option<Arc<Item>>,
        /// The event as a line of JSON in the stored version, shared with all other watchers.
        frame: Bytes,
    },
    /// Everything up to this revision has been sent.
    Bookmark {
        /// The revision.
        revision: Revision,
        /// The initial state is complete.
        initial_events_end: bool,
    },
    /// The watch has failed. Always the last frame.
    Error(ApiError),
}

/// The source of a watcher's events.
pub(super) struct EventSource {
    pub(super) cache: WatchCacheHandle,
    pub(super) progress: CacheProgress,
    pub(super) filter: Filter,
    /// The version that the client watches.
    pub(super) version: Option<GroupVersion>,
    pub(super) current: Arc<ArcSwap<ResourceDefinition>>,
}

impl EventSource {
    /// Reports whether the version is still served.
    fn is_served(&self) -> bool {
        let current = self.current.load();
        self.version
            .as_ref()
            .is_none_or(|version| current.version_index(version).is_some())
    }

    /// The frames as they are seen through a selection among converted objects, by the definition of now.
    async fn selected(&self, frames: &[WatchFrame]) -> Result<Vec<WatchFrame>, ApiError> {
        let current = self.current.load_full();
        let version = self.version.as_ref().and_then(|version| current.version_index(version));
        let version = version.unwrap_or(current.storage_version);
        match ConvertedSelection::of(&current, version, &self.filter) {
            None => Ok(frames.to_vec()),
            Some(selection) => selection.of_frames(frames).await,
        }
    }
}

enum WatchPhase {
    /// Sends the objects after `after` of a snapshot.
    State {
        snapshot: Arc<CacheSnapshot>,
        after: Option<ItemKey>,
        mark_end: bool,
    },
    /// Reads the log.
    Log,
    /// Waits on the topic.
    Live,
    /// Has ended.
    Over,
}

/// The state of a topic after a look at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Drained {
    /// There may be more in it, or in the log.
    Some,
    /// Nothing is left in it.
    All,
    /// Nothing is left in it, and nothing will come.
    Closed,
}

/// The latest time at which a watcher without events wakes up. It stays set while events come: to arm a timer costs as
/// much as to look at an event.
struct Alarm {
    at: Instant,
    over: Pin<Box<dyn Future<Output = ()> + Send + Sync>>,
}

impl Alarm {
    fn set(clock: &Clock, at: Instant) -> Self {
        let clock = clock.clone();
        let over = Box::pin(async move { clock.sleep_until(at).await });
        Self { at, over }
    }
}

/// A running watch.
pub struct Watcher {
    source: EventSource,
    events: Receiver<Arc<LogEvent>>,
    phase: WatchPhase,
    /// The sequence of the next event to look at.
    cursor: u64,
    /// Everything up to here has been sent.
    sent: Revision,
    /// Nothing up to here is sent. It may lie in the future, as with kube-apiserver: the watch is silent until then.
    after: Revision,
    next_bookmark: Option<Instant>,
    deadline: Instant,
    alarm: Option<Alarm>,
    /// Frames that have been read, while the resource's converter is asked what is selected of them.
    unselected: Vec<WatchFrame>,
    /// Kept until everything from before the watch began has been sent.
    held: Option<Box<dyn Any + Send + Sync>>,
    clock: Clock,
}

impl Watcher {
    pub(super) fn new(
        source: EventSource,
        subscription: Subscription,
        request: &WatchRequest,
        reached: Revision,
        opened: Instant,
        clock: Clock,
    ) -> Result<Self, ApiError> {
        let Subscription { snapshot, events } = subscription;
        let next = snapshot.log.next_sequence();
        let newest = reached.max(snapshot.revision);
        let (phase, cursor, sent) = match request.start {
            WatchStart::After(revision) => {
                let expired = || errors::watch_expired(revision, snapshot.log.start());
                let first = snapshot.log.after(revision).ok_or_else(expired)?;
                source.cache.meters().looked_back_at(next - first);
                (WatchPhase::Log, first, revision)
            }
            WatchStart::Now(_) => (WatchPhase::Live, next, newest),
            WatchStart::State(_) => {
                let mark_end = request.initial_events_end && request.bookmarks;
                (
                    WatchPhase::State {
                        snapshot,
                        after: None,
                        mark_end,
                    },
                    next,
                    newest,
                )
            }
        };
        let after = match request.start {
            WatchStart::After(revision) => revision,
            WatchStart::Now(_) | WatchStart::State(_) => 0,
        };
        let deadline = opened + request.timeout;
        let next_bookmark = request.bookmarks.then(|| next_bookmark(opened, deadline)).flatten();
        Ok(Self {
            source,
            events,
            phase,
            cursor,
            sent,
            after,
            next_bookmark,
            deadline,
            alarm: None,
            unselected: Vec::new(),
            held: None,
            clock,
        })
    }

    /// Keeps `held` until the client has taken everything from before the watch began, or the watch ends: that work costs as
    /// much as a list, and to wait for events costs nothing.
    pub fn hold_until_live(&mut self, held: impl Send + Sync + 'static) {
        self.held = Some(Box::new(held));
    }

    /// The next frames, at least one; `None` is a clean end. May be dropped at any time without losing anything.
    pub async fn next(&mut self) -> Option<Vec<WatchFrame>> {
        loop {
            if self.unselected.is_empty() {
                let frames = self.read().await?;
                if !self.source.filter.selects_converted() {
                    return Some(frames);
                }
                self.unselected = frames;
            }
            // In a box, since few watches have to wait for a converter and all would be larger for it.
            let selected = Box::pin(self.source.selected(&self.unselected)).await;
            self.unselected.clear();
            match selected {
                Ok(frames) if frames.is_empty() => {}
                Ok(frames) => return Some(frames),
                Err(error) => {
                    self.phase = WatchPhase::Over;
                    return Some(vec![WatchFrame::Error(error)]);
                }
            }
        }
    }

    async fn read(&mut self) -> Option<Vec<WatchFrame>> {
        loop {
            if !matches!(self.phase, WatchPhase::Over) && self.clock.now() >= self.deadline {
                self.phase = WatchPhase::Over;
            }
            if matches!(self.phase, WatchPhase::Live | WatchPhase::Over) {
                self.held = None;
            }
            let frames = match self.phase {
                WatchPhase::Over => return None,
                WatchPhase::State { .. } => self.read_state(),
                WatchPhase::Log => self.read_log(),
                WatchPhase::Live => self.read_topic().await,
            };
            if !frames.is_empty() {
                return Some(frames);
            }
            tokio::task::consume_budget().await;
        }
    }

    fn read_state(&mut self) -> Vec<WatchFrame> {
        let WatchPhase::State {
            snapshot,
            after,
            mark_end,
        } = &mut self.phase
        else {
            return Vec::new();
        };
        let newest = self.source.cache.snapshot();
        if !newest.log.reaches(self.cursor) {
            return self.expire(&newest);
        }
        let (from, to) = self.source.filter.bounds();
        let from = after
            .as_deref()
            .map_or(from.as_ref().map(String::as_str), Bound::Excluded);
        let mut frames = Vec::new();
        let (mut last, mut looked_at) = (None, 0);
        let range = (from, to.as_ref().map(String::as_str));
        let candidates = snapshot.index.candidates(range, self.source.filter.wanted());
        for item in candidates.take(LOOK_AT_ONCE) {
            last = Some(item.key.clone());
            looked_at += 1;
            if self.source.filter.matches(item) {
                let frame = item.line(EventKind::Added);
                frames.push(WatchFrame::Event {
                    kind: EventKind::Added,
                    item: item.clone(),
                    previous: None,
                    frame,
                });
            }
        }
        self.source.cache.meters().looked_back_at(looked_at);
        if last.is_some() {
            *after = last;
            return frames;
        }
        if *mark_end {
            frames.push(WatchFrame::Bookmark {
                revision: self.sent,
                initial_events_end: true,
            });
        }
        self.phase = WatchPhase::Log;
        frames
    }

    fn read_log(&mut self) -> Vec<WatchFrame> {
        let newest = self.source.cache.snapshot();
        if !newest.log.reaches(self.cursor) {
            return self.expire(&newest);
        }
        let mut frames = Vec::new();
        for _ in 0..LOOK_AT_ONCE {
            let Some(event) = newest.log.get(self.cursor) else {
                self.phase = WatchPhase::Live;
                break;
            };
            self.look_at(event, &mut frames);
        }
        frames
    }

    async fn read_topic(&mut self) -> Vec<WatchFrame> {
        let mut frames = Vec::new();
        let bookmark = self.due_bookmark();
        let delivered = self.source.cache.delivered_sequence();
        let drained = self.drain(&mut frames);
        if drained == Drained::All {
            // All that concerns this watcher was in the topic before it was drained.
            self.cursor = self.cursor.max(delivered);
            if let Some(revision) = bookmark {
                if revision >= self.after {
                    self.sent = self.sent.max(revision);
                    frames.push(WatchFrame::Bookmark {
                        revision: self.sent,
                        initial_events_end: false,
                    });
                }
                self.next_bookmark = next_bookmark(self.clock.now(), self.deadline);
            }
        }
        if !frames.is_empty() || drained == Drained::Some {
            return frames;
        }
        let wake_at = self.next_bookmark.map_or(self.deadline, |at| at.min(self.deadline));
        let alarm = match &mut self.alarm {
            Some(alarm) if alarm.at <= wake_at => alarm,
            alarm => alarm.insert(Alarm::set(&self.clock, wake_at.min(self.clock.now() + REFRESH_EVERY))),
        };
        let received = tokio::select! {
            biased;
            received = self.events.recv() => Some(received),
            () = &mut alarm.over => None,
        };
        match received {
            Some(Ok(event)) => {
                self.look_at(&event, &mut frames);
                self.drain(&mut frames);
            }
            Some(Err(RecvError::Lagged(_))) => self.phase = WatchPhase::Log,
            Some(Err(RecvError::Closed)) => return self.subscribe_again().await,
            None => self.alarm = None,
        }
        frames
    }

    /// The revision for a bookmark that is due: read before the topic is drained, so that all events up to it are in
    /// the topic by then.
    fn due_bookmark(&self) -> Option<Revision> {
        let due = self.next_bookmark.is_some_and(|at| at <= self.clock.now());
        due.then(|| self.source.progress.reached())
    }

    /// Takes what has arrived.
    fn drain(&mut self, frames: &mut Vec<WatchFrame>) -> Drained {
        for _ in 0..LOOK_AT_ONCE {
            match self.events.try_recv() {
                Ok(event) => self.look_at(&event, frames),
                Err(TryRecvError::Lagged(_)) => {
                    self.phase = WatchPhase::Log;
                    return Drained::Some;
                }
                Err(TryRecvError::Empty) => return Drained::All,
                // Events published since are not in here: the cursor has to stay where it is, for the hole to be noticed.
                Err(TryRecvError::Closed) => return Drained::Closed,
            }
        }
        Drained::Some
    }

    fn look_at(&mut self, event: &LogEvent, frames: &mut Vec<WatchFrame>) {
        if event.sequence < self.cursor {
            return;
        }
        self.cursor = event.sequence + 1;
        if event.revision() <= self.after {
            return;
        }
        if let Some(seen) = event.seen_by(|item| self.source.filter.matches(item)) {
            self.sent = event.revision();
            frames.push(WatchFrame::Event {
                kind: seen.kind,
                item: seen.item,
                previous: event
                    .previous
                    .clone()
                    .filter(|_| self.source.filter.selects_converted()),
                frame: seen.line,
            });
        }
    }

    /// The topic was closed: the cache has lost its history or was rebuilt or removed, or a version is served no longer.
    async fn subscribe_again(&mut self) -> Vec<WatchFrame> {
        if !self.source.is_served() {
            self.phase = WatchPhase::Over;
            return Vec::new();
        }
        let topic = self.source.filter.topic().clone();
        match self
            .source
            .cache
            .subscribe(topic, self.clock.now() + FRESH_WITHIN)
            .await
        {
            Ok(Subscription { snapshot, events }) => {
                self.events = events;
                if !snapshot.log.reaches(self.cursor) {
                    return self.expire(&snapshot);
                }
                self.phase = WatchPhase::Log;
                Vec::new()
            }
            Err(AskError::Stopped { .. }) => {
                self.phase = WatchPhase::Over;
                Vec::new()
            }
            Err(error) => {
                self.phase = WatchPhase::Over;
                vec![WatchFrame::Error(errors::ask(error))]
            }
        }
    }

    fn expire(&mut self, newest: &CacheSnapshot) -> Vec<WatchFrame> {
        self.phase = WatchPhase::Over;
        vec![WatchFrame::Error(errors::watch_expired(self.sent, newest.log.start()))]
    }
}

/// The time of the bookmark after `now`, if there is one before the end.
fn next_bookmark(now: Instant, deadline: Instant) -> Option<Instant> {
    let periodic = now + BOOKMARK_EVERY.mul_f64(rand::random_range(0.75..1.25));
    let last = deadline.checked_sub(BOOKMARK_BEFORE_END).filter(|last| *last > now)?;
    Some(periodic.min(last))
}
