//! `ResourceQuota`: what the objects of a namespace use together stays within its quotas
//! (`k8s.io/apiserver/pkg/admission/plugin/resourcequota`).
//!
//! The use of a quota grows here and never falls: kube-controller-manager counts anew and takes back. A write that fails after it
//! was charged, say because its name is taken, stays charged until then, as in kube-apiserver.

mod batches;
mod check;
mod claims;
mod evaluators;
mod extended_resources;
mod limited;
mod pods;
mod quota;
mod resource_claims;
mod services;
mod store;
#[cfg(test)]
mod tests;

use std::time::Duration;

use futures_util::{FutureExt as _, future::BoxFuture};
use tokio::sync::{mpsc, oneshot};
use trireme_actors::ActorSystem;
use trireme_machinery::{ApiError, Reason};
use trireme_registry::{Admission, Attributes, Operation, ResourceLookup, WriteRequest};

use self::{
    batches::{Batches, Waiter},
    check::Charge,
    evaluators::{Evaluator, Measure},
    store::QuotaStore,
};
pub(crate) use self::{extended_resources::ExtendedResources, limited::LimitedResources};
use crate::attributes::name_in_refusals;

/// A write waits for its verdict so long, as in kube-apiserver.
const PATIENCE: Duration = Duration::from_secs(10);
/// So many writes may wait for a verdict. They hold their requests in memory anyway.
const QUEUE: usize = 4_096;

/// The plugin.
pub(crate) struct ResourceQuota {
    store: QuotaStore,
    queue: mpsc::Sender<Waiter>,
    limited: LimitedResources,
    extended: Option<ExtendedResources>,
    clock: trireme_actors::Clock,
}

impl ResourceQuota {
    /// Starts the task `resource-quota`, which charges these quotas. Devices count as extended resources if these are given.
    pub(crate) fn start(
        system: &ActorSystem,
        quotas: ResourceLookup,
        limited: LimitedResources,
        extended: Option<ExtendedResources>,
    ) -> Self {
        let store = QuotaStore::new(quotas);
        let (queue, waiters) = mpsc::channel(QUEUE);
        let batches = Batches::new(store.clone());
        let _ = system.tasks().spawn_named("resource-quota", batches.run(waiters));
        Self {
            store,
            queue,
            limited,
            extended,
            clock: system.clock().clone(),
        }
    }

    async fn check(&self, attributes: &Attributes) -> Result<(), ApiError> {
        let namespace = attributes.namespace();
        let Some(evaluator) = Evaluator::handling(attributes) else {
            return Ok(());
        };
        let is_limited = self.limited.concern(&attributes.resource.group_resource());
        if !is_limited && self.store.cached(namespace).await?.is_empty() {
            return Ok(());
        }
        let Some((mut new, mut old)) = measures(evaluator, attributes) else {
            return Ok(());
        };
        if let Some(extended) = self
            .extended
            .as_ref()
            .filter(|_| evaluator == Evaluator::ResourceClaims)
        {
            extended.count(attributes, &mut new, old.as_mut()).await?;
        }
        let resource = attributes.resource.group_resource();
        let charge = Charge {
            evaluator,
            limited: self.limited.of(&resource, &new),
            resource,
            name: name_in_refusals(attributes).to_owned(),
            new,
            old,
            is_status: attributes.subresource.name() == "status",
            dry_run: attributes.context.dry_run,
        };
        let (verdict, answer) = oneshot::channel();
        let waiter = Waiter {
            namespace: namespace.to_owned(),
            charge,
            verdict,
        };
        let queued = self.queue.try_send(waiter);
        queued.map_err(|_| {
            let text = "too many writes wait for the quotas of their namespaces";
            ApiError::new(Reason::TooManyRequests, text).with_retry_after(1)
        })?;
        let deadline = self.clock.now() + PATIENCE;
        match self.clock.timeout_at(deadline, answer).await {
            Some(Ok(verdict)) => verdict,
            Some(Err(_)) => Err(ApiError::internal("the quotas of the namespace could not be checked")),
            None => Err(ApiError::internal("resource quota evaluation timed out")),
        }
    }
}

/// Measures an object and the one before; none for an update that does not change how a pod counts.
fn measures(evaluator: Evaluator, attributes: &Attributes) -> Option<(Measure, Option<Measure>)> {
    let measure = |object| evaluator.measure(attributes, object);
    let new = measure(attributes.object.as_ref()?);
    let old = attributes.old_object.as_deref();
    let old = old.filter(|_| attributes.operation == Operation::Update).map(measure);
    let is_plain_update = attributes.operation == Operation::Update && attributes.subresource.name().is_empty();
    let stays = || {
        old.as_ref()
            .is_some_and(|old| old.scopes.terminating() == new.scopes.terminating())
    };
    if evaluator == Evaluator::Pods && is_plain_update && stays() {
        return None;
    }
    Some((new, old))
}

impl Admission for ResourceQuota {
    fn handles(&self, request: &WriteRequest) -> bool {
        Evaluator::handling(request).is_some()
    }

    fn validate<'a>(&'a self, attributes: &'a Attributes) -> BoxFuture<'a, Result<(), ApiError>> {
        self.check(attributes).boxed()
    }
}
