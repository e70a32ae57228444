//! The quotas of a namespace: in the cache, in the store, and written back.

use std::sync::Arc;

use trireme_machinery::{ApiError, Reason};
use trireme_registry::{
    Item, ResourceLookup,
    request::{
        Body, BodyFormat, Freshness, GetRequest, ListOptions, ListRequest, Selection, Subresource, Target,
        UpdateRequest, WriteOptions, own_user,
    },
};

use super::quota::Quota;

/// As kube-apiserver's own client names itself.
const FIELD_MANAGER: &str = "kube-apiserver";

/// Reads and writes quotas. Cheap to clone.
#[derive(Clone)]
pub(super) struct QuotaStore(ResourceLookup);

impl QuotaStore {
    pub(super) fn new(quotas: ResourceLookup) -> Self {
        Self(quotas)
    }

    /// The quotas as the watch cache has them.
    pub(super) async fn cached(&self, namespace: &str) -> Result<Vec<Arc<Item>>, ApiError> {
        let request = ListRequest {
            target: target(namespace, ""),
            selection: Selection::default(),
            options: ListOptions {
                freshness: Freshness::Any,
                ..ListOptions::default()
            },
        };
        Ok(self.0.registry()?.list(request).await?.items)
    }

    /// Those of these quotas that there are, as they are now.
    pub(super) async fn newest(&self, namespace: &str, names: &[String]) -> Result<Vec<Quota>, ApiError> {
        let registry = self.0.registry()?;
        let mut quotas = Vec::new();
        for name in names {
            let request = GetRequest {
                target: target(namespace, name),
                freshness: Freshness::Latest,
            };
            match registry.get(request).await {
                Ok(item) => quotas.push(Quota::read(item)?),
                Err(error) if error.reason == Reason::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(quotas)
    }

    /// Writes what is used of a quota; gives it as it is then.
    ///
    /// # Errors
    /// A conflict if it is not what was read any more.
    pub(super) async fn write(&self, quota: &Quota) -> Result<Option<Arc<Item>>, ApiError> {
        let request = UpdateRequest {
            target: target(quota.item.namespace(), &quota.state.name),
            subresource: Subresource::Status,
            body: Body {
                bytes: quota.status_update()?.to_string().into(),
                format: BodyFormat::Json,
            },
            options: WriteOptions {
                field_manager: FIELD_MANAGER.to_owned(),
                ..WriteOptions::default()
            },
        };
        Ok(self.0.registry()?.update(request).await?.object.stored())
    }
}

fn target(namespace: &str, name: &str) -> Target {
    Target {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        user: own_user(),
        ..Target::default()
    }
}
