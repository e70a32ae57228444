//! Subresources with rules of a kind's own, beside `/status`, `/scale` and `/finalize`.
//!
//! A kind names them through [`crate::Strategy::subresource`]. A *part* is the object itself, of
//! which only some fields can be changed; a *command* is POSTed and does something to the object; a *connection* leads
//! to somebody else, such as the kubelet that runs a pod.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use serde_json::Value;
use trireme_machinery::{ApiError, GroupVersionKind, field::ErrorList};

use crate::{
    director::ApiSurface,
    item::Item,
    registry::RegistryHandle,
    request::{Body, Freshness, GetRequest, Target, UserInfo, WriteOptions},
    strategy::{Strategy, WriteContext},
};

/// What a subresource is for.
pub enum SubresourceRole<'a> {
    /// It changes a part of the object.
    Part(&'a dyn Part),
    /// It does something to the object.
    Command(&'a dyn Command),
    /// It leads to somebody else.
    Connection(&'a dyn Connection),
}

/// A subresource that reads as the object and writes some of its fields. Like the hooks of a [`Strategy`], these see
/// objects in the stored version.
pub trait Part: Send + Sync {
    /// As URLs name it.
    fn name(&self) -> &'static str;

    /// Carries over what cannot be changed this way.
    fn prepare_for_update(&self, context: &WriteContext, new: &mut Value, old: &Value);

    /// Faults of the change, beyond the object's metadata.
    fn validate_update(&self, context: &WriteContext, new: &Value, old: &Value) -> ErrorList;
}

/// What the body of a command must be.
pub struct CommandBody {
    /// The kind as clients write it.
    pub kind: GroupVersionKind,
    /// Other kinds of the same form that will do as well: older versions.
    pub also: Vec<GroupVersionKind>,
    /// The kind's name in the type table.
    pub type_name: &'static str,
}

/// A subresource that takes a POST of an object of another kind and does what it says; success is told by a `Status`, or
/// by the object as it was carried out.
///
/// Order: the body is decoded → admission may change it → [`check`](Self::check) → admission may refuse it →
/// [`run`](Self::run).
pub trait Command: Send + Sync {
    /// What is POSTed.
    fn body(&self) -> CommandBody;

    /// Holds the body against the rules that need no look at the object.
    ///
    /// # Errors
    /// What the client is told.
    fn check(&self, target: &Target, body: &Value) -> Result<(), ApiError>;

    /// Does it. Goes on to its end even if the client is gone. What it gives back is the answer; nothing, if success is
    /// all there is to tell.
    fn run<'a>(&'a self, call: &'a CommandCall) -> BoxFuture<'a, Result<Option<Value>, ApiError>>;
}

/// A command under way.
pub struct CommandCall {
    /// The registry of the object.
    pub registry: RegistryHandle,
    /// All resources, for commands that concern more than one.
    pub routes: Arc<ApiSurface>,
    /// The object.
    pub target: Target,
    /// The body, checked.
    pub body: Value,
    /// The wall clock.
    pub now: Timestamp,
    /// Nothing is to be stored.
    pub dry_run: bool,
}

/// What became of a command.
#[derive(Debug)]
pub struct Commanded {
    /// What to answer with, if it is more than success.
    pub object: Option<Value>,
    /// What to warn of.
    pub warnings: Vec<String>,
}

/// POST to a command.
pub struct CommandRequest {
    /// Where. An empty name is taken from the body; then the body's uid says nothing.
    pub target: Target,
    /// The command.
    pub command: String,
    /// The object that says what to do.
    pub body: Body,
    /// Options.
    pub options: WriteOptions,
    /// All resources.
    pub routes: Arc<ApiSurface>,
}

/// A subresource whose requests are passed on to somebody else.
pub trait Connection: Send + Sync {
    /// Holds the options against their rules and finds out where the request goes.
    fn find<'a>(&'a self, call: &'a ConnectionCall) -> BoxFuture<'a, Result<Destination, ApiError>>;
}

/// A request for a connection.
pub struct ConnectionCall {
    /// The registry of the object.
    pub registry: RegistryHandle,
    /// All resources, for connections that concern more than one.
    pub routes: Arc<ApiSurface>,
    /// The object. The name is the URL's and may be more than a name: `https:service:port`.
    pub target: Target,
    /// The query's decoded pairs, in order.
    pub query: Vec<(String, String)>,
}

/// Where a connection leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Destination {
    /// There is nobody yet, and so nothing to be told: an empty answer.
    Nobody,
    /// There is somebody who could be asked: a kubelet, or an address of a pod or service.
    Backend,
}

impl ConnectionCall {
    /// The first value of a parameter.
    pub fn option(&self, name: &str) -> Option<&str> {
        self.query
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    /// The object of this name, as it is now.
    ///
    /// # Errors
    /// As any GET of it.
    pub async fn object(&self, name: &str) -> Result<Value, ApiError> {
        let target = Target {
            name: name.to_owned(),
            ..self.target.clone()
        };
        let freshness = Freshness::Latest;
        let item = self.registry.get(GetRequest { target, freshness }).await?;
        parse(&item)
    }
}

impl CommandCall {
    /// The object as it is now.
    ///
    /// # Errors
    /// As any GET of it.
    pub async fn object(&self) -> Result<Value, ApiError> {
        let target = self.target.clone();
        let freshness = Freshness::Latest;
        let item = self.registry.get(GetRequest { target, freshness }).await?;
        parse(&item)
    }
}

/// A cached object as a tree, in the stored version.
///
/// # Errors
/// If the store holds something else than JSON.
pub fn parse(item: &Item) -> Result<Value, ApiError> {
    crate::write::object::parse(item)
}

/// The user in whose name the server itself acts.
pub fn own_user() -> UserInfo {
    UserInfo {
        name: "system:apiserver".to_owned(),
        groups: vec!["system:masters".to_owned()],
        ..UserInfo::default()
    }
}

/// A part that a request names.
pub(crate) fn part<'a>(strategy: &'a dyn Strategy, name: &str) -> Result<&'a dyn Part, ApiError> {
    match strategy.subresource(name) {
        Some(SubresourceRole::Part(part)) => Ok(part),
        _ => Err(ApiError::internal("the resource has no such part")),
    }
}

/// A command that a request names.
pub(crate) fn command<'a>(strategy: &'a dyn Strategy, name: &str) -> Result<&'a dyn Command, ApiError> {
    match strategy.subresource(name) {
        Some(SubresourceRole::Command(command)) => Ok(command),
        _ => Err(ApiError::internal("the resource has no such command")),
    }
}
