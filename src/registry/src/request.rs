//! Requests to a registry, decoded and free of HTTP.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use serde_json::Value;
use trireme_machinery::{
    ApiError, ErrorDetails, GroupVersion, Reason,
    selector::{FieldSelector, LabelSelector},
};
use trireme_storage::Revision;

use crate::{audit_notes::AuditNotes, fence::WriteFence, item::Item, trace::Trace, webhook_latency::WebhookLatency};

/// The user of a request (`user.Info`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UserInfo {
    /// User name.
    pub name: String,
    /// Unique id, if the authenticator knows one.
    pub uid: String,
    /// Groups, in the authenticator's order.
    pub groups: Vec<String>,
    /// More facts for authorizers.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl UserInfo {
    /// The node that this is the user of: empty if his name does not say which one, `None` for others.
    pub fn node_name(&self) -> Option<&str> {
        let node = self.name.strip_prefix("system:node:")?;
        self.groups.iter().any(|group| group == "system:nodes").then_some(node)
    }
}

/// The user in whose name the server itself acts.
pub fn own_user() -> UserInfo {
    UserInfo {
        name: "system:apiserver".to_owned(),
        groups: vec!["system:masters".to_owned()],
        ..UserInfo::default()
    }
}

/// The circumstances of a write.
#[derive(Debug, Clone)]
pub struct WriteContext {
    /// The user.
    pub user: UserInfo,
    /// The version that the request is in; objects are in the stored one.
    pub version: GroupVersion,
    /// The wall clock.
    pub now: Timestamp,
    /// Nothing will be stored.
    pub dry_run: bool,
    /// The warnings of validation.
    pub warnings: WarningRecorder,
}

/// Warnings that validation has for the client, whatever comes of the write (`k8s.io/apiserver/pkg/warning`).
#[derive(Debug, Clone, Default)]
pub struct WarningRecorder(Arc<Mutex<Vec<String>>>);

impl WarningRecorder {
    /// Adds texts.
    pub fn add(&self, texts: Vec<String>) {
        if !texts.is_empty() {
            self.recorded().extend(texts);
        }
    }

    /// Takes out what has been recorded.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.recorded())
    }

    fn recorded(&self) -> MutexGuard<'_, Vec<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Strictness about unknown and duplicate fields (`fieldValidation`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FieldValidation {
    /// Dropped in silence.
    Ignore,
    /// Dropped with a `Warning` each.
    #[default]
    Warn,
    /// Refused.
    Strict,
}

impl FieldValidation {
    /// As options name it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ignore => "Ignore",
            Self::Warn => "Warn",
            Self::Strict => "Strict",
        }
    }
}

/// The part that all requests for a resource have.
#[derive(Debug, Clone, Default)]
pub struct Target {
    /// The served version in use: an index into `ResourceDefinition::versions`.
    pub version: usize,
    /// The namespace of the URL; empty for cluster-scoped resources and for all namespaces.
    pub namespace: String,
    /// The name of the URL; empty for collections.
    pub name: String,
    /// The user.
    pub user: UserInfo,
    /// The trace of its steps; off for what the server asks itself.
    pub trace: Trace,
    /// The notes for the audit log; off for requests that are not recorded.
    pub audit: AuditNotes,
    /// The time spent in webhooks; off for what the server asks itself.
    pub webhooks: WebhookLatency,
    /// Write only as long as this holds: for the server's own work that one replica at a time does.
    pub fence: Option<WriteFence>,
    /// Until when a write may wait for its key and for admission; what the server does on its own account has all the time.
    pub deadline: Option<Instant>,
}

/// The error of a write whose deadline has come while nothing was written yet.
pub(crate) fn timed_out() -> ApiError {
    let text = "Timeout: request did not complete within the allotted timeout";
    ApiError::new(Reason::Timeout, text).with_details(ErrorDetails::default())
}

