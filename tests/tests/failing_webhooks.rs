//! Webhooks that are slow, dead or both by turns: those that fail closed let nothing through, those that fail open delay writes by
//! their timeout at most, other writes are not delayed, and what was acknowledged is there.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use trireme_tests::group::until;
use trireme_tests::http::Client;
use trireme_tests::receiver::Receiver;
use trireme_tests::{Server, StoreChoice};

const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const CORE: &str = "/api/v1/namespaces/default";
const PATIENCE: Duration = Duration::from_secs(60);
/// Far more than the timeout of the webhooks, 1 s, and far less than a slow one takes.
const NOT_DELAYED: Duration = Duration::from_secs(5);
const SLOW_SECONDS: f64 = 12.0;
/// Writes in each state of the webhooks: more than a breaker needs to open.
const ROUNDS: usize = 8;

/// Guarded by a webhook that fails closed.
const GUARDED: &str = "secrets";
/// Looked at by one that fails open.
const LOOKED_AT: &str = "configmaps";
/// No webhook's business.
const OTHERS: &str = "serviceaccounts";

struct Setup {
    _server: Server,
    admin: Client,
    receiver: Receiver,
    /// The names that were acknowledged, by resource.
    acknowledged: BTreeSet<(&'static str, String)>,
}

/// The script of webhooks that allow everything; what they allowed is remembered.
fn well() -> Vec<Value> {
    vec![json!({"path": "/*", "review": {"allowed": true}})]
}

impl Setup {
    fn start() -> Self {
        let server = Server::start(StoreChoice::Embedded);
        let receiver = Receiver::start(well(), "default", None).expect("a port");
        let setup = Self {
            admin: server.client(),
            _server: server,
            receiver,
            acknowledged: BTreeSet::new(),
        };
        let webhook = |name: &str, resource: &str, policy: &str| {
            json!({
                "name": format!("{name}.example.com"), "failurePolicy": policy, "timeoutSeconds": 1, "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
                "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": [resource]}],
                "clientConfig": {
                    "url": format!("https://127.0.0.1:{}/{name}", setup.receiver.port()),
                    "caBundle": setup.receiver.ca_bundle(),
                },
            })
        };
        let webhooks = [webhook("guard", GUARDED, "Fail"), webhook("look", LOOKED_AT, "Ignore")];
        let answer = setup.admin.json(
            "POST",
            CONFIGURATIONS,
            &json!({"metadata": {"name": "hooks"}, "webhooks": webhooks}),
        );
        assert_eq!(answer.expect("an answer").code, 201);
        for resource in [GUARDED, LOOKED_AT] {
            // Nothing is left of it if it comes before the webhooks are known.
            let dry_run = format!("{CORE}/{resource}?dryRun=All");
            let probe = json!({"metadata": {"name": "ready"}});
            until("the webhooks are asked", PATIENCE, || {
                setup.admin.json("POST", &dry_run, &probe).expect("an answer").code == 403
            });
        }
        setup
    }

    /// Creates an object, which must not take long; gives the code.
    fn create(&self, resource: &str, name: &str) -> u16 {
        let began = Instant::now();
        let object = json!({"metadata": {"name": name}});
        let answer = self.admin.json("POST", &format!("{CORE}/{resource}"), &object);
        let (code, took) = (answer.expect("an answer").code, began.elapsed());
        assert!(took < NOT_DELAYED, "{resource} {name}: {code} after {took:?}");
        code
    }

    /// Writes one object of each resource; true if the guarded one was let through.
    fn write(&mut self, name: &str) -> bool {
        for resource in [LOOKED_AT, OTHERS] {
            assert_eq!(self.create(resource, name), 201, "{resource} {name}");
            self.acknowledged.insert((resource, name.to_owned()));
        }
        match self.create(GUARDED, name) {
            201 => self.acknowledged.insert((GUARDED, name.to_owned())),
            code => {
                assert_eq!(code, 500, "{name}: a failed call is an internal error");
                false
            }
        }
    }

    /// The names of the guarded objects that the webhook has allowed.
    fn allowed(&self) -> BTreeSet<String> {
        let received = self.receiver.received().into_iter();
        let guarded = received.filter(|one| one["path"].as_str().is_some_and(|path| path.starts_with("/guard")));
        guarded
            .map(|one| one["body"]["request"]["name"].as_str().unwrap_or_default().to_owned())
            .collect()
    }

    fn stored(&self, resource: &'static str) -> BTreeSet<(&'static str, String)> {
        let listed = self.admin.get(&format!("{CORE}/{resource}")).expect("an answer");
        let listed: Value = serde_json::from_str(&listed.text()).expect("JSON");
        let items = listed["items"].as_array().into_iter().flatten();
        items
            .map(|item| {
                (
                    resource,
                    item["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
                )
            })
            .collect()
    }
}

#[test]
fn webhooks_that_fail_let_nothing_through_and_hold_up_nothing() {
    let mut setup = Setup::start();
    let slow = json!({"path": "/*", "delay": SLOW_SECONDS, "review": {"allowed": true}, "record": false});
    let dead = json!({"path": "/*", "close": true, "record": false});
    for (state, entry) in [("slow", slow), ("dead", dead.clone())] {
        setup.receiver.follow(vec![entry]);
        for round in 0..ROUNDS {
            assert!(
                !setup.write(&format!("{state}-{round}")),
                "{state}: let through without an answer"
            );
        }
    }
    // By turns: for a call or two it answers, then it is dead again.
    let mut round = 0;
    let mut outcomes = BTreeSet::new();
    until("some are let through and some are not", PATIENCE, || {
        let mut script = well();
        script[0]["times"] = json!(2);
        script.push(dead.clone());
        setup.receiver.follow(script);
        for _ in 0..ROUNDS {
            round += 1;
            outcomes.insert(setup.write(&format!("flapping-{round}")));
        }
        outcomes.len() == 2
    });
    setup.receiver.follow(well());
    until("it is asked again", PATIENCE, || {
        round += 1;
        setup.write(&format!("well-{round}"))
    });
    let of = |resource: &str, names: &BTreeSet<(&'static str, String)>| -> BTreeSet<String> {
        names
            .iter()
            .filter(|(of, _)| *of == resource)
            .map(|(_, name)| name.clone())
            .collect()
    };
    for resource in [GUARDED, LOOKED_AT, OTHERS] {
        let (stored, acknowledged) = (of(resource, &setup.stored(resource)), of(resource, &setup.acknowledged));
        assert_eq!(stored, acknowledged, "{resource}: lost, or there after a refusal");
    }
    let let_through = of(GUARDED, &setup.acknowledged);
    let allowed = setup.allowed();
    assert!(let_through.is_subset(&allowed), "{let_through:?} of {allowed:?}");
}
