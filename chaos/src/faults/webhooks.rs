//! Fault 26: webhooks that are slow, dead, or both by turns.
//!
//! A webhook that fails closed guards secrets of the nemesis's own namespace, one that fails open looks at its configmaps, and
//! its service accounts are no webhook's business. Once all replicas ask them, the server behind both fails, and one of each
//! kind of object is created again and again through the load balancer. What came of that is [`GuardedWrites`], which invariant 32
//! judges.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::{BoxFuture, join};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::sleep;
use trireme_tests::receiver::Receiver;

use super::consumers::{NAMESPACE, make_namespace};
use super::task::{Stop, Task};
use super::{ActiveFault, Observation, Refusal};
use crate::history::GuardedWrites;
use crate::world::{ClientRoute, Probe, World, WorldError};

const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
/// Guarded by a webhook that fails closed.
const GUARDED: &str = "secrets";
/// Looked at by one that fails open.
const LOOKED_AT: &str = "configmaps";
/// No webhook's business.
const OTHERS: &str = "serviceaccounts";
/// The timeout of the webhooks.
const TIMEOUT: Duration = Duration::from_secs(1);
/// A slow webhook takes far longer than its timeout.
const SLOW_SECONDS: f64 = 20.0;
/// The time that a write may take beside the timeout of its webhook, on a machine under load.
const SLACK: Duration = Duration::from_secs(3);
const WRITE_PERIOD: Duration = Duration::from_millis(100);
const TURN: Duration = Duration::from_millis(700);
const PATIENCE: Duration = Duration::from_secs(10);
const ACTIVE_PATIENCE: Duration = Duration::from_secs(30);
/// The number of refusals after which the fault counts as seen.
const LEAST_REFUSED: u64 = 5;

/// The way in which webhooks fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WebhookFailure {
    /// They answer after their timeout.
    Slow,
    /// Nothing listens there.
    Dead,
    /// They answer and end connections by turns.
    Flapping,
}

impl WebhookFailure {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Slow, Self::Dead, Self::Flapping];

    fn name(self) -> &'static str {
        match self {
            Self::Slow => "slow",
            Self::Dead => "dead",
            Self::Flapping => "flapping",
        }
    }
}

impl fmt::Display for WebhookFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "webhooks are {}", self.name())
    }
}

/// The outcomes of the writes.
#[derive(Debug, Default)]
struct WriteOutcomes {
    /// Writes that were acknowledged, by resource.
    acknowledged: BTreeMap<&'static str, BTreeSet<String>>,
    attempts: u64,
    refused: u64,
    held_up: Vec<String>,
}

struct FailingWebhooks {
    failure: WebhookFailure,
    receiver: Arc<Mutex<Option<Receiver>>>,
    outcomes: Arc<Mutex<WriteOutcomes>>,
    writer: Task<()>,
    turns: Task<()>,
    guarded: Option<GuardedWrites>,
}

impl fmt::Debug for FailingWebhooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FailingWebhooks({})", self.failure)
    }
}

fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Webhooks that allow everything; what they allow is remembered.
fn well() -> Vec<Value> {
    vec![json!({"path": "/*", "review": {"allowed": true}})]
}

pub(super) async fn begin(world: &World, failure: WebhookFailure) -> Result<Box<dyn ActiveFault>, Refusal> {
    let (probe, address) = (world.probe().clone(), world.address());
    make_namespace(&probe, address).await?;
    let receiver = Receiver::start(well(), NAMESPACE, None)
        .map_err(|error| WorldError::Io("start the server of webhooks".to_owned(), error))?;
    configure(&probe, address, &receiver).await?;
    until_asked(world).await?;
    let receiver = Arc::new(Mutex::new(Some(receiver)));
    fail(&receiver, failure);
    let outcomes = Arc::<Mutex<WriteOutcomes>>::default();
    let (shared, turned) = (Arc::clone(&outcomes), Arc::clone(&receiver));
    Ok(Box::new(FailingWebhooks {
        failure,
        receiver,
        outcomes,
        writer: Task::spawn(|stop| write(probe, address, failure, shared, stop)),
        turns: Task::spawn(|stop| take_turns(failure, turned, stop)),
        guarded: None,
    }))
}