/// A subresource that is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Subresource {
    /// The object itself.
    #[default]
    None,
    /// `/status`
    Status,
    /// `/scale`: bodies are `autoscaling/v1` `Scale`.
    Scale,
    /// `/finalize` of namespaces: only `spec.finalizers` counts.
    Finalize,
    /// One of the kind's own that changes part of the object, by name: [`Update`](crate::subresource::Update).
    Update(&'static str),
    /// One of the kind's own that takes a POST, by name: [`Create`](crate::subresource::Create).
    Create(&'static str),
    /// One that leads to a backend, by name: [`Connect`](crate::subresource::Connect).
    Connect(&'static str),
}

impl Subresource {
    /// As URLs name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Status => "status",
            Self::Scale => "scale",
            Self::Finalize => "finalize",
            Self::Update(name) | Self::Create(name) | Self::Connect(name) => name,
        }
    }
}

/// Options that all writes share, already validated.
#[derive(Debug, Clone, Default)]
pub struct WriteOptions {
    /// `dryRun=All`
    pub dry_run: bool,
    /// `fieldManager`, or what the user agent yields.
    pub field_manager: String,
    /// True if the client gave `fieldManager` itself.
    pub names_manager: bool,
    /// True if the client gave `fieldValidation` itself.
    pub names_validation: bool,
    /// `fieldValidation`
    pub field_validation: FieldValidation,
    /// True for a PATCH.
    pub is_patch: bool,
    /// `force` of an apply; `None` for all other writes.
    pub force: Option<bool>,
    /// Asked by an update or an apply that is about to create what it did not find; without it, the user may.
    pub creation_check: Option<Arc<dyn CreationCheck>>,
}

/// Decides if a user who may change an object may create it, too (`withAuthorization` of
/// `apiserver/pkg/endpoints/handlers/update.go`).
pub trait CreationCheck: fmt::Debug + Send + Sync {
    /// Refuses, or does not.
    ///
    /// # Errors
    /// 403 if the user may not; 500 if that cannot be found out.
    fn check<'a>(&'a self, user: &'a UserInfo) -> BoxFuture<'a, Result<(), ApiError>>;
}

/// A request body and what it is.
#[derive(Debug, Clone)]
pub struct Body {
    /// The bytes as received.
    pub bytes: Bytes,
    /// Their format.
    pub format: BodyFormat,
}

/// The format of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyFormat {
    /// `application/json`
    Json,
    /// `application/yaml`
    Yaml,
    /// `application/vnd.kubernetes.protobuf`
    Protobuf,
}

/// POST
#[derive(Debug, Clone)]
pub struct CreateRequest {
    /// The place of the object or collection.
    pub target: Target,
    /// The object.
    pub body: Body,
    /// Options.
    pub options: WriteOptions,
}

/// PUT
#[derive(Debug, Clone)]
pub struct UpdateRequest {
    /// The place of the object or collection.
    pub target: Target,
    /// Which part.
    pub subresource: Subresource,
    /// The object.
    pub body: Body,
    /// Options.
    pub options: WriteOptions,
}

/// The kinds of patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchKind {
    /// `application/json-patch+json`
    Json,
    /// `application/merge-patch+json`
    Merge,
    /// `application/strategic-merge-patch+json`
    StrategicMerge,
    /// `application/apply-patch+yaml`
    Apply,
}

/// PATCH
#[derive(Debug, Clone)]
pub struct PatchRequest {
    /// The place of the object or collection.
    pub target: Target,
    /// Which part.
    pub subresource: Subresource,
    /// The kind of patch.
    pub kind: PatchKind,
    /// The patch.
    pub patch: Bytes,
    /// Options.
    pub options: WriteOptions,
}

/// `DeleteOptions`, merged from query and body and validated.
#[derive(Debug, Clone, Default)]
pub struct DeleteOptions {
    /// `gracePeriodSeconds`
    pub grace_period_seconds: Option<i64>,
    /// `propagationPolicy`, or what `orphanDependents` means.
    pub propagation: Option<Propagation>,
    /// `preconditions.uid`
    pub uid: Option<String>,
    /// `preconditions.resourceVersion`
    pub resource_version: Option<String>,
    /// `dryRun=All`
    pub dry_run: bool,
}

/// The fate of dependents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    /// They lose their owner.
    Orphan,
    /// They are deleted afterwards.
    Background,
    /// They are deleted first.
    Foreground,
}

