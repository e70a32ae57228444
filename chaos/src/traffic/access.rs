//! Users who are no administrators: a matrix of users and requests whose answers the policy decides once and for all, and a user
//! whose binding comes and goes. Each replica is asked by itself, whatever state it is in.

use std::time::Duration;

use rand::Rng as _;
use rand::rngs::StdRng;
use serde_json::{Value, json};
use tokio::time::{MissedTickBehavior, interval};
use trireme_http::client::Method;

use super::desk::{Desk, Phase};
use super::insist;
use super::objects::NAMESPACES;
use super::uses::{Issuer, Uses};
use super::wire::{Address, Call, HttpCaller, HttpReply, Protocol};
use crate::history::{AccessKind, AccessRecord, Credential};
use crate::world::{ACCESS_USERS, REVOCABLE, access_token};

const GROUP: &str = "/apis/rbac.authorization.k8s.io/v1";
const READER: &str = "access-reader";
const WRITER: &str = "access-writer";

/// Of the matrix: with [`NAMES`] 200 requests.
const VERBS: [&str; 4] = ["get", "list", "delete", "patch"];
const RESOURCES: [&str; 5] = ["configmaps", "secrets", "pods", "services", "serviceaccounts"];
const PLACES: [&str; 5] = [NAMESPACES[0], NAMESPACES[1], "default", "kube-system", "elsewhere"];
/// Nothing is called so: what is let through has no effect.
const NAMES: [&str; 2] = ["access-none", "access-nothing"];
/// The resources that readers may read.
const READABLE: [&str; 3] = ["configmaps", "secrets", "pods"];

/// Between two requests of the matrix to one replica. More of them would leave an unoptimized server on two cores no time for the
/// load that is measured.
const MATRIX_PACE: Duration = Duration::from_millis(100);
/// Between two requests of the revocable user to one replica.
const REVOCABLE_PACE: Duration = Duration::from_millis(50);
/// The least time for which there is a binding, and that for which there is none: longer than a revocation may take.
const GRANTED: Duration = Duration::from_millis(500);
const REVOKED: Duration = Duration::from_millis(2_500);

/// A request of the matrix.
struct MatrixRequest {
    verb: &'static str,
    resource: &'static str,
    namespace: &'static str,
    name: &'static str,
}

