//! The members' clients, for each event loop its own.
//!
//! A client's connection is served by tasks of the event loop that it was made on. Were it shared, every request from
//! another loop would wake that loop's thread, and its answer would wake the thread that waits: with a dozen requests
//! under way that is more work than the request itself. So each loop that asks has connections of its own, which are
//! made when it first asks, and made anew when the certificates have changed. What runs over the former ones goes on there.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard},
};

use etcd_client::{Client, ConnectOptions};
use futures_util::future::select_ok;
use tokio::{
    runtime::{Handle, Id},
    time::timeout,
};

use super::{EtcdOptions, STATUS_TIMEOUT};
use crate::StorageError;

/// The client of each member, in the order of the endpoints.
pub(super) type Members = Arc<[Client]>;

/// The options of the connections to each member.
type EndpointOptions = Arc<[(String, ConnectOptions)]>;

pub(super) struct Clients(RwLock<ClientsByLoop>);

struct ClientsByLoop {
    endpoints: EndpointOptions,
    by_loop: HashMap<Id, Members>,
}

impl Clients {
    /// Checks the options and prepares connections for the event loop that this is called on.
    pub(super) async fn new(options: &EtcdOptions) -> Result<Self, StorageError> {
        if options.endpoints.is_empty() {
            return Err(StorageError::Failed("no etcd endpoints are given".to_owned()));
        }
        let clients = Self(RwLock::new(ClientsByLoop {
            endpoints: endpoint_options(options)?,
            by_loop: HashMap::new(),
        }));
        clients.here().await?;
        Ok(clients)
    }

    /// Has all connections made anew, by options with the same endpoints, if a member answers over such a connection.
    pub(super) async fn renew(&self, options: &EtcdOptions) -> Result<(), StorageError> {
        let endpoints = endpoint_options(options)?;
        if endpoints.len() != self.len() {
            return Err(StorageError::Failed("the etcd endpoints must stay the same".to_owned()));
        }
        let made = connect(&endpoints).await?;
        any_answers(&made).await?;
        let mut clients = self.0.write().unwrap_or_else(PoisonError::into_inner);
        clients.endpoints = endpoints;
        clients.by_loop.clear();
        clients.by_loop.insert(Handle::current().id(), made);
        Ok(())
    }

    fn read(&self) -> RwLockReadGuard<'_, ClientsByLoop> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of members.
    pub(super) fn len(&self) -> usize {
        self.read().endpoints.len()
    }

    /// The clients of the event loop that this is called on. Never waits for a member.
    pub(super) async fn here(&self) -> Result<Members, StorageError> {
        let here = Handle::current().id();
        let (known, endpoints) = {
            let clients = self.read();
            (clients.by_loop.get(&here).cloned(), Arc::clone(&clients.endpoints))
        };
        if let Some(known) = known {
            return Ok(known);
        }
        let made = connect(&endpoints).await?;
        let mut clients = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if !Arc::ptr_eq(&clients.endpoints, &endpoints) {
            // Renewed meanwhile: these are for this once.
            return Ok(made);
        }
        // Two that asked at once have the same.
        Ok(clients.by_loop.entry(here).or_insert(made).clone())
    }
}

/// Prepares connections, which are made when they are needed.
async fn connect(endpoints: &[(String, ConnectOptions)]) -> Result<Members, StorageError> {
    let mut made = Vec::with_capacity(endpoints.len());
    for (endpoint, options) in endpoints {
        let wrong = |error| StorageError::Failed(format!("etcd endpoint {endpoint:?}: {error}"));
        let client = Client::connect([endpoint], Some(options.clone())).await;
        made.push(client.map_err(wrong)?);
    }
    Ok(made.into())
}

/// Waits until a member says that it is there.
async fn any_answers(members: &[Client]) -> Result<(), StorageError> {
    let asked = members.iter().map(|member| {
        let mut member = member.maintenance_client();
        Box::pin(async move {
            let answer = timeout(STATUS_TIMEOUT, member.status()).await;
            let answer = answer.map_err(|_| StorageError::Timeout)?;
            answer.map_err(|error| StorageError::Unavailable(error.to_string()))
        })
    });
    select_ok(asked)
        .await
        .map(drop)
        .map_err(|error| StorageError::Unavailable(format!("no etcd member answers over a new connection: {error}")))
}

fn endpoint_options(options: &EtcdOptions) -> Result<EndpointOptions, StorageError> {
    let endpoints = options.endpoints.iter();
    endpoints
        .map(|endpoint| Ok((endpoint.clone(), options.connect_options(endpoint)?)))
        .collect()
}
