//! Fault 27: the servers behind the API are gone: a conversion webhook, and an aggregated API server.
//!
//! Objects of a custom resource are stored in version 1 and read in version 2 through the webhook; a group is another server's.
//! Once all replicas serve both, nothing listens there any more. Objects in the stored version, and those that are nobody else's
//! business, are created as before, and discovery is read; what came of that is [`GuardedWrites`], too. Healing brings the webhook
//! back at another port, where every object has to be found in version 2.

use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio::time::sleep;
use trireme_tests::receiver::Receiver;

use super::consumers::{NAMESPACE, make_namespace};
use super::task::{Stop, Task};
use super::{ActiveFault, Observation, Refusal};
use crate::history::GuardedWrites;
use crate::world::{ClientRoute, Probe, World, WorldError};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const DEFINITION: &str = "things.converted.example.com";
const SERVICE: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
const AGGREGATED: &str = "/apis/aggregated.example.com/v1";
const PERIOD: Duration = Duration::from_millis(100);
/// The time that anything may take, on a machine under load.
const AT_MOST: Duration = Duration::from_secs(3);
const PATIENCE: Duration = Duration::from_secs(10);
const READY_PATIENCE: Duration = Duration::from_secs(30);
/// The number of refusals after which the fault counts as seen.
const LEAST_REFUSED: u64 = 5;

/// The outcomes of the requests.
#[derive(Debug, Default)]
struct ServerOutcomes {
    acknowledged: BTreeSet<String>,
    writes: GuardedWrites,
    refused: u64,
}

struct GoneServers {
    outcomes: Arc<Mutex<ServerOutcomes>>,
    client: Task<()>,
}

impl fmt::Debug for GoneServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GoneServers(..)")
    }
}

fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

fn start_servers() -> Result<Receiver, WorldError> {
    let resources =
        json!([{"name": "rods", "singularName": "rod", "namespaced": true, "kind": "Rod", "verbs": ["get"]}]);
    let list = json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "aggregated.example.com/v1", "resources": resources});
    let converted = json!({"convertedObjects": "${converted}", "result": {"status": "Success"}});
    let script = vec![
        json!({"path": "/convert", "convert": {"v1": [], "v2": []}, "review": converted, "record": false}),
        json!({"path": "/apis/*", "body": list, "record": false}),
        json!({"path": "/*", "status": 404, "body": {}, "record": false}),
    ];
    Receiver::start(script, NAMESPACE, None)
        .map_err(|error| WorldError::Io("start the servers behind the API".to_owned(), error))
}

