//! Keeps the ServiceAccount `default` of every namespace (`serviceaccount-controller`).

use serde_json::{Value, json};

use crate::in_namespaces::PerNamespace;

/// The ServiceAccount.
pub struct DefaultServiceAccount;

impl PerNamespace for DefaultServiceAccount {
    const DUTY: &'static str = "serviceaccount-controller";
    const NAME: &'static str = "default";

    fn object(&self) -> Value {
        json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": Self::NAME } })
    }

    fn updated(&self, _: Value) -> Option<Value> {
        None
    }
}
