//! Facts that the replicas of one cluster publish, each for as long as it is renewed: addresses, loads, definitions.

use std::{net::IpAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use serde_json::json;
use trireme_machinery::ApiError;
use trireme_storage::{Compare, PutOptions, RangeRequest, Revision, Storage, StorageError, WriteOutcome};

use crate::store_error;

/// After what time without a renewal something is gone, as in kube-apiserver.
const LASTS: Duration = Duration::from_secs(15);

/// The addresses under which the replicas can be reached. Cheap to clone.
///
/// Kept where kube-apiserver keeps them, one key an address, so that both can serve one cluster. Every replica renews its
/// own; the endpoints of the Service `kubernetes` are made of all.
#[derive(Clone)]
pub struct AnnouncedAddresses(Announcements);

/// The number of connections that each replica has. Cheap to clone.
///
/// Not among the objects: only the replicas are to see it.
#[derive(Clone)]
pub struct AnnouncedLoads(Announcements);

/// Up to which revision each replica serves what is defined. Cheap to clone.
///
/// Not among the objects, as loads are not.
#[derive(Clone)]
pub struct AnnouncedDefinitions(Announcements);

#[derive(Clone)]
struct Announcements {
    store: Arc<dyn Storage>,
    root: Arc<str>,
}

impl AnnouncedAddresses {
    /// The addresses of the cluster whose objects are under this prefix (`/registry`).
    pub fn new(store: Arc<dyn Storage>, objects_root: &str) -> Self {
        Self(Announcements::new(store, format!("{objects_root}/masterleases/")))
    }

    /// Announces an address for some time.
    ///
    /// # Errors
    /// All that can be wrong with a write.
    pub async fn renew(&self, address: IpAddr) -> Result<(), ApiError> {
        let value = json!({
            "kind": "Endpoints",
            "apiVersion": "v1",
            "metadata": {},
            "subsets": [{ "addresses": [{ "ip": address.to_string() }] }],
        });
        self.0.renew(&address.to_string(), &value.to_string()).await
    }

    /// Takes an address back.
    ///
    /// # Errors
    /// All that can be wrong with a write.
    pub async fn withdraw(&self, address: IpAddr) -> Result<(), ApiError> {
        self.0.withdraw(&address.to_string()).await
    }

    /// The addresses that are announced now, in order.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn all(&self) -> Result<Vec<IpAddr>, ApiError> {
        let all = self.0.all().await?;
        let mut addresses: Vec<IpAddr> = all.iter().filter_map(|(name, _)| name.parse().ok()).collect();
        addresses.sort_unstable();
        Ok(addresses)
    }
}

impl AnnouncedLoads {
    /// The loads of the replicas whose objects are under this prefix (`/registry`).
    pub fn new(store: Arc<dyn Storage>, objects_root: &str) -> Self {
        Self(Announcements::new(store, format!("/trireme/load{objects_root}/")))
    }

    /// Announces how many connections a replica has.
    ///
    /// # Errors
    /// All that can be wrong with a write.
    pub async fn renew(&self, replica: &str, connections: usize) -> Result<(), ApiError> {
        self.0.renew(replica, &connections.to_string()).await
    }

    /// Takes it back: the replica has no connections to give or to get.
    ///
    /// # Errors
    /// All that can be wrong with a write.
    pub async fn withdraw(&self, replica: &str) -> Result<(), ApiError> {
        self.0.withdraw(replica).await
    }

    /// The facts that the other replicas have announced.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn of_others(&self, replica: &str) -> Result<Vec<usize>, ApiError> {
        let all = self.0.all().await?;
        let others = all.iter().filter(|(name, _)| name != replica);
        Ok(others.filter_map(|(_, value)| value.parse().ok()).collect())
    }
}

impl AnnouncedDefinitions {
    /// The revisions of the replicas whose objects are under this prefix (`/registry`).
    pub fn new(store: Arc<dyn Storage>, objects_root: &str) -> Self {
        Self(Announcements::new(
            store,
            format!("/trireme/definitions{objects_root}/"),
        ))
    }

    /// Announces up to which revision a replica serves what is defined.
    ///
    /// # Errors
    /// All that can be wrong with a write.
    pub async fn renew(&self, replica: &str, revision: Revision) -> Result<(), ApiError> {
        self.0.renew(replica, &revision.to_string()).await
    }

    /// The revisions of all replicas.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn all(&self) -> Result<Vec<Revision>, ApiError> {
        let all = self.0.all().await?;
        Ok(all.iter().filter_map(|(_, value)| value.parse().ok()).collect())
    }
}

impl Announcements {
    fn new(store: Arc<dyn Storage>, root: String) -> Self {
        Self {
            store,
            root: root.into(),
        }
    }

    async fn renew(&self, name: &str, value: &str) -> Result<(), ApiError> {
        let value = Bytes::copy_from_slice(value.as_bytes());
        self.try_renew(&self.key(name), value).await.map_err(store_error)
    }

    async fn try_renew(&self, key: &str, value: Bytes) -> Result<(), StorageError> {
        let (mut found, _) = self.store.get(key, None).await?;
        let lease = self.store.grant_lease(LASTS).await?;
        loop {
            let compare = found.map_or(Compare::Absent, |entry| Compare::ModRevision(entry.mod_revision));
            let options = PutOptions {
                lease: Some(lease),
                fence: None,
            };
            match self.store.put(key, value.clone(), compare, options).await? {
                WriteOutcome::Committed(_) => return Ok(()),
                WriteOutcome::Conflict(current) => found = current,
            }
        }
    }

    async fn withdraw(&self, name: &str) -> Result<(), ApiError> {
        let key = self.key(name);
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

    /// Names and values.
    async fn all(&self) -> Result<Vec<(String, String)>, ApiError> {
        let request = RangeRequest {
            prefix: self.root.to_string(),
            ..RangeRequest::default()
        };
        let page = self.store.range(request).await.map_err(store_error)?;
        let named = page.entries.iter().filter_map(|entry| {
            let name = entry.key.strip_prefix(&*self.root)?;
            Some((name.to_owned(), String::from_utf8_lossy(&entry.value).into_owned()))
        });
        Ok(named.collect())
    }

    fn key(&self, name: &str) -> String {
        format!("{}{name}", self.root)
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

    #[tokio::test]
    async fn loads_are_those_of_the_others() {
        let (_dir, store) = open_store();
        let loads = AnnouncedLoads::new(store, "/registry");
        for (replica, connections) in [("a:6443", 7), ("b:6443", 1), ("b:6443", 2), ("c:6443", 0)] {
            loads.renew(replica, connections).await.expect("the store is there");
        }
        assert_eq!(loads.of_others("a:6443").await, Ok(vec![2, 0]));
        loads.withdraw("b:6443").await.expect("the store is there");
        assert_eq!(loads.of_others("a:6443").await, Ok(vec![0]));
    }
}
