//! The state of this replica and its group: at `/debug/replicas`, in metrics and in `/readyz?verbose`.
//!
//! Facts that only a quorum can know (the leader, the live members, the holders of leases) are shown only while
//! there is one: the last agreement may be long over.

use std::sync::Arc;
use std::time::Duration;

use trireme_actors::ActorSystem;
use trireme_cluster::{ChangeError, Duty, LeaseWatch, ReplicaId, Status};
use trireme_edge::replicas::{DutyView, GroupView, MemberView, Replicas, ResourceView, StoreView};
use trireme_machinery::{ApiError, Reason};
use trireme_registry::{DirectorHandle, RegistryHandle};

use crate::group::Changes;
use crate::probe::StoreProbe;

/// The interval at which the facts go into metrics.
const METRICS_PERIOD: Duration = Duration::from_secs(1);

/// The future of a change of members.
type Changing = std::pin::Pin<Box<dyn Future<Output = Result<(), ApiError>> + Send>>;

/// See the module's header. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Observed(Arc<GroupFacts>);

/// The sources of the facts.
pub(crate) struct GroupFacts {
    /// The group; `None` for a replica that is alone.
    pub(crate) group: Option<Changes>,
    /// Every duty that this replica would do.
    pub(crate) leases: Vec<(Duty, LeaseWatch)>,
    /// The caches.
    pub(crate) director: DirectorHandle,
    /// The store.
    pub(crate) store: StoreProbe,
}

impl Observed {
    /// Starts to export the facts as metrics.
    pub(crate) fn start(system: &ActorSystem, facts: GroupFacts) -> Self {
        let observed = Self(Arc::new(facts));
        let reporter = observed.clone();
        let _ = system
            .tasks()
            .every("replica metrics", METRICS_PERIOD, move || reporter.tell_metrics());
        observed
    }

    /// A line for `/readyz?verbose`; none without a group.
    pub(crate) fn notice(&self) -> Option<impl Fn() -> String + Send + Sync + use<>> {
        let group = self.0.group.clone()?;
        Some(move || line(&group.group.status()))
    }

    fn resources(&self) -> Vec<ResourceView> {
        let store = self.0.store.revision();
        let routes = self.0.director.surface();
        routes.registries().map(|registry| resource(registry, store)).collect()
    }

    fn tell_metrics(&self) {
        if let Some(revision) = self.0.store.revision() {
            metrics::gauge!("trireme_store_revision").set(exact(revision));
        }
        for ResourceView {
            resource,
            revision,
            lag,
        } in self.resources()
        {
            if let (Some(revision), Some(lag)) = (revision, lag) {
                metrics::gauge!("trireme_watch_cache_revision", "resource" => resource.clone()).set(exact(revision));
                metrics::gauge!("trireme_watch_cache_lag_revisions", "resource" => resource).set(exact(lag));
            }
        }
        for registry in self.0.director.surface().registries() {
            registry.reader().show_state();
        }
        if let Some(changes) = &self.0.group {
            let status = changes.group.status();
            let alive = status
                .members
                .iter()
                .filter(|member| status.has_quorum && member.is_live);
            metrics::gauge!("trireme_cluster_members").set(count(status.members.len()));
            metrics::gauge!("trireme_cluster_members_alive").set(count(alive.count()));
        }
    }

    /// The duties that this replica knows of by itself.
    fn own_duties(&self) -> impl Iterator<Item = DutyView> {
        self.0.leases.iter().map(|(duty, lease)| {
            let token = lease.current().map(|tenure| tenure.lease().token.0);
            DutyView {
                duty: duty.name().to_owned(),
                holder: None,
                token,
                held: token.is_some(),
            }
        })
    }

    fn group_view(&self, changes: &Changes) -> GroupView {
        let status = changes.group.status();
        let held: Vec<DutyView> = self.own_duties().filter(|duty| duty.held).collect();
        let is_held = |name: &str| held.iter().any(|duty| duty.duty == name);
        let known = |id: Option<ReplicaId>| id.filter(|_| status.has_quorum).map(|id| id.to_string());
        let members = status.members.iter().map(|member| MemberView {
            id: member.replica.to_string(),
            address: member.address.clone(),
            version: member.version.clone(),
            voter: member.is_voter,
            alive: status.has_quorum.then_some(member.is_live),
        });
        let duties = status.duties.iter().map(|duty| DutyView {
            duty: duty.duty.clone(),
            holder: known(duty.holder),
            token: (duty.token > 0).then_some(duty.token),
            held: is_held(&duty.duty),
        });
        GroupView {
            group: Some(changes.name.clone()),
            replica: Some(status.replica.to_string()),
            leader: known(status.leader),
            term: status.term,
            quorum: status.has_quorum,
            raft_error: status.raft_error.clone(),
            members: members.collect(),
            duties: duties.collect(),
            ..self.alone_view()
        }
    }

