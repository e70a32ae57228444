//! Users whose credentials come and go: tokens of service accounts with what they are bound to, a static token, a certificate
//! of a client. Each replica is asked by itself, also while it starts.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;
use trireme_http::client::{ClientIdentity, Method};

use super::access::{AccessClient, paced};
use super::desk::{Desk, Phase};
use super::insist;
use super::uses::{Issuer, Uses};
use super::wire::{Address, Call, HttpCaller, HttpReply, Protocol};
use crate::history::{AccessKind, AccessRecord, Credential};
use crate::world::{CredentialFiles, World};

/// Traffic and duties leave it alone.
pub(crate) const NAMESPACE: &str = "access";
/// The ServiceAccount of tokens that are bound to something else.
const ACCOUNT: &str = "holder";
/// Between two requests to one replica, each with another credential.
const PACE: Duration = Duration::from_millis(40);
/// The least time for which a credential is good: files are looked at every 400 ms.
const GRANTED: Duration = Duration::from_millis(1_500);
/// The least time for which it is not: longer than a revocation may take.
const REVOKED: Duration = Duration::from_millis(2_000);

/// A credential as its holders get it from its issuer.
#[derive(Clone)]
pub(crate) struct GivenCredential {
    credential: Credential,
    /// The token that is shown at the moment; empty before there was one.
    tokens: watch::Receiver<String>,
    uses: Uses,
}

/// Makes the namespace and the account.
///
/// # Errors
/// In words, if the group does not take them.
pub(crate) async fn prepare(caller: &mut HttpCaller) -> Result<(), String> {
    let objects = [
        ("/api/v1/namespaces".to_owned(), "Namespace", NAMESPACE),
        (collection("serviceaccounts"), "ServiceAccount", ACCOUNT),
    ];
    for (path, kind, name) in objects {
        let object = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}});
        let call = Call::with_body(Method::POST, path, "application/json", object.to_string());
        insist(async || super::created(&caller.call(&call).await)).await?;
    }
    Ok(())
}

fn collection(plural: &str) -> String {
    format!("/api/v1/namespaces/{NAMESPACE}/{plural}")
}

/// Grants and revokes one credential until the load is over.
pub(crate) struct CredentialIssuer {
    desk: Desk,
    world: Arc<World>,
    admin: HttpCaller,
    credential: Credential,
    tokens: watch::Sender<String>,
    uses: Uses,
    /// Each object has a name of its own.
    cycle: u32,
}

impl CredentialIssuer {
    /// The issuer of each credential but the binding.
    pub(crate) fn all(desk: &Desk, world: &Arc<World>, balancer: &Address) -> Vec<Self> {
        let issued = Credential::ALL.into_iter().filter(|one| *one != Credential::Binding);
        let issuer = |credential| Self {
            desk: desk.clone(),
            world: world.clone(),
            admin: HttpCaller::new(balancer.clone(), Protocol::Http1),
            credential,
            tokens: watch::Sender::default(),
            uses: Uses::default(),
            cycle: 0,
        };
        issued.map(issuer).collect()
    }

    /// Returns its credential for one more holder.
    pub(crate) fn given(&self) -> GivenCredential {
        GivenCredential {
            credential: self.credential,
            tokens: self.tokens.subscribe(),
            uses: self.uses.clone(),
        }
    }

    /// The requests with its credential.
    pub(crate) fn uses(&self) -> &Uses {
        &self.uses
    }

    pub(crate) async fn run(mut self) {
        let (desk, uses) = (self.desk.clone(), self.uses.clone());
        uses.come_and_go(&desk, GRANTED, REVOKED, &mut self).await;
    }

    fn name(&self) -> String {
        format!("revocable-{}", self.cycle)
    }

    /// 201 if the credential was surely granted.
    async fn grant(&mut self) -> u16 {
        let files = self.world.credentials();
        let written = match self.credential {
            Credential::StaticToken => files.list_token(true),
            Credential::ClientCa => files.trust_client_ca(true),
            _ => return self.grant_token().await,
        };
        self.tokens.send_replace(CredentialFiles::listed_token());
        written.map_or(0, |()| 201)
    }

    /// 200 if it was surely revoked.
    async fn revoke(&mut self) -> u16 {
        let files = self.world.credentials();
        let written = match self.credential {
            Credential::StaticToken => files.list_token(false),
            Credential::ClientCa => files.trust_client_ca(false),
            _ => {
                let path = format!("{}/{}?gracePeriodSeconds=0", collection(self.plural()), self.name());
                let delete = Call {
                    method: Method::DELETE,
                    ..Call::get(path)
                };
                return self.send(&delete).await.0;
            }
        };
        written.map_or(0, |()| 200)
    }