fn fail(receiver: &Mutex<Option<Receiver>>, failure: WebhookFailure) {
    let mut receiver = lock(receiver);
    match (failure, receiver.as_ref()) {
        (WebhookFailure::Slow, Some(receiver)) => receiver.follow(vec![
            json!({"path": "/*", "delay": SLOW_SECONDS, "review": {"allowed": true}, "record": false}),
        ]),
        (WebhookFailure::Flapping, Some(receiver)) => {
            receiver.follow(vec![json!({"path": "/*", "close": true, "record": false})]);
        }
        (WebhookFailure::Dead, _) => *receiver = None,
        (_, None) => {}
    }
}

async fn take_turns(failure: WebhookFailure, receiver: Arc<Mutex<Option<Receiver>>>, mut stop: Stop) {
    let mut is_well = false;
    while failure == WebhookFailure::Flapping && stop.pause(TURN).await {
        is_well = !is_well;
        match lock(&receiver).as_ref() {
            Some(receiver) if is_well => receiver.follow(well()),
            _ => {}
        }
        if !is_well {
            fail(&receiver, failure);
        }
    }
}

async fn configure(probe: &Probe, address: SocketAddr, receiver: &Receiver) -> Result<(), WorldError> {
    let webhook = |name: &str, resource: &str, policy: &str| {
        json!({
            "name": format!("{name}.nemesis.example.com"),
            "failurePolicy": policy, "timeoutSeconds": TIMEOUT.as_secs(), "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": [resource]}],
            "clientConfig": {
                "url": format!("https://127.0.0.1:{}/{name}", receiver.port()), "caBundle": receiver.ca_bundle(),
            },
        })
    };
    let webhooks = [webhook("guard", GUARDED, "Fail"), webhook("look", LOOKED_AT, "Ignore")];
    let configuration = json!({"metadata": {"name": NAMESPACE}, "webhooks": webhooks});
    match probe
        .send(address, "POST", CONFIGURATIONS, Some(&configuration), PATIENCE)
        .await
    {
        Ok((201, _)) => Ok(()),
        other => Err(unexpected("that it has taken the webhooks", format!("{other:?}"))),
    }
}

fn unexpected(what: &'static str, why: String) -> WorldError {
    WorldError::Answer {
        part: "the load balancer".to_owned(),
        what,
        why,
    }
}

/// Waits until every replica asks both webhooks: their server denies what is called `ready`.
async fn until_asked(world: &World) -> Result<(), WorldError> {
    let end = Instant::now() + ACTIVE_PATIENCE;
    for replica in 0..world.replicas() {
        let address = world.replica_address(replica, ClientRoute::Direct)?;
        for resource in [GUARDED, LOOKED_AT] {
            loop {
                let (answer, _) = create(world.probe(), address, resource, "ready").await;
                match answer {
                    Ok(403) => break,
                    other if Instant::now() >= end => {
                        return Err(unexpected("that its replicas ask the webhooks", format!("{other:?}")));
                    }
                    _ => sleep(WRITE_PERIOD).await,
                }
            }
        }
    }
    Ok(())
}

async fn create(probe: &Probe, address: SocketAddr, resource: &str, name: &str) -> (Result<u16, String>, Duration) {
    let began = Instant::now();
    let path = format!("/api/v1/namespaces/{NAMESPACE}/{resource}");
    let object = json!({"metadata": {"name": name}});
    let answer = probe.send(address, "POST", &path, Some(&object), PATIENCE).await;
    (answer.map(|(code, _)| code), began.elapsed())
}

/// Creates one object of each kind again and again.
async fn write(
    probe: Probe,
    address: SocketAddr,
    failure: WebhookFailure,
    outcomes: Arc<Mutex<WriteOutcomes>>,
    mut stop: Stop,
) {
    let mut number = 0;
    while stop.pause(WRITE_PERIOD).await {
        number += 1;
        let name = format!("{}-{number}", failure.name());
        let beside = join(
            create(&probe, address, LOOKED_AT, &name),
            create(&probe, address, OTHERS, &name),
        );
        let (guarded, (looked_at, other)) = join(create(&probe, address, GUARDED, &name), beside).await;
        let mut outcomes = lock(&outcomes);
        outcomes.attempts += 1;
        outcomes.note(GUARDED, &name, guarded, TIMEOUT + SLACK);
        outcomes.note(LOOKED_AT, &name, looked_at, TIMEOUT + SLACK);
        outcomes.note(OTHERS, &name, other, SLACK);
    }
}