fn conversion(receiver: &Receiver) -> Value {
    let url = format!("https://127.0.0.1:{}/convert", receiver.port());
    let client = json!({"url": url, "caBundle": receiver.ca_bundle()});
    json!({"strategy": "Webhook", "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]}})
}

fn unexpected(what: &'static str, why: String) -> WorldError {
    WorldError::Answer {
        part: "the load balancer".to_owned(),
        what,
        why,
    }
}

fn things(version: &str) -> String {
    format!("/apis/converted.example.com/{version}/namespaces/{NAMESPACE}/things")
}

pub(super) async fn begin(world: &World) -> Result<Box<dyn ActiveFault>, Refusal> {
    let (probe, address) = (world.probe().clone(), world.address());
    make_namespace(&probe, address).await?;
    let receiver = start_servers()?;
    define(&probe, address, &receiver).await?;
    until_served(world).await?;
    let outcomes = Arc::<Mutex<ServerOutcomes>>::default();
    let first = request(
        &probe,
        address,
        "POST",
        &things("v1"),
        Some(&json!({
            "apiVersion": "converted.example.com/v1", "kind": "Thing", "metadata": {"name": "first"},
        })),
    )
    .await;
    if !matches!(first.0, Ok(201)) {
        return Err(unexpected("an object to be converted", format!("{first:?}")).into());
    }
    lock(&outcomes).acknowledged.insert("first".to_owned());
    drop(receiver);
    let shared = Arc::clone(&outcomes);
    Ok(Box::new(GoneServers {
        outcomes,
        client: Task::spawn(|stop| ask(probe, address, shared, stop)),
    }))
}

async fn define(probe: &Probe, address: SocketAddr, receiver: &Receiver) -> Result<(), WorldError> {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let version = |name: &str| json!({"name": name, "served": true, "storage": name == "v1", "schema": schema});
    let definition = json!({
        "metadata": {"name": DEFINITION},
        "spec": {
            "group": "converted.example.com", "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [version("v1"), version("v2")], "conversion": conversion(receiver),
        },
    });
    let service =
        json!({"metadata": {"name": "servers"}, "spec": {"type": "ExternalName", "externalName": "127.0.0.1"}});
    let api_service = json!({
        "metadata": {"name": "v1.aggregated.example.com"},
        "spec": {
            "group": "aggregated.example.com", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 15,
            "caBundle": receiver.ca_bundle(),
            "service": {"namespace": NAMESPACE, "name": "servers", "port": receiver.port()},
        },
    });
    let services = format!("/api/v1/namespaces/{NAMESPACE}/services");
    for (path, object) in [(DEFINITIONS, definition), (&services, service), (SERVICE, api_service)] {
        match request(probe, address, "POST", path, Some(&object)).await {
            (Ok(201), _) => {}
            other => return Err(unexpected("the objects of a fault", format!("{path}: {other:?}"))),
        }
    }
    Ok(())
}

/// Waits until every replica converts and proxies.
async fn until_served(world: &World) -> Result<(), WorldError> {
    let end = Instant::now() + READY_PATIENCE;
    for replica in 0..world.replicas() {
        let address = world.replica_address(replica, ClientRoute::Direct)?;
        for path in [things("v2"), AGGREGATED.to_owned()] {
            loop {
                match request(world.probe(), address, "GET", &path, None).await.0 {
                    Ok(200) => break,
                    other if Instant::now() >= end => {
                        return Err(unexpected("that its replicas serve it", format!("{path}: {other:?}")));
                    }
                    _ => sleep(PERIOD).await,
                }
            }
        }
    }
    Ok(())
}

async fn request(
    probe: &Probe,
    address: SocketAddr,
    method: &str,
    path: &str,
    body: Option<&Value>,
) -> (Result<u16, String>, Duration) {
    let began = Instant::now();
    let answer = probe.send(address, method, path, body, PATIENCE).await;
    (answer.map(|(code, _)| code), began.elapsed())
}

/// Asks for what has to work, and for what cannot, again and again.
async fn ask(probe: Probe, address: SocketAddr, outcomes: Arc<Mutex<ServerOutcomes>>, mut stop: Stop) {
    let accounts = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts");
    let first = format!("{}/first", things("v2"));
    let mut number = 0;
    while stop.pause(PERIOD).await {
        number += 1;
        let name = format!("gone-{number}");
        let thing = json!({"apiVersion": "converted.example.com/v1", "kind": "Thing", "metadata": {"name": name}});
        let account = json!({"metadata": {"name": name}});
        let works = [
            ("POST", things("v1"), Some(&thing)),
            ("GET", format!("{}/first", things("v1")), None),
            ("POST", accounts.clone(), Some(&account)),
            ("GET", "/apis".to_owned(), None),
        ];
        for (place, (method, path, body)) in works.into_iter().enumerate() {
            let (answer, took) = request(&probe, address, method, &path, body).await;
            let mut outcomes = lock(&outcomes);
            if place == 0 && answer == Ok(201) {
                outcomes.acknowledged.insert(name.clone());
            }
            let expected = if method == "POST" { 201 } else { 200 };
            if answer != Ok(expected) || took > AT_MOST {
                outcomes
                    .writes
                    .held_up
                    .push(format!("{method} {path} {name}: {answer:?} after {took:?}"));
            }
        }
        for path in [&first, AGGREGATED] {
            let (answer, took) = request(&probe, address, "GET", path, None).await;
            let mut outcomes = lock(&outcomes);
            outcomes.writes.attempts += 1;
            match answer {
                Ok(500 | 503) => outcomes.refused += 1,
                other => outcomes.writes.let_through.push(format!("GET {path}: {other:?}")),
            }
            if took > AT_MOST {
                outcomes.writes.held_up.push(format!("GET {path} took {took:?}"));
            }
        }
    }
}

impl GoneServers {
    /// Waits until all acknowledged objects can be read in the other version again; gives those that cannot.
    async fn lost(&self, world: &World) -> Result<Vec<String>, WorldError> {
        let end = Instant::now() + READY_PATIENCE;
        loop {
            let listed = world.probe().get(world.address(), &things("v2"), PATIENCE).await;
            if let Ok((200, body)) = listed {
                let list: Value = serde_json::from_slice(&body).unwrap_or_default();
                let items = list["items"].as_array().into_iter().flatten();
                let names: BTreeSet<String> = items
                    .filter(|item| item["apiVersion"] == "converted.example.com/v2")
                    .filter_map(|item| item["metadata"]["name"].as_str().map(str::to_owned))
                    .collect();
                return Ok(lock(&self.outcomes).acknowledged.difference(&names).cloned().collect());
            }
            if Instant::now() >= end {
                return Err(unexpected("converted objects", format!("{listed:?}")));
            }
            sleep(PERIOD).await;
        }
    }
}

impl ActiveFault for GoneServers {
    fn targets(&self) -> Vec<String> {
        vec!["servers behind the API".to_owned()]
    }

    fn guarded(&self) -> Option<GuardedWrites> {
        Some(lock(&self.outcomes).writes.clone())
    }

    fn observe<'a>(&'a mut self, _: &'a World) -> BoxFuture<'a, Observation> {
        let refused = lock(&self.outcomes).refused;
        Box::pin(async move {
            let evidence = format!("{refused} requests for what is gone were refused");
            Observation::of(refused >= LEAST_REFUSED, evidence)
        })
    }

    fn heal<'a>(&'a mut self, world: &'a World) -> BoxFuture<'a, Result<Vec<String>, WorldError>> {
        Box::pin(async {
            self.client.end().await;
            let receiver = start_servers()?;
            let (probe, address) = (world.probe(), world.address());
            let path = format!("{DEFINITIONS}/{DEFINITION}");
            let found = probe.get(address, &path, PATIENCE).await;
            let Ok((200, body)) = found else {
                return Err(unexpected("the definition of a fault", format!("{found:?}")));
            };
            let mut definition: Value = serde_json::from_slice(&body).unwrap_or_default();
            definition["spec"]["conversion"] = conversion(&receiver);
            let replaced = request(probe, address, "PUT", &path, Some(&definition)).await;
            if !matches!(replaced.0, Ok(200)) {
                return Err(unexpected(
                    "that it takes another conversion webhook",
                    format!("{replaced:?}"),
                ));
            }
            let lost = self.lost(world).await?;
            lock(&self.outcomes).writes.lost = lost;
            for path in [path, format!("{SERVICE}/v1.aggregated.example.com")] {
                let deleted = request(probe, address, "DELETE", &path, None).await;
                if !matches!(deleted.0, Ok(200)) {
                    return Err(unexpected(
                        "that the objects of a fault are gone",
                        format!("{deleted:?}"),
                    ));
                }
            }
            let found = lock(&self.outcomes).acknowledged.len();
            Ok(vec![format!("{found} objects were made meanwhile")])
        })
    }
}
