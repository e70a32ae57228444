//! Tests of the controllers that run in the server itself, on both stores: every script under
//! `tests/controllers`, and what becomes of work that a death interrupts.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use trireme_tests::http::Client;
use trireme_tests::kubectl::{self, scripts};
use trireme_tests::server::CONTROLLERS;
use trireme_tests::{Server, StoreChoice};

fn check(store: StoreChoice) {
    let server = Server::try_start(store, &[CONTROLLERS]).unwrap_or_else(|error| panic!("{error}"));
    kubectl::check(&scripts("controllers"), &server);
}

#[test]
fn controllers_do_their_work_over_the_embedded_store() {
    check(StoreChoice::Embedded);
}

#[test]
fn controllers_do_their_work_over_etcd() {
    check(StoreChoice::Etcd);
}

const OBJECTS: usize = 200;
const PATIENCE: Duration = Duration::from_secs(60);

/// A namespace with an owner and many ConfigMaps that block its deletion.
struct Family {
    server: Server,
    client: Client,
}

impl Family {
    fn new(store: StoreChoice) -> Self {
        let server = Server::try_start(store, &[CONTROLLERS]).unwrap_or_else(|error| panic!("{error}"));
        let client = server.client();
        let family = Self { server, client };
        family.create("/api/v1/namespaces", &json!({ "metadata": { "name": "family" } }));
        let owner = family.create(CONFIGMAPS, &json!({ "metadata": { "name": "owner" } }));
        let reference = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": "owner",
            "uid": owner["metadata"]["uid"],
            "blockOwnerDeletion": true,
        });
        for number in 0..OBJECTS {
            let metadata = json!({ "name": format!("child-{number}"), "ownerReferences": [reference] });
            family.create(CONFIGMAPS, &json!({ "metadata": metadata }));
        }
        family
    }

    fn create(&self, path: &str, object: &Value) -> Value {
        let answer = self.client.json("POST", path, object).expect("an answer");
        assert_eq!(answer.code, 201, "{}", answer.text());
        serde_json::from_str(&answer.text()).expect("JSON")
    }

    /// Deletes, waits until some of the children have seen it, and kills the server before all have.
    fn interrupt(&mut self, path: &str, options: &Value, is_done: fn(&Value) -> bool) {
        let answer = self.client.json("DELETE", path, options).expect("an answer");
        assert_eq!(answer.code, 200, "{}", answer.text());
        self.until("begun", |client| {
            let left = children(client).iter().filter(|child| !is_done(child)).count();
            left < OBJECTS
        });
        self.server.restart().unwrap_or_else(|error| panic!("{error}"));
    }

    fn until(&mut self, what: &'static str, condition: impl Fn(&Client) -> bool) {
        let client = self.client.clone();
        let waited = self.server.process().wait_until(what, PATIENCE, || condition(&client));
        waited.unwrap_or_else(|error| panic!("{error}"));
    }

    fn until_gone(&mut self, path: &'static str) {
        self.until("gone", |client| client.get(path).expect("an answer").code == 404);
    }
}

const CONFIGMAPS: &str = "/api/v1/namespaces/family/configmaps";
const OWNER: &str = "/api/v1/namespaces/family/configmaps/owner";
const NAMESPACE: &str = "/api/v1/namespaces/family";

fn children(client: &Client) -> Vec<Value> {
    let answer = client.get(CONFIGMAPS).expect("an answer").text();
    let mut list: Value = serde_json::from_str(&answer).expect("JSON");
    let Some(items) = list["items"].as_array_mut() else {
        return Vec::new();
    };
    items.retain(|item| {
        item["metadata"]["name"]
            .as_str()
            .is_some_and(|name| name.starts_with("child"))
    });
    std::mem::take(items)
}