/// DELETE of one object
#[derive(Debug, Clone)]
pub struct DeleteRequest {
    /// The place of the object or collection.
    pub target: Target,
    /// Options.
    pub options: DeleteOptions,
}

/// DELETE of a collection
#[derive(Debug, Clone)]
pub struct DeleteCollectionRequest {
    /// The place of the object or collection.
    pub target: Target,
    /// Which objects.
    pub selection: Selection,
    /// `resourceVersion` and its match of the list that selects them, `limit`, `continue`.
    pub list: ListOptions,
    /// Options for each deletion.
    pub options: DeleteOptions,
}

/// Which objects of a collection.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// By label.
    pub labels: LabelSelector,
    /// By field; every field is known to be selectable.
    pub fields: FieldSelector,
}

/// The freshness that a read needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Freshness {
    /// Linearizable: as of now.
    #[default]
    Latest,
    /// Whatever is at hand (`resourceVersion=0`).
    Any,
    /// At least as new as this revision.
    NotOlderThan(Revision),
    /// Exactly this revision.
    Exact(Revision),
}

/// GET of one object
#[derive(Debug, Clone)]
pub struct GetRequest {
    /// The place of the object or collection.
    pub target: Target,
    /// The freshness that is needed.
    pub freshness: Freshness,
}

/// Options of a list, already held against `ValidateListOptions`.
#[derive(Debug, Clone, Default)]
pub struct ListOptions {
    /// The freshness that is needed; ignored with `continue_token`.
    pub freshness: Freshness,
    /// At most so many items; 0 means all.
    pub limit: usize,
    /// The end of the last page, as the client got it.
    pub continue_token: Option<String>,
}

/// GET of a collection
#[derive(Debug, Clone)]
pub struct ListRequest {
    /// The place of the object or collection.
    pub target: Target,
    /// Which objects.
    pub selection: Selection,
    /// Options.
    pub options: ListOptions,
}

/// From where a watch starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchStart {
    /// The state now as ADDED events, then changes. The state is as fresh as asked for.
    State(Freshness),
    /// Changes after this revision.
    After(Revision),
    /// Changes after a state as fresh as asked for, which itself is not sent (`sendInitialEvents=false` without a
    /// revision).
    Now(Freshness),
}

/// GET with `watch`
#[derive(Debug, Clone)]
pub struct WatchRequest {
    /// The place; a name restricts the watch to one object.
    pub target: Target,
    /// Which objects.
    pub selection: Selection,
    /// From where.
    pub start: WatchStart,
    /// True to send bookmarks (`allowWatchBookmarks`).
    pub bookmarks: bool,
    /// True to mark the end of the initial state with the `k8s.io/initial-events-end` bookmark.
    pub initial_events_end: bool,
    /// After what time to end the watch.
    pub timeout: Duration,
}

/// An object on its way to the client.
#[derive(Debug, Clone)]
pub enum Answer {
    /// An object of the resource, as it is stored; [`crate::versions`] turns it into other served versions.
    Cached(Arc<Item>),
    /// An object of the requested version, or a view such as a `Scale`, that is made on request.
    Materialized(Value),
}

impl Answer {
    /// The object, if it is stored.
    pub fn stored(&self) -> Option<Arc<Item>> {
        match self {
            Self::Cached(item) => Some(Arc::clone(item)),
            Self::Materialized(_) => None,
        }
    }
}

/// A committed (or dry-run) write.
#[derive(Debug, Clone)]
pub struct Written {
    /// The object after the write.
    pub object: Answer,
    /// True if it was created.
    pub created: bool,
    /// `Warning` texts.
    pub warnings: Vec<String>,
}

/// The outcome of a delete.
#[derive(Debug, Clone)]
pub struct Deleted {
    /// The object as it was last, or as it is now if it is only marked.
    pub object: Arc<Item>,
    /// True if it is gone; else it waits for its finalizers or grace period.
    pub removed: bool,
    /// True if the answer is a `Status` of success instead of the object.
    pub as_status: bool,
    /// `Warning` texts.
    pub warnings: Vec<String>,
}
