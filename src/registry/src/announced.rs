//! The addresses under which the replicas of one cluster can be reached, each for as long as it is renewed.
//!
//! Kept where kube-apiserver keeps them, one key an address, so that both can serve one cluster. Every replica renews its
//! own; the endpoints of the Service `kubernetes` are made of all.

use std::{net::IpAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use serde_json::json;
use trireme_machinery::ApiError;
use trireme_storage::{Compare, PutOptions, RangeRequest, Storage, StorageError, WriteOutcome};

use crate::store_error;

/// After what time without a renewal an address is gone, as in kube-apiserver.
const LASTS: Duration = Duration::from_secs(15);

/// See the module's header. Cheap to clone.
#[derive(Clone)]
pub struct AnnouncedAddresses {
    store: Arc<dyn Storage>,
    prefix: Arc<str>,
}

impl AnnouncedAddresses {
    /// The addresses of the cluster whose objects are under this prefix (`/registry`).
    pub fn new(store: Arc<dyn Storage>, objects_root: &str) -> Self {
        Self {
            store,
            prefix: format!("{objects_root}/masterleases/").into(),
        }
    }

    /// Announces an address for some time.
    ///
    /// # Errors
    /// All that can be wrong with a write.
    pub async fn renew(&self, address: IpAddr) -> Result<(), ApiError> {
        self.try_renew(address).await.map_err(store_error)
    }

    async fn try_renew(&self, address: IpAddr) -> Result<(), StorageError> {
        let key = self.key(address);
        let value = json!({
            "kind": "Endpoints",
            "apiVersion": "v1",
            "metadata": {},
            "subsets": [{ "addresses": [{ "ip": address.to_string() }] }],
        });
        let value = Bytes::from(value.to_string());
        let (mut found, _) = self.store.get(&key, None).await?;
        let lease = self.store.grant_lease(LASTS).await?;
        loop {
            let compare = found.map_or(Compare::Absent, |entry| Compare::ModRevision(entry.mod_revision));
            let options = PutOptions {
                lease: Some(lease),
                fence: None,
            };
            match self.store.put(&key, value.clone(), compare, options).await? {
                WriteOutcome::Committed(_) => return Ok(()),
                WriteOutcome::Conflict(current) => found = current,
            }
        }
    }

    /// Takes an address back.
    ///
    /// # Errors
    /// All that can be wrong with a write.
    pub async fn withdraw(&self, address: IpAddr) -> Result<(), ApiError> {
        let key = self.key(address);
        let (mut found, _) = self.store.get(&key, None).await.map_err(store_error)?;
        while let Some(entry) = found {
            let removed = self.store.delete(&key, entry.mod_revision, None).await;
            found = match removed.map_err(store_error)? {
                WriteOutcome::Committed(_) => None,
                WriteOutcome::Conflict(current) => current,
            };
        }
        Ok(())
    }

    /// The addresses that are announced now, in order.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn all(&self) -> Result<Vec<IpAddr>, ApiError> {
        let request = RangeRequest {
            prefix: self.prefix.to_string(),
            ..RangeRequest::default()
        };
        let page = self.store.range(request).await.map_err(store_error)?;
        let mut addresses: Vec<IpAddr> = page
            .entries
            .iter()
            .filter_map(|entry| entry.key.strip_prefix(&*self.prefix)?.parse().ok())
            .collect();
        addresses.sort_unstable();
        Ok(addresses)
    }

    fn key(&self, address: IpAddr) -> String {
        format!("{}{address}", self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::open_store;

    #[tokio::test]
    async fn what_is_announced_stays_until_it_is_taken_back() {
        let (_dir, store) = open_store();
        let announced = AnnouncedAddresses::new(store.clone(), "/registry");
        let [one, two] = ["10.0.0.9", "10.0.0.10"].map(|address| address.parse::<IpAddr>().expect("an address"));
        for address in [two, one, one] {
            announced.renew(address).await.expect("the store is there");
        }
        assert_eq!(announced.all().await, Ok(vec![one, two]));
        for _ in 0..2 {
            announced.withdraw(one).await.expect("the store is there");
        }
        assert_eq!(announced.all().await, Ok(vec![two]));
    }
}
