//! Subresources with rules of a kind's own, beside `/status`, `/scale` and `/finalize`.
//!
//! A kind names them through [`crate::Strategy::subresource`]. An [`Update`] is the object itself, of
//! which only some fields can be changed; a [`Create`] takes a POST and does something to the object; a [`Connect`]
//! passes requests on to a backend, such as the kubelet that runs a pod.

use std::{
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
};

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use serde_json::Value;
use trireme_machinery::{ApiError, GroupVersionKind, field::ErrorList};

use crate::{
    access::{ObjectAccess, ResourceIndex},
    item::parse,
    request::{Freshness, GetRequest, Target, WriteContext},
};

/// The purpose of a subresource, in the terms of `rest.Updater`, `rest.Creater` and `rest.Connecter`.
pub enum SubresourceRole<'a> {
    /// It changes a part of the object.
    Update(&'a dyn Update),
    /// It does something to the object.
    Create(&'a dyn Create),
    /// It passes requests on to a backend.
    Connect(&'a dyn Connect),
}

/// A subresource that reads as the object and writes some of its fields. Like the hooks of a [`Strategy`](crate::Strategy), these see
/// objects in the stored version.
pub trait Update: Send + Sync {
    /// As URLs name it.
    fn name(&self) -> &'static str;

    /// Carries over what cannot be changed this way.
    fn prepare_for_update(&self, context: &WriteContext, new: &mut Value, old: &Value);

    /// Errors of the change, beyond the object's metadata.
    fn validate_update(&self, context: &WriteContext, new: &Value, old: &Value) -> ErrorList;
}

/// The kinds that a body may be of.
pub struct CreateBody {
    /// The kind as clients write it.
    pub kind: GroupVersionKind,
    /// Other kinds of the same form that will do as well: older versions.
    pub also: Vec<GroupVersionKind>,
    /// The kind's name in the type table.
    pub type_name: &'static str,
}

/// A subresource that takes a POST of an object of another kind and does what it says; the answer to success is a
/// `Status`, or the object as it was carried out.
///
/// Order: the body is decoded → admission may change it → [`check`](Self::check) → admission may refuse it →
/// [`run`](Self::run).
pub trait Create: Send + Sync {
    /// As URLs name it.
    fn name(&self) -> &'static str;

    /// The body that is POSTed.
    fn body(&self) -> CreateBody;

    /// Holds the body against the rules that need no look at the object.
    ///
    /// # Errors
    /// The error that the client gets.
    fn check(&self, target: &Target, body: &Value) -> Result<(), ApiError>;

    /// Does it. Goes on to its end even if the client is gone. What it gives back is the answer; nothing, if success is
    /// all there is to tell.
    fn run<'a>(&'a self, call: &'a CreateCall) -> BoxFuture<'a, Result<Option<Value>, ApiError>>;
}

/// A POST under way.
pub struct CreateCall {
    /// The registry of the object.
    pub registry: Arc<dyn ObjectAccess>,
    /// All resources, for those that concern more than one.
    pub routes: Arc<dyn ResourceIndex>,
    /// The object.
    pub target: Target,
    /// The body, checked.
    pub body: Value,
    /// The wall clock.
    pub now: Timestamp,
    /// Nothing is to be stored.
    pub dry_run: bool,
    /// `Warning` texts so far.
    pub warnings: Mutex<Vec<String>>,
}

impl CreateCall {
    /// Adds a `Warning` to the answer.
    pub fn warn(&self, text: String) {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).push(text);
    }
}

/// The outcome of a POST to a [`Create`].
#[derive(Debug)]
pub struct SubresourceCreated {
    /// The object to answer with, if the answer is more than success.
    pub object: Option<Value>,
    /// `Warning` texts.
    pub warnings: Vec<String>,
}

/// A subresource whose requests are passed on to a backend.
///
/// Order: the options are read from the query → admission may change them → admission may refuse them →
/// [`find`](Self::find).
pub trait Connect: Send + Sync {
    /// As URLs name it.
    fn name(&self) -> &'static str;

    /// Reports whether admission sees its connections; it does not see reads, as that of logs.
    fn is_admitted(&self) -> bool {
        true
    }

    /// Reports whether a connection needs the permission to create the subresource, whichever method it begins with. A WebSocket
    /// begins with a GET: the permission to get would be enough for it otherwise.
    fn needs_create(&self) -> bool {
        false
    }

    /// Holds the options against their rules and finds out where the request goes.
    ///
    /// # Errors
    /// Those of the options, and of objects that are not there or have no address yet.
    fn find<'a>(&'a self, call: &'a ConnectCall) -> BoxFuture<'a, Result<Destination, ApiError>>;
}

/// A request to a [`Connect`].
pub struct ConnectCall {
    /// The registry of the object.
    pub registry: Arc<dyn ObjectAccess>,
    /// All resources, for those that concern more than one.
    pub routes: Arc<dyn ResourceIndex>,
    /// The object. The name is the URL's and may be more than a name: `https:service:port`.
    pub target: Target,
    /// The query's decoded pairs, in order.
    pub query: Vec<(String, String)>,
    /// The options as admission leaves them; null for what it does not see.
    pub options: Value,
}

/// The other end of a [`Connect`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// There is no backend yet: an empty answer.
    Absent,
    /// There is a backend: a kubelet, or an address of a pod or service.
    Backend(ConnectTarget),
}

/// The server that a request is passed on to, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectTarget {
    /// The server.
    pub host: BackendHost,
    /// The path there, decoded.
    pub path: String,
    /// The way of the request there.
    pub passing: Passing,
}

/// The server behind an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BackendHost {
    /// The kubelet of this node.
    Kubelet(String),
    /// A server on a node; without a port, its kubelet.
    Node {
        /// The node.
        name: String,
        /// `http` or `https`; empty if the client did not say, which is `http`.
        scheme: String,
        /// The port; empty if the client did not say.
        port: String,
    },
    /// A server on an address of a pod.
    Address {
        /// As that of a node.
        scheme: String,
        /// The address.
        host: IpAddr,
        /// The port; empty for that of the scheme.
        port: String,
    },
}

/// The way of a request to a backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Passing {
    /// The server asks for a text, which is the answer.
    Text {
        /// The parameters of the query, in order.
        query: Vec<(String, String)>,
        /// True if the certificate of the backend does not matter to the client.
        unverified: bool,
    },
    /// The client's connection becomes one to the backend: it has to ask for that.
    Stream {
        /// The parameters of the query, in order.
        query: Vec<(String, String)>,
    },
    /// The request as it is, in the place of the proxy's part of the path that of the backend.
    Proxy,
}

/// Reports whether clients may be proxied to an address: neither the server's own host nor its link-local neighbours.
pub fn may_be_reached(address: IpAddr) -> bool {
    let is_local = match address {
        IpAddr::V4(address) => address.is_link_local() || address.is_broadcast(),
        IpAddr::V6(address) => address.is_unicast_link_local() || address.to_ipv4_mapped().is_some(),
    };
    !is_local && !address.is_loopback() && !address.is_unspecified() && !address.is_multicast()
}

impl ConnectCall {
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

impl CreateCall {
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