    fn alone_view(&self) -> GroupView {
        GroupView {
            group: None,
            replica: None,
            leader: None,
            term: 0,
            quorum: false,
            raft_error: None,
            members: Vec::new(),
            duties: self.own_duties().collect(),
            store: StoreView {
                revision: self.0.store.revision(),
            },
            resources: self.resources(),
        }
    }

    /// The group, if it can be changed now.
    fn changes(&self) -> Result<(&Changes, Status), ApiError> {
        let changes = self.0.group.as_ref().ok_or_else(|| {
            ApiError::bad_request("this replica is alone: it was started without --cluster-peers and is in no group")
        })?;
        let status = changes.group.status();
        if status.has_quorum {
            Ok((changes, status))
        } else {
            let text =
                "the group has no quorum, or this replica cannot reach its leader: its members cannot be changed now";
            Err(ApiError::new(Reason::ServiceUnavailable, text).with_retry_after(1))
        }
    }

    async fn add(self, address: String) -> Result<(), ApiError> {
        let (changes, status) = self.changes()?;
        // One that is known and silent may be about to come back under another id.
        let there = status
            .members
            .iter()
            .find(|member| member.address == address && (member.is_live || member.version.is_none()));
        if let Some(member) = there {
            let text = format!("{address} is in the group already, as replica {}", member.replica);
            return Err(ApiError::new(Reason::AlreadyExists, text));
        }
        let added = changes.run(move |group| async move { group.add(&address).await });
        added.await.map_err(refusal)
    }

    async fn remove(self, replica: String) -> Result<(), ApiError> {
        let (changes, status) = self.changes()?;
        let id = replica.parse::<ReplicaId>().ok();
        let id = id.filter(|id| status.members.iter().any(|member| member.replica == *id));
        let id = id.ok_or_else(|| {
            let text = format!("no member of the group has the id {replica:?}");
            ApiError::new(Reason::NotFound, text)
        })?;
        let removed = changes.run(move |group| async move { group.remove(id).await });
        removed.await.map_err(refusal)
    }
}

impl Replicas for Observed {
    fn view(&self) -> GroupView {
        match &self.0.group {
            Some(changes) => self.group_view(changes),
            None => self.alone_view(),
        }
    }

    fn add(&self, address: String) -> Changing {
        Box::pin(self.clone().add(address))
    }

    fn remove(&self, replica: String) -> Changing {
        Box::pin(self.clone().remove(replica))
    }
}

fn refusal(error: ChangeError) -> ApiError {
    let reason = match error {
        ChangeError::NotLeader { .. } => Reason::ServiceUnavailable,
        ChangeError::Removed | ChangeError::Refused(_) => Reason::Conflict,
        ChangeError::Unknown(_) => Reason::Timeout,
    };
    ApiError::new(reason, error.to_string())
}

fn resource(registry: &RegistryHandle, store: Option<i64>) -> ResourceView {
    let revision = registry.revision();
    ResourceView {
        resource: registry.info().resource.to_string(),
        revision,
        // The cache may have seen what the store has done since it was asked.
        lag: store.zip(revision).map(|(store, seen)| (store - seen).max(0)),
    }
}

fn line(status: &Status) -> String {
    let held = status
        .duties
        .iter()
        .filter(|duty| duty.holder == Some(status.replica))
        .count();
    match (&status.raft_error, status.has_quorum, status.leader) {
        (Some(raft_error), _, _) => format!("this replica takes no part until it is started again: {raft_error}"),
        (None, true, Some(leader)) => format!("led by {leader} in term {}, {held} duties here", status.term),
        (None, true, None) => "a leader is being elected".to_owned(),
        (None, false, _) if status.members.is_empty() => "not a member of a group yet".to_owned(),
        (None, false, _) => "no quorum: duties are not done, the API is served".to_owned(),
    }
}

/// Exact below 2^53, which a store reaches after centuries.
fn exact(revision: i64) -> f64 {
    revision as f64
}

fn count(number: usize) -> f64 {
    f64::from(u32::try_from(number).unwrap_or(u32::MAX))
}
