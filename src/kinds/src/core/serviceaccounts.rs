//! ServiceAccounts (`pkg/registry/core/serviceaccount`).

mod token;

use serde_json::Value;
use trireme_machinery::Features;
use trireme_registry::{Strategy, WriteContext, subresource::SubresourceRole};

use token::TokenRequest;

use crate::{
    columns,
    kind::Kind,
    settings::TokenIssuer,
    values::{at, items, text},
};

const ENFORCE_MOUNTABLE: &str = "kubernetes.io/enforce-mountable-secrets";

/// The kind's parts.
pub(crate) fn kind(tokens: &TokenIssuer, features: Features) -> Kind {
    let accounts = ServiceAccounts {
        token: TokenRequest {
            issuer: tokens.clone(),
            features,
        },
    };
    Kind::new("", "serviceaccounts", accounts).columns(vec![columns::name(), columns::age()])
}

struct ServiceAccounts {
    token: TokenRequest,
}

impl Strategy for ServiceAccounts {
    fn prepare_for_create(&self, _context: &WriteContext, object: &mut Value) {
        clean_secret_references(object);
    }

    fn prepare_for_update(&self, _context: &WriteContext, new: &mut Value, _old: &Value) {
        clean_secret_references(new);
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let pointer = format!("/metadata/annotations/{}", ENFORCE_MOUNTABLE.replace('/', "~1"));
        let enforced = |object: &Value| at(object, &pointer).is_some();
        if enforced(new) && !old.is_some_and(enforced) {
            return vec![format!(
                "metadata.annotations[{ENFORCE_MOUNTABLE}]: deprecated in v1.32+; prefer separate namespaces to isolate \
                 access to mounted secrets"
            )];
        }
        Vec::new()
    }

    fn subresource(&self, name: &str) -> Option<SubresourceRole<'_>> {
        (name == "token").then_some(SubresourceRole::Create(&self.token))
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }
}

/// Of a reference to a secret only its name counts.
fn clean_secret_references(object: &mut Value) {
    let names: Vec<Value> = items(object, "secrets")
        .iter()
        .map(|secret| match text(secret, "name") {
            "" => serde_json::json!({}),
            name => serde_json::json!({ "name": name }),
        })
        .collect();
    if !names.is_empty() {
        object["secrets"] = names.into();
    }
}