    fn plural(&self) -> &'static str {
        match self.credential {
            Credential::Secret => "secrets",
            Credential::Pod => "pods",
            _ => "serviceaccounts",
        }
    }

    /// Makes the object, and a token that is good as long as the object is there.
    async fn grant_token(&mut self) -> u16 {
        let name = self.name();
        let mut object = json!({"metadata": {"name": name}});
        if self.credential == Credential::Pod {
            object["spec"] = json!({"serviceAccountName": ACCOUNT, "containers": [{"name": "c", "image": "i"}]});
        }
        let make = |path, object: &Value| Call::with_body(Method::POST, path, "application/json", object.to_string());
        let (code, made) = self.send(&make(collection(self.plural()), &object)).await;
        if code != 201 {
            return code;
        }
        let bound = |kind: &str| {
            let uid = &made["metadata"]["uid"];
            json!({"spec": {"boundObjectRef": {"apiVersion": "v1", "kind": kind, "name": name, "uid": uid}}})
        };
        let (account, request) = match self.credential {
            Credential::Secret => (ACCOUNT, bound("Secret")),
            Credential::Pod => (ACCOUNT, bound("Pod")),
            _ => (name.as_str(), json!({"spec": {}})),
        };
        let path = format!("{}/{account}/token", collection("serviceaccounts"));
        let (code, answer) = self.send(&make(path, &request)).await;
        if let Some(token) = answer["status"]["token"].as_str() {
            self.tokens.send_replace(token.to_owned());
        }
        code
    }

    async fn send(&mut self, call: &Call) -> (u16, Value) {
        match self.admin.call(call).await {
            HttpReply::Answer { code, body } => (code, serde_json::from_slice(&body).unwrap_or_default()),
            HttpReply::NotSent(_) | HttpReply::Lost(_) => (0, Value::Null),
        }
    }
}

impl Issuer for CredentialIssuer {
    async fn change(&mut self, kind: AccessKind) -> AccessRecord {
        let called = self.desk.now();
        let code = match kind {
            AccessKind::Grant => {
                self.cycle += 1;
                self.grant().await
            }
            _ => self.revoke().await,
        };
        let record = AccessRecord {
            kind,
            credential: self.credential,
            user: "admin".to_owned(),
            replica: self.admin.address.name.clone(),
            request: format!("{:?} {}", self.credential, self.name()),
            called,
            returned: self.desk.now(),
            code,
        };
        self.desk.recorder.access(&record);
        record
    }
}

/// One who has a credential and asks with it.
struct CredentialHolder {
    client: AccessClient,
    given: GivenCredential,
    /// Something was granted once.
    has_credential: bool,
}

impl CredentialHolder {
    fn new(desk: &Desk, world: &World, address: &Address, given: GivenCredential) -> Self {
        let address = match given.credential {
            Credential::ClientCa => {
                let shown = world.credentials().client_certificate();
                let identity = ClientIdentity {
                    certificate: shown.certificate.clone().into_bytes(),
                    key: shown.key.clone().into_bytes(),
                };
                address
                    .with_identity(identity)
                    .expect("the certificate was made with its key")
            }
            _ => address.clone(),
        };
        let name = format!("{:?}", given.credential);
        let client = AccessClient::new(desk, &name, &address).with(given.credential);
        Self {
            client,
            given,
            has_credential: false,
        }
    }

    /// Asks with the newest token, once there is one; over the connection that it has.
    async fn ask(&mut self, call: &Call) {
        if self.given.tokens.has_changed().unwrap_or(false) {
            let token = self.given.tokens.borrow_and_update().clone();
            if self.given.credential != Credential::ClientCa {
                self.client.use_token(&token);
            }
            self.has_credential = true;
        }
        if self.has_credential {
            self.given
                .uses
                .note(&self.client.ask(AccessKind::Revocable, call).await);
        }
    }
}

/// Asks one replica with each of the credentials in turn, until the load is over, for what all users may know.
pub(crate) async fn hold(desk: Desk, world: Arc<World>, address: Address, given: Vec<GivenCredential>) {
    let holder = |given| CredentialHolder::new(&desk, &world, &address, given);
    let mut holders: Vec<_> = given.into_iter().map(holder).collect();
    let call = Call::get("/api");
    let mut ticks = paced(PACE);
    while desk.phase() == Phase::Load {
        for holder in &mut holders {
            ticks.tick().await;
            holder.ask(&call).await;
        }
    }
}
