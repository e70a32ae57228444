//! `ServiceAccount`: every pod runs as a service account and gets a token of it (`plugin/pkg/admission/serviceaccount`).

mod secrets;
mod token_volume;

use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::{Value, json};
use trireme_actors::Clock;
use trireme_machinery::{ApiError, GroupResource, json};
use trireme_registry::{Admission, Attributes, Operation, WriteRequest};

use crate::{
    attributes::{annotation, forbidden, is_write_of, names},
    object_lookup::ObjectLookup,
};

const DEFAULT: &str = "default";
const MIRROR: &str = "kubernetes.io/config.mirror";
const ENFORCE_MOUNTABLE: &str = "kubernetes.io/enforce-mountable-secrets";
/// The controller that makes the default account of a new namespace may be a moment late.
const ATTEMPTS: u32 = 10;
const PAUSE: std::time::Duration = std::time::Duration::from_millis(150);

/// The plugin.
pub(crate) struct ServiceAccount {
    accounts: ObjectLookup,
    clock: Clock,
}

impl ServiceAccount {
    /// Looks at these service accounts.
    pub(crate) fn new(accounts: ObjectLookup, clock: Clock) -> Self {
        Self { accounts, clock }
    }

    async fn set(&self, attributes: &mut Attributes) -> Result<(), ApiError> {
        if attributes.operation != Operation::Create {
            return Ok(());
        }
        let Some(pod) = attributes.object.as_mut() else {
            return Ok(());
        };
        if annotation(pod, MIRROR).is_some() {
            return secrets::of_mirror_pod(pod).map_err(|why| forbidden(attributes, why));
        }
        let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else {
            return Ok(());
        };
        let named = spec
            .get("serviceAccountName")
            .and_then(Value::as_str)
            .unwrap_or_default();
        if named.is_empty() {
            // The second is the name that the field had before: stored pods have both.
            for field in ["serviceAccountName", "serviceAccount"] {
                spec.insert(field.to_owned(), DEFAULT.into());
            }
        }
        let account = self.account(attributes).await?;
        let Some(spec) = attributes.object.as_mut().and_then(|pod| pod.get_mut("spec")) else {
            return Ok(());
        };
        if mounts_token(&account, spec) {
            token_volume::mount(spec);
        }
        if names(spec, "/imagePullSecrets").is_empty() {
            let secrets: Vec<Value> = names(&account, "/imagePullSecrets")
                .into_iter()
                .map(|name| json!({ "name": name }))
                .collect();
            if let Some(spec) = spec.as_object_mut().filter(|_| !secrets.is_empty()) {
                spec.insert("imagePullSecrets".to_owned(), secrets.into());
            }
        }
        Ok(())
    }

    async fn check(&self, attributes: &Attributes) -> Result<(), ApiError> {
        let Some(pod) = attributes.object.as_ref() else {
            return Ok(());
        };
        if attributes.operation == Operation::Update {
            return self.check_ephemeral(attributes, pod).await;
        }
        if annotation(pod, MIRROR).is_some() {
            return secrets::of_mirror_pod(pod).map_err(|why| forbidden(attributes, why));
        }
        let account = self.account(attributes).await?;
        if enforces_mountable(&account) {
            return secrets::mountable(&account, pod).map_err(|why| forbidden(attributes, why));
        }
        Ok(())
    }

    async fn check_ephemeral(&self, attributes: &Attributes, pod: &Value) -> Result<(), ApiError> {
        let account = self.account(attributes).await?;
        if !enforces_mountable(&account) {
            return Ok(());
        }
        // kube-apiserver answers 500 with this text alone.
        secrets::mountable_by_ephemeral(&account, pod).map_err(|why| forbidden(attributes, why))
    }

    /// The pod's account.
    async fn account(&self, attributes: &Attributes) -> Result<Value, ApiError> {
        let namespace = attributes.target.namespace.as_str();
        let pod = attributes.object.as_ref();
        let name = pod
            .and_then(|pod| json::at(pod, "/spec/serviceAccountName")?.as_str())
            .unwrap_or_default();
        if name.is_empty() {
            let why = format!("no service account specified for pod {namespace}/{}", attributes.name);
            return Err(forbidden(attributes, why));
        }
        let failed = |error| {
            forbidden(
                attributes,
                format_args!("error looking up service account {namespace}/{name}: {error}"),
            )
        };
        for attempt in 1.. {
            if let Some(account) = self.accounts.find(namespace, name).await.map_err(failed)? {
                return Ok(account);
            }
            if name != DEFAULT || attempt == ATTEMPTS {
                break;
            }
            self.clock.sleep(PAUSE).await;
        }
        // Named so by kube-apiserver, without the plural.
        let resource = GroupResource {
            group: "".into(),
            resource: "serviceaccount".into(),
        };
        Err(failed(ApiError::not_found(&resource, name)))
    }
}

/// Reports whether the pod is to get a token; it has more to say than its account.
fn mounts_token(account: &Value, spec: &Value) -> bool {
    let says = |object: &Value| object.get("automountServiceAccountToken").and_then(Value::as_bool);
    says(spec).or_else(|| says(account)).unwrap_or(true)
}

fn enforces_mountable(account: &Value) -> bool {
    let value = annotation(account, ENFORCE_MOUNTABLE);
    // The values that Go's `ParseBool` takes for true.
    value.is_some_and(|value| ["1", "t", "T", "true", "TRUE", "True"].contains(&value))
}

impl Admission for ServiceAccount {
    fn handles(&self, request: &WriteRequest) -> bool {
        is_write_of(request, "", "pods", &[Operation::Create])
            || (&*request.resource.resource == "pods"
                && request.resource.group.is_empty()
                && request.subresource.name() == "ephemeralcontainers"
                && request.operation == Operation::Update)
    }

    fn mutate<'a>(&'a self, attributes: &'a mut Attributes) -> BoxFuture<'a, Result<(), ApiError>> {
        self.set(attributes).boxed()
    }

    fn validate<'a>(&'a self, attributes: &'a Attributes) -> BoxFuture<'a, Result<(), ApiError>> {
        self.check(attributes).boxed()
    }
}