impl MatrixRequest {
    fn draw(rng: &mut StdRng) -> Self {
        let mut of = |all: &[&'static str]| all[rng.random_range(0..all.len())];
        Self {
            verb: of(&VERBS),
            resource: of(&RESOURCES),
            namespace: of(&PLACES),
            name: of(&NAMES),
        }
    }

    /// The truth about a user: those of each class of four are bound alike.
    fn is_permitted(&self, user: usize) -> bool {
        let reads = matches!(self.verb, "get" | "list") && READABLE.contains(&self.resource);
        match user % 4 {
            1 => reads && self.namespace == NAMESPACES[0],
            2 => reads,
            3 => {
                matches!(self.verb, "delete" | "patch")
                    && self.resource == "configmaps"
                    && self.namespace == NAMESPACES[1]
            }
            _ => false,
        }
    }

    fn call(&self) -> Call {
        let collection = format!("/api/v1/namespaces/{}/{}", self.namespace, self.resource);
        let object = format!("{collection}/{}", self.name);
        match self.verb {
            "list" => Call::get(collection),
            "delete" => Call {
                method: Method::DELETE,
                ..Call::get(object)
            },
            "patch" => Call::with_body(Method::PATCH, object, "application/merge-patch+json", "{}"),
            _ => Call::get(object),
        }
    }
}

/// Makes the roles and bindings of the matrix.
///
/// # Errors
/// In words, if the group does not take them.
pub(crate) async fn prepare(caller: &mut HttpCaller) -> Result<(), String> {
    let users = |class: usize| (0..ACCESS_USERS).filter(move |user| user % 4 == class);
    let role = |name: &str, verbs: [&str; 2], resources: &[&str]| {
        let rule = json!({"verbs": verbs, "apiGroups": [""], "resources": resources});
        (
            format!("{GROUP}/clusterroles"),
            json!({"metadata": {"name": name}, "rules": [rule]}),
        )
    };
    let binding = |class: usize, role: &str, namespace: Option<&str>| {
        let path = match namespace {
            Some(namespace) => format!("{GROUP}/namespaces/{namespace}/rolebindings"),
            None => format!("{GROUP}/clusterrolebindings"),
        };
        let names: Vec<String> = users(class).map(|user| format!("access-{user}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        (path, bound(&format!("access-{class}"), role, &names))
    };
    let objects = [
        role(READER, ["get", "list"], &READABLE),
        role(WRITER, ["delete", "patch"], &["configmaps"]),
        binding(1, READER, Some(NAMESPACES[0])),
        binding(2, READER, None),
        binding(3, WRITER, Some(NAMESPACES[1])),
    ];
    for (path, object) in objects {
        let call = Call::with_body(Method::POST, path, "application/json", object.to_string());
        insist(async || super::created(&caller.call(&call).await)).await?;
    }
    Ok(())
}

fn bound(name: &str, role: &str, users: &[&str]) -> Value {
    let group = "rbac.authorization.k8s.io";
    let subject = |user: &&str| json!({"kind": "User", "apiGroup": group, "name": user});
    json!({
        "metadata": {"name": name},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
        "subjects": users.iter().map(subject).collect::<Vec<_>>(),
    })
}

/// One who asks and records.
pub(super) struct AccessClient {
    desk: Desk,
    user: String,
    credential: Credential,
    caller: HttpCaller,
}

impl AccessClient {
    pub(super) fn new(desk: &Desk, user: &str, address: &Address) -> Self {
        Self {
            desk: desk.clone(),
            user: user.to_owned(),
            credential: Credential::Binding,
            caller: HttpCaller::new(address.clone(), Protocol::Http1),
        }
    }

    /// Another credential is given and taken away.
    pub(super) fn with(self, credential: Credential) -> Self {
        Self { credential, ..self }
    }

    /// Shows this token from now on, over the connection that is there.
    pub(super) fn use_token(&mut self, token: &str) {
        self.caller.address = self.caller.address.with_token(token);
    }

    /// Sends, waits for the answer, and returns the record of both.
    pub(super) async fn ask(&mut self, kind: AccessKind, call: &Call) -> AccessRecord {
        let called = self.desk.now();
        let code = match self.caller.call(call).await {
            HttpReply::Answer { code, .. } => code,
            HttpReply::NotSent(_) | HttpReply::Lost(_) => 0,
        };
        let record = AccessRecord {
            kind,
            credential: self.credential,
            user: self.user.clone(),
            replica: self.caller.address.name.clone(),
            request: format!("{} {}", call.method, call.path),
            called,
            returned: self.desk.now(),
            code,
        };
        self.desk.recorder.access(&record);
        record
    }
}

/// Asks one replica, each time as another user for something else, until the load is over.
pub(crate) async fn matrix(desk: Desk, address: Address, mut rng: StdRng) {
    let client = |user: usize| {
        let name = format!("access-{user}");
        AccessClient::new(&desk, &name, &address.with_token(&access_token(&name)))
    };
    let mut clients: Vec<AccessClient> = (0..ACCESS_USERS).map(client).collect();
    let mut ticks = paced(MATRIX_PACE);
    while desk.phase() == Phase::Load {
        ticks.tick().await;
        let (user, request) = (rng.random_range(0..clients.len()), MatrixRequest::draw(&mut rng));
        let kind = match request.is_permitted(user) {
            true => AccessKind::Permitted,
            false => AccessKind::Forbidden,
        };
        clients[user].ask(kind, &request.call()).await;
    }
}

/// Asks one replica as the revocable user until the load is over.
pub(crate) async fn revocable(desk: Desk, address: Address, uses: Uses) {
    let mut client = AccessClient::new(&desk, REVOCABLE, &address.with_token(&access_token(REVOCABLE)));
    let call = Call::get(format!("/api/v1/namespaces/{}/configmaps/{}", NAMESPACES[0], NAMES[0]));
    let mut ticks = paced(REVOCABLE_PACE);
    while desk.phase() == Phase::Load {
        ticks.tick().await;
        uses.note(&client.ask(AccessKind::Revocable, &call).await);
    }
}

/// Makes and deletes the binding of that user, through the balancer.
struct BindingIssuer {
    admin: AccessClient,
    grant: Call,
    revoke: Call,
}

impl BindingIssuer {
    fn new(desk: &Desk, balancer: &Address) -> Self {
        let bindings = format!("{GROUP}/clusterrolebindings");
        let object = bound(REVOCABLE, READER, &[REVOCABLE]);
        Self {
            admin: AccessClient::new(desk, "admin", balancer),
            grant: Call::with_body(Method::POST, bindings.as_str(), "application/json", object.to_string()),
            revoke: Call {
                method: Method::DELETE,
                ..Call::get(format!("{bindings}/{REVOCABLE}"))
            },
        }
    }
}

impl Issuer for BindingIssuer {
    async fn change(&mut self, kind: AccessKind) -> AccessRecord {
        let call = match kind {
            AccessKind::Grant => &self.grant,
            _ => &self.revoke,
        };
        self.admin.ask(kind, call).await
    }
}

/// Gives that user the binding and takes it away until the load is over.
pub(crate) async fn grant_and_revoke(desk: Desk, balancer: Address, uses: Uses) {
    let mut issuer = BindingIssuer::new(&desk, &balancer);
    uses.come_and_go(&desk, GRANTED, REVOKED, &mut issuer).await;
}

pub(super) fn paced(pace: Duration) -> tokio::time::Interval {
    let mut ticks = interval(pace);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    ticks
}
