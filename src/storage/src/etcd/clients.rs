//! The members' clients, for each event loop its own.
//!
//! A client's connection is served by tasks of the event loop that it was made on. Were it shared, every request from
//! another loop would wake that loop's thread, and its answer would wake the thread that waits: with a dozen requests
//! under way that is more work than the request itself. So each loop that asks has connections of its own, which are
//! made when it first asks.

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
};

use etcd_client::{Client, ConnectOptions};
use tokio::runtime::{Handle, Id};

use super::EtcdOptions;
use crate::StorageError;

/// The client of each member, in the order of the endpoints.
pub(super) type Members = Arc<[Client]>;

pub(super) struct Clients {
    endpoints: Vec<(String, ConnectOptions)>,
    by_loop: RwLock<HashMap<Id, Members>>,
}

impl Clients {
    /// Checks the options and prepares connections for the event loop that this is called on.
    pub(super) async fn new(options: &EtcdOptions) -> Result<Self, StorageError> {
        if options.endpoints.is_empty() {
            return Err(StorageError::Failed("no etcd endpoints are given".to_owned()));
        }
        let mut endpoints = Vec::new();
        for endpoint in &options.endpoints {
            endpoints.push((endpoint.clone(), options.connect_options(endpoint)?));
        }
        let clients = Self {
            endpoints,
            by_loop: RwLock::default(),
        };
        clients.here().await?;
        Ok(clients)
    }

    /// The number of members.
    pub(super) fn len(&self) -> usize {
        self.endpoints.len()
    }

    /// The clients of the event loop that this is called on. Never waits for a member.
    pub(super) async fn here(&self) -> Result<Members, StorageError> {
        let here = Handle::current().id();
        let known = self
            .by_loop
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&here)
            .cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let mut made = Vec::with_capacity(self.endpoints.len());
        for (endpoint, options) in &self.endpoints {
            let wrong = |error| StorageError::Failed(format!("etcd endpoint {endpoint:?}: {error}"));
            let client = Client::connect([endpoint], Some(options.clone())).await;
            made.push(client.map_err(wrong)?);
        }
        let mut by_loop = self.by_loop.write().unwrap_or_else(PoisonError::into_inner);
        // Two that asked at once have the same.
        Ok(by_loop.entry(here).or_insert_with(|| made.into()).clone())
    }
}
