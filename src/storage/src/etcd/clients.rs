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
use tokio::runtime::{Handle, Id};

use super::EtcdOptions;
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

    /// Has all connections made anew, by options with the same endpoints.
    pub(super) fn renew(&self, options: &EtcdOptions) -> Result<(), StorageError> {
        let endpoints = endpoint_options(options)?;
        let mut clients = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if endpoints.len() != clients.endpoints.len() {
            return Err(StorageError::Failed("the etcd endpoints must stay the same".to_owned()));
        }
        clients.endpoints = endpoints;
        clients.by_loop.clear();
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
        let mut made = Vec::with_capacity(endpoints.len());
        for (endpoint, options) in &*endpoints {
            let wrong = |error| StorageError::Failed(format!("etcd endpoint {endpoint:?}: {error}"));
            let client = Client::connect([endpoint], Some(options.clone())).await;
            made.push(client.map_err(wrong)?);
        }
        let mut clients = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if !Arc::ptr_eq(&clients.endpoints, &endpoints) {
            // Renewed meanwhile: these are for this once.
            return Ok(made.into());
        }
        // Two that asked at once have the same.
        Ok(clients.by_loop.entry(here).or_insert_with(|| made.into()).clone())
    }
}

fn endpoint_options(options: &EtcdOptions) -> Result<EndpointOptions, StorageError> {
    let endpoints = options.endpoints.iter();
    endpoints
        .map(|endpoint| Ok((endpoint.clone(), options.connect_options(endpoint)?)))
        .collect()
}
