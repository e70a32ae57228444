//! Requests whose cost is compared between servers, and between users.

use serde_json::{Value, json};
use trireme_http::client::{HeaderValue, StatusCode};

use super::{Bench, WRITERS, create, get};
use crate::client::{Call, JSON_TYPE, Session};
use crate::failure::Failure;
use crate::measure::{Limit, Measured};
use crate::objects;

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const READER: &str = "bench-reader";

impl Bench {
    /// Asks as a service account from now on, which a role in the namespace allows to read pods.
    pub(crate) async fn become_reader(&mut self) -> Result<(), Failure> {
        let group = "rbac.authorization.k8s.io";
        let roles = format!("{RBAC}/namespaces/{}", self.namespace);
        let rules = json!([{"verbs": ["get", "list", "watch"], "apiGroups": [""], "resources": ["pods"]}]);
        let account = json!({"kind": "ServiceAccount", "name": READER, "namespace": self.namespace});
        let objects = [
            (self.path("serviceaccounts"), json!({"metadata": {"name": READER}})),
            (
                format!("{roles}/roles"),
                json!({"metadata": {"name": READER}, "rules": rules}),
            ),
            (
                format!("{roles}/rolebindings"),
                json!({
                    "metadata": {"name": READER},
                    "roleRef": {"apiGroup": group, "kind": "Role", "name": READER},
                    "subjects": [account],
                }),
            ),
        ];
        let mut admin = Session::open(&self.target).await?;
        for (path, object) in objects {
            admin
                .expect(&Call::post(path, object.to_string()), StatusCode::CREATED)
                .await?;
        }
        let path = format!("{}/{READER}/token", self.path("serviceaccounts"));
        let call = Call::post(path, json!({"spec": {}}).to_string());
        let answer = admin.expect(&call, StatusCode::CREATED).await?;
        let answer: Value = serde_json::from_slice(&answer).unwrap_or_default();
        let token = answer["status"]["token"].as_str().unwrap_or_default();
        let header = HeaderValue::from_str(&format!("Bearer {token}"));
        let mut header = header.map_err(|_| Failure::Wrong("the token is none".to_owned()))?;
        header.set_sensitive(true);
        self.target.authorization = Some(header);
        Ok(())
    }

    /// Gets of pods, as in the row of that name; the pods must be there.
    pub(crate) async fn gets(&self) -> Result<Measured, Failure> {
        let (measured, _) = get::load(self, "", JSON_TYPE).await?;
        Ok(measured)
    }

    /// Creates of all pods of a run.
    pub(crate) async fn create_pods(&self) -> Result<Measured, Failure> {
        create::create(self, "pods", WRITERS, Limit::Times(self.sizes.pods), &objects::pod).await
    }
}