impl WriteOutcomes {
    fn note(
        &mut self,
        resource: &'static str,
        name: &str,
        (answer, took): (Result<u16, String>, Duration),
        at_most: Duration,
    ) {
        match answer {
            Ok(201) => {
                self.acknowledged.entry(resource).or_default().insert(name.to_owned());
            }
            Ok(500) if resource == GUARDED => self.refused += 1,
            other => self.held_up.push(format!("{resource} {name}: {other:?}")),
        }
        if took > at_most {
            self.held_up.push(format!("{resource} {name} took {took:?}"));
        }
    }

    fn acknowledged(&self, resource: &str) -> BTreeSet<String> {
        self.acknowledged.get(resource).cloned().unwrap_or_default()
    }
}

impl FailingWebhooks {
    /// The names that the guard has allowed.
    fn allowed(&self) -> BTreeSet<String> {
        let receiver = lock(&self.receiver);
        let received = receiver.as_ref().map(Receiver::received).unwrap_or_default();
        let guarded = received
            .iter()
            .filter(|one| one["path"].as_str().is_some_and(|path| path.starts_with("/guard")));
        let names = guarded.filter_map(|one| one["body"]["request"]["name"].as_str());
        names.map(str::to_owned).collect()
    }

    /// The names of this fault's objects that are stored.
    async fn stored(&self, world: &World, resource: &str) -> Result<BTreeSet<String>, WorldError> {
        let path = format!("/api/v1/namespaces/{NAMESPACE}/{resource}");
        let listed = world.probe().get(world.address(), &path, PATIENCE).await;
        let Ok((200, body)) = listed else {
            return Err(unexpected("the objects of a fault", format!("{listed:?}")));
        };
        let list: Value = serde_json::from_slice(&body).unwrap_or_default();
        let items = list["items"].as_array().into_iter().flatten();
        let names = items.filter_map(|item| item["metadata"]["name"].as_str());
        let prefix = format!("{}-", self.failure.name());
        Ok(names
            .filter(|name| name.starts_with(&prefix))
            .map(str::to_owned)
            .collect())
    }

    async fn judge(&self, world: &World) -> Result<GuardedWrites, WorldError> {
        let allowed = self.allowed();
        let mut lost = Vec::new();
        let mut let_through = Vec::new();
        for resource in [GUARDED, LOOKED_AT, OTHERS] {
            let stored = self.stored(world, resource).await?;
            let acknowledged = lock(&self.outcomes).acknowledged(resource);
            let gone = acknowledged.difference(&stored);
            lost.extend(gone.map(|name| format!("{resource} {name}")));
            if resource == GUARDED {
                let there = stored.union(&acknowledged);
                let_through.extend(there.filter(|name| !allowed.contains(*name)).cloned());
            }
        }
        let outcomes = lock(&self.outcomes);
        Ok(GuardedWrites {
            attempts: outcomes.attempts,
            let_through,
            held_up: outcomes.held_up.clone(),
            lost,
        })
    }
}

impl ActiveFault for FailingWebhooks {
    fn targets(&self) -> Vec<String> {
        vec!["webhooks".to_owned()]
    }

    fn guarded(&self) -> Option<GuardedWrites> {
        self.guarded.clone()
    }

    fn observe<'a>(&'a mut self, _: &'a World) -> BoxFuture<'a, Observation> {
        let (refused, attempts) = {
            let outcomes = lock(&self.outcomes);
            (outcomes.refused, outcomes.attempts)
        };
        let evidence = format!("{refused} of {attempts} guarded writes were refused");
        Box::pin(async move { Observation::of(refused >= LEAST_REFUSED, evidence) })
    }

    fn heal<'a>(&'a mut self, world: &'a World) -> BoxFuture<'a, Result<Vec<String>, WorldError>> {
        Box::pin(async {
            self.writer.end().await;
            self.turns.end().await;
            let path = format!("{CONFIGURATIONS}/{NAMESPACE}");
            let deleted = world
                .probe()
                .send(world.address(), "DELETE", &path, None, PATIENCE)
                .await;
            if !matches!(deleted, Ok((200, _))) {
                return Err(unexpected("that the webhooks are gone", format!("{deleted:?}")));
            }
            self.guarded = Some(self.judge(world).await?);
            let through = lock(&self.outcomes).acknowledged(GUARDED).len();
            Ok(vec![format!("{through} guarded writes were allowed")])
        })
    }
}