#[test]
fn what_a_death_interrupts_goes_on_afterwards() {
    let never = |_: &Value| false;
    for store in [StoreChoice::Embedded, StoreChoice::Etcd] {
        let mut family = Family::new(store);
        family.interrupt(OWNER, &json!({ "propagationPolicy": "Foreground" }), never);
        family.until_gone(OWNER);
        assert_eq!(
            children(&family.client).len(),
            0,
            "{store:?}: they went before their owner"
        );

        let mut family = Family::new(store);
        family.interrupt(OWNER, &json!({ "propagationPolicy": "Orphan" }), |child| {
            child["metadata"].get("ownerReferences").is_none()
        });
        family.until_gone(OWNER);
        let orphans = children(&family.client);
        assert_eq!(orphans.len(), OBJECTS, "{store:?}: all stay");
        assert!(
            orphans
                .iter()
                .all(|child| child["metadata"].get("ownerReferences").is_none()),
            "{store:?}: they have no owner"
        );

        family.interrupt(NAMESPACE, &json!({}), never);
        family.until_gone(NAMESPACE);
        assert_eq!(children(&family.client).len(), 0, "{store:?}");
    }
}

/// The value of a metric, the sum over all its labels.
fn metric(client: &Client, name: &str) -> f64 {
    let page = client.get("/metrics").expect("an answer").text();
    let samples = page.lines().filter(|line| line.starts_with(name));
    samples
        .filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok())
        .sum()
}

const REFUSED: &str = "trireme_fenced_writes_refused_total";

/// The values of a metric by the duty, which is its one label.
fn by_duty(client: &Client, name: &str) -> BTreeMap<String, f64> {
    let page = client.get("/metrics").expect("an answer").text();
    let samples = page.lines().filter_map(|line| {
        let (duty, value) = line.strip_prefix(name)?.strip_prefix("{duty=\"")?.split_once("\"} ")?;
        Some((duty.to_owned(), value.parse::<f64>().ok()?))
    });
    samples.collect()
}

/// Waits until the first process has stopped the duties whose writes were refused, and the second one does them.
fn wait_until_handed_over(first: &mut Server, second: &Server) {
    const TOKENS: &str = "trireme_duty_fencing_token";
    let (old, new) = (first.client(), second.client());
    let refused = by_duty(&old, REFUSED).into_iter().filter(|(_, count)| *count > 0.0);
    let duties: Vec<String> = refused.map(|(duty, _)| duty).collect();
    assert!(!duties.is_empty(), "a write was refused");
    let waited = first.process().wait_until("rid of fenced duties", PATIENCE, || {
        let (given_up, taken) = (by_duty(&old, TOKENS), by_duty(&new, TOKENS));
        let is_handed_over = |duty: &String| given_up.get(duty) == Some(&0.0) && taken.get(duty) > Some(&0.0);
        duties.iter().all(is_handed_over)
    });
    waited.unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn a_second_process_over_one_etcd_fences_the_first_out() {
    let mut first = Server::try_start(StoreChoice::Etcd, &[CONTROLLERS]).unwrap_or_else(|error| panic!("{error}"));
    let mut second = first
        .start_beside(&[CONTROLLERS])
        .unwrap_or_else(|error| panic!("{error}"));
    let (old, new) = (first.client(), second.client());
    let mut made = 0;
    let is_refused = || metric(&old, REFUSED) > 0.0;
    // While the second process stands still the first one has to create the objects of a namespace, and is refused once the second
    // has taken over.
    let refused = || {
        let body = json!({ "metadata": { "name": format!("n{made}") } });
        let account = format!("/api/v1/namespaces/n{made}/serviceaccounts/default");
        made += 1;
        second
            .process()
            .signal("STOP")
            .expect("the second process stands still");
        let created = old.json("POST", "/api/v1/namespaces", &body).expect("an answer");
        assert_eq!(created.code, 201);
        let end = Instant::now() + PATIENCE;
        while !is_refused() && old.get(&account).expect("an answer").code != 200 && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(20));
        }
        second.process().signal("CONT").expect("the second process goes on");
        is_refused()
    };
    let waited = first.process().wait_until("a refused write", PATIENCE, refused);
    waited.unwrap_or_else(|error| panic!("{error}"));
    let missing = |kind: &str, name: &str| {
        (0..made).any(|number| {
            let path = format!("/api/v1/namespaces/n{number}/{kind}/{name}");
            new.get(&path).expect("an answer").code != 200
        })
    };
    let waited = first.process().wait_until("all is made", PATIENCE, || {
        !missing("serviceaccounts", "default") && !missing("configmaps", "kube-root-ca.crt")
    });
    waited.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(metric(&new, REFUSED), 0.0);
    wait_until_handed_over(&mut first, &second);
}
