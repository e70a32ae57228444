//! Says which API servers there are, by a Lease each in `kube-system`, and forgets those that are gone.
//!
//! The names, labels and times are those of kube-apiserver (`start-kube-apiserver-identity-lease-controller`). Every
//! replica renews its own Lease; removing the expired ones is a duty.

use std::time::Duration;

use data_encoding::BASE32_NOPAD;
use futures_util::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use trireme_actors::{ActorSystem, Clock};
use trireme_cluster::Duty;
use trireme_machinery::{ApiError, Reason, meta::ObjectMeta as _};
use trireme_registry::{OwnObjects, RegistryHandle, item::parse, request::DeleteOptions};

use crate::{LeaseTenure, Reconciler, SERVER};

const NAMESPACE: &str = "kube-system";
const COMPONENT_LABEL: &str = "apiserver.kubernetes.io/identity";
const HOSTNAME_LABEL: &str = "kubernetes.io/hostname";
/// The interval at which a replica renews its Lease.
const RENEW: Duration = Duration::from_secs(10);
/// The delay after a failed renewal.
const RETRY: Duration = Duration::from_secs(1);
/// After what time without a renewal a Lease is expired.
const LASTS_S: i64 = 3600;
const BYTES_OF_HASH: usize = 16;

/// The identity of a replica.
#[derive(Debug, Clone)]
pub struct ReplicaIdentity {
    name: String,
    holder: String,
    hostname: String,
}

impl ReplicaIdentity {
    /// The identity of a server on a machine: its name is always the same, its holder is this process.
    pub fn on(hostname: &str) -> Self {
        let name = name_on(hostname);
        Self {
            holder: format!("{name}_{}", uuid::Uuid::new_v4()),
            name,
            hostname: hostname.to_owned(),
        }
    }

    /// The name of the server among others.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn lease(&self, now: Timestamp) -> Value {
        json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": self.name,
                "namespace": NAMESPACE,
                "labels": { COMPONENT_LABEL: SERVER, HOSTNAME_LABEL: self.hostname },
            },
            "spec": {
                "holderIdentity": self.holder,
                "leaseDurationSeconds": LASTS_S,
                "renewTime": now.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string(),
            },
        })
    }

    async fn renew(&self, leases: &OwnObjects) -> Result<(), ApiError> {
        let wanted = self.lease(leases.registry().now());
        let Some(mut lease) = leases.find(NAMESPACE, &self.name).await? else {
            return leases.create(NAMESPACE, &wanted).await.map(drop);
        };
        lease["metadata"]["labels"] = wanted["metadata"]["labels"].clone();
        for field in ["holderIdentity", "leaseDurationSeconds", "renewTime"] {
            lease["spec"][field] = wanted["spec"][field].clone();
        }
        leases.replace(NAMESPACE, &self.name, &lease).await
    }
}

/// `apiserver-` and 26 characters of a hash of the machine's name and the component's, each after its length.
fn name_on(hostname: &str) -> String {
    let mut hasher = Sha256::new();
    for part in [hostname, SERVER] {
        hasher.update(u16::try_from(part.len()).unwrap_or(u16::MAX).to_be_bytes());
        hasher.update(part);
    }
    let hash = hasher.finalize();
    let shown = BASE32_NOPAD.encode(hash.get(..BYTES_OF_HASH).unwrap_or(&hash));
    format!("apiserver-{}", shown.to_lowercase())
}

/// Spawns the task that renews this replica's Lease for as long as it lives.
pub fn keep_identity(system: &ActorSystem, leases: RegistryHandle, identity: ReplicaIdentity) {
    let (clock, leases) = (system.clock().clone(), OwnObjects::new(leases, SERVER));
    let _ = system.tasks().spawn_restarting("identity-lease", move || {
        renew_for_ever(clock.clone(), leases.clone(), identity.clone())
    });
}

async fn renew_for_ever(clock: Clock, leases: OwnObjects, identity: ReplicaIdentity) {
    loop {
        match identity.renew(&leases).await {
            Ok(()) => clock.sleep(RENEW).await,
            Err(error) => {
                tracing::debug!(%error, "the identity lease could not be renewed");
                clock.sleep(RETRY).await;
            }
        }
    }
}

/// The duty: removes the Leases of servers that have not renewed theirs.
pub struct ExpiredIdentities {
    leases: OwnObjects,
}

impl ExpiredIdentities {
    /// Works on the Leases' registry.
    pub fn new(leases: RegistryHandle) -> Self {
        Self {
            leases: OwnObjects::new(leases, SERVER),
        }
    }

    async fn remove(&self, term: &LeaseTenure) -> Result<(), ApiError> {
        let leases = self.leases.under(term.fence());
        for item in leases.in_namespace(NAMESPACE).await? {
            let lease = parse(&item)?;
            if item.label(COMPONENT_LABEL) != Some(SERVER) || !is_expired(&lease, leases.registry().now()) {
                continue;
            }
            tracing::info!(lease = item.name(), "removing the lease of a server that is gone");
            let options = DeleteOptions {
                uid: Some(lease.meta().uid().to_owned()),
                resource_version: Some(item.revision.to_string()),
                ..DeleteOptions::default()
            };
            match leases.delete_with(NAMESPACE, item.name(), options).await {
                // It was renewed meanwhile.
                Err(error) if error.reason == Reason::Conflict => {}
                other => other?,
            }
        }
        Ok(())
    }
}

/// Returns true if a Lease says that it is over, or does not say until when it lasts.
fn is_expired(lease: &Value, now: Timestamp) -> bool {
    let renewed: Option<Timestamp> = lease["spec"]["renewTime"].as_str().and_then(|at| at.parse().ok());
    let (Some(renewed), Some(lasts_s)) = (renewed, lease["spec"]["leaseDurationSeconds"].as_i64()) else {
        return true;
    };
    let until = renewed.checked_add(SignedDuration::from_secs(lasts_s));
    until.is_ok_and(|until| until < now)
}

impl Reconciler for ExpiredIdentities {
    fn duty(&self) -> Duty {
        Duty::named("expired-identities")
    }

    fn period(&self) -> Duration {
        Duration::from_secs(600)
    }

    fn run<'a>(&'a self, term: &'a LeaseTenure) -> BoxFuture<'a, Result<(), ApiError>> {
        Box::pin(self.remove(term))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_made_of_a_hash_of_the_machine() {
        // printf '\0\4host\0\16kube-apiserver' | sha256sum | cut -c-32 | xxd -r -p | base32
        assert_eq!(name_on("host"), "apiserver-dd6egxogzxmivwqge6rcnj6rwi");
        assert_ne!(name_on("host"), name_on("hos"));
        let [one, two] = [ReplicaIdentity::on("host"), ReplicaIdentity::on("host")];
        assert_eq!(one.name, two.name);
        assert_ne!(one.holder, two.holder, "another process is another holder");
    }

    #[test]
    fn a_lease_expires_when_it_is_not_renewed() {
        let at = |second: i64| Timestamp::from_second(second).expect("a time");
        let lease = ReplicaIdentity::on("host").lease(at(0));
        assert!(!is_expired(&lease, at(3600)));
        assert!(is_expired(&lease, at(3601)));
        assert!(is_expired(&json!({ "spec": { "leaseDurationSeconds": 10 } }), at(0)));
        assert!(is_expired(
            &json!({ "spec": { "renewTime": "1970-01-01T00:00:00.000000Z" } }),
            at(0)
        ));
    }
}
