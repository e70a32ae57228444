//! Finds the servers behind services, for those who call webhooks and other API servers.

use serde_json::Value;
use trireme_machinery::{
    ApiError, Reason,
    selector::LabelSelector,
    webhook_address::{resolve_cluster, resolve_endpoint},
};

use crate::{
    director::{PublishedSurface, ResourceLookup},
    item::parse,
    request::{Freshness, GetRequest, ListOptions, ListRequest, Selection, Target},
};

/// Looks services up as the watch caches have them. Cheap to clone.
#[derive(Clone)]
pub struct ServiceResolver {
    services: ResourceLookup,
    slices: ResourceLookup,
    /// `--enable-aggregator-routing`
    to_endpoints: bool,
}

impl ServiceResolver {
    /// Goes to the addresses of services, or straight to their endpoints.
    pub fn new(surface: &PublishedSurface, to_endpoints: bool) -> Self {
        Self {
            services: surface.resource("", "v1", "services"),
            slices: surface.resource("discovery.k8s.io", "v1", "endpointslices"),
            to_endpoints,
        }
    }

    /// The host and port behind a port of a service.
    ///
    /// # Errors
    /// Why there is no way there.
    pub async fn resolve(&self, namespace: &str, name: &str, port: u16) -> Result<(String, u16), String> {
        let service = self.service(namespace, name).await.map_err(|error| error.message)?;
        let service = service.ok_or_else(|| format!("service \"{name}\" not found"))?;
        if !self.to_endpoints {
            return resolve_cluster(&service, name, port).map(|host| (host, port));
        }
        let slices = self.slices(namespace, name).await.map_err(|error| error.message)?;
        resolve_endpoint(&service, &slices, name, port, rand::random::<u16>().into())
    }

    /// A service as the watch cache has it, or if it is not there yet, as it is now.
    ///
    /// # Errors
    /// If it cannot be read.
    pub async fn service(&self, namespace: &str, name: &str) -> Result<Option<Value>, ApiError> {
        match self.read_service(namespace, name, Freshness::Any).await? {
            Some(service) => Ok(Some(service)),
            None => self.read_service(namespace, name, Freshness::Latest).await,
        }
    }

    async fn read_service(&self, namespace: &str, name: &str, freshness: Freshness) -> Result<Option<Value>, ApiError> {
        let target = Target {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            ..Target::default()
        };
        match self.services.registry()?.get(GetRequest { target, freshness }).await {
            Ok(found) => parse(&found).map(Some),
            Err(error) if error.reason == Reason::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The endpoint slices of a service as the watch cache has them.
    ///
    /// # Errors
    /// If they cannot be read.
    pub async fn slices(&self, namespace: &str, name: &str) -> Result<Vec<Value>, ApiError> {
        let labels = LabelSelector::parse(&format!("kubernetes.io/service-name={name}"));
        let request = ListRequest {
            target: Target {
                namespace: namespace.to_owned(),
                ..Target::default()
            },
            selection: Selection {
                labels: labels.map_err(|error| ApiError::internal(error.to_string()))?,
                ..Selection::default()
            },
            options: ListOptions {
                freshness: Freshness::Any,
                ..ListOptions::default()
            },
        };
        let page = self.slices.registry()?.list(request).await?;
        page.items.iter().map(|item| parse(item)).collect()
    }
}
