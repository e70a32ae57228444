//! Events about the circuit breakers of webhooks, so that `kubectl describe` of a configuration says that its webhooks are not
//! called. Beyond kube-apiserver.
//!
//! A breaker that opens or closes is an Event of its configuration, in the namespace `default` as for all that is in none. Each
//! replica has breakers of its own and so events of its own; one that happens again is counted, not made again.

use std::{
    collections::HashSet,
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use trireme_actors::{ActorSystem, Clock};
use trireme_http::client::{BreakerChange, BreakerState};
use trireme_machinery::ApiError;
use trireme_registry::{OwnObjects, PublishedSurface};

use super::configuration::WebhookPartition;

const NAMESPACE: &str = "default";
const COMPONENT: &str = "kube-apiserver";
/// The most bytes of a configuration's name in that of an event: names have 253, and a hash follows.
const MAX_NAME_BYTES: usize = 230;

/// Writes an Event whenever the breaker of a webhook opens or closes, as long as the server runs. `instance` is this replica.
pub fn record_breaker_events(
    system: &ActorSystem,
    surface: &PublishedSurface,
    instance: String,
    mut changes: mpsc::Receiver<BreakerChange>,
) {
    let recorder = BreakerRecorder {
        surface: surface.clone(),
        clock: system.clock().clone(),
        instance,
    };
    system.tasks().spawn_named("webhook-breaker-events", async move {
        let mut breakers = OpenBreakers::default();
        while let Some(change) = changes.recv().await {
            let Some(partition) = change.partition.as_deref().and_then(WebhookPartition::parse) else {
                continue;
            };
            if !breakers.note(&change) {
                continue;
            }
            if let Err(error) = recorder.record(&partition, &change).await {
                let webhook = partition.webhook;
                tracing::warn!(%error, webhook, "the change of a circuit breaker is no event");
            }
        }
    });
}

/// The breakers that are known to be open, by partition and endpoint.
#[derive(Default)]
struct OpenBreakers(HashSet<(String, String)>);

impl OpenBreakers {
    /// Notes a change; false if it is none, as when a probe has failed.
    fn note(&mut self, change: &BreakerChange) -> bool {
        let partition = change.partition.as_deref().unwrap_or_default();
        let key = (partition.to_owned(), change.endpoint.clone());
        match change.state {
            BreakerState::Closed => self.0.remove(&key),
            BreakerState::Open => self.0.insert(key),
            BreakerState::HalfOpen => false,
        }
    }
}

struct BreakerRecorder {
    surface: PublishedSurface,
    clock: Clock,
    instance: String,
}

impl BreakerRecorder {
    async fn record(&self, partition: &WebhookPartition<'_>, change: &BreakerChange) -> Result<(), ApiError> {
        let configurations = self
            .surface
            .resource("admissionregistration.k8s.io", "v1", partition.kind.plural());
        let configurations = OwnObjects::new(configurations.registry()?, COMPONENT);
        let Some(configuration) = configurations.find("", partition.configuration).await? else {
            return Ok(());
        };
        let events = OwnObjects::new(self.surface.resource("", "v1", "events").registry()?, COMPONENT);
        let now = Timestamp::try_from(self.clock.wall()).unwrap_or(Timestamp::UNIX_EPOCH);
        let event = self.event(partition, change, &configuration, now);
        let name = event["metadata"]["name"].as_str().unwrap_or_default();
        if let Some(before) = events.find(NAMESPACE, name).await? {
            let count = before["count"].as_i64().unwrap_or(1).saturating_add(1);
            let again = json!({"count": count, "lastTimestamp": event["lastTimestamp"]});
            return events.merge(NAMESPACE, name, &again).await;
        }
        events.create(NAMESPACE, &event).await.map(drop)
    }

    fn event(
        &self,
        partition: &WebhookPartition<'_>,
        change: &BreakerChange,
        configuration: &Value,
        now: Timestamp,
    ) -> Value {
        let is_open = change.state == BreakerState::Open;
        let (kind, reason, happened) = match is_open {
            true => (
                "Warning",
                "CircuitBreakerOpened",
                "most of its last calls failed or were slow; until one that is tried now and then succeeds, calls fail at \
                 once and the failure policy decides",
            ),
            false => ("Normal", "CircuitBreakerClosed", "a call has succeeded again"),
        };
        let now = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let (webhook, endpoint) = (partition.webhook, &change.endpoint);
        json!({
            "metadata": {"name": self.name(partition, change, reason), "namespace": NAMESPACE},
            "involvedObject": {
                "kind": partition.kind.configuration_kind(),
                "apiVersion": "admissionregistration.k8s.io/v1",
                "name": partition.configuration,
                "uid": configuration["metadata"]["uid"],
            },
            "type": kind,
            "reason": reason,
            "message": format!("webhook {webhook} at {endpoint}: {happened}"),
            "source": {"component": COMPONENT, "host": self.instance},
            "reportingComponent": COMPONENT,
            "reportingInstance": self.instance,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        })
    }

    /// A name that is the same whenever the same happens on this replica.
    fn name(&self, partition: &WebhookPartition<'_>, change: &BreakerChange, reason: &str) -> String {
        let mut hasher = DefaultHasher::new();
        (&change.partition, &change.endpoint, reason, &self.instance).hash(&mut hasher);
        let configuration = partition.configuration;
        let end = configuration.floor_char_boundary(MAX_NAME_BYTES);
        let beginning = configuration.get(..end).unwrap_or_default();
        let beginning = beginning.trim_end_matches(['.', '-']);
        format!("{beginning}.{:016x}", hasher.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_probe_finds_again_is_no_change() {
        let mut breakers = OpenBreakers::default();
        let mut note = |endpoint: &str, state| {
            breakers.note(&BreakerChange {
                endpoint: endpoint.to_owned(),
                partition: Some("p".into()),
                state,
            })
        };
        assert!(note("a", BreakerState::Open));
        assert!(!note("a", BreakerState::Open), "a probe has failed");
        assert!(note("b", BreakerState::Open), "another server of the same webhook");
        assert!(note("a", BreakerState::Closed));
        assert!(!note("a", BreakerState::Closed));
    }
}
