//! Keeps the namespaces that every cluster has (`start-system-namespaces-controller`).

use serde_json::json;
use trireme_cluster::{Duty, HeldLease};
use trireme_machinery::{ApiError, Reason};
use trireme_registry::{
    RegistryHandle,
    request::{Body, BodyFormat, CreateRequest, Freshness, GetRequest, Target, UserInfo, WriteOptions},
};

const NAMES: [&str; 4] = ["kube-system", "kube-public", "kube-node-lease", "default"];

/// The duty. [`run`](Self::run) is level-triggered: it looks at what is there and makes what is missing.
pub struct SystemNamespaces {
    namespaces: RegistryHandle,
}

impl SystemNamespaces {
    /// The duty's name.
    pub const DUTY: Duty = Duty::named("system-namespaces");

    /// Works on the namespaces' registry.
    pub fn new(namespaces: RegistryHandle) -> Self {
        Self { namespaces }
    }

    /// Makes the namespaces that are missing. Only the holder of the lease can call it.
    pub async fn run(&self, _lease: &HeldLease) -> Result<(), ApiError> {
        for name in NAMES {
            let target = Target {
                name: name.to_owned(),
                user: user(),
                ..Target::default()
            };
            match self
                .namespaces
                .get(GetRequest {
                    target,
                    freshness: Freshness::Latest,
                })
                .await
            {
                Err(error) if error.reason == Reason::NotFound => self.create(name).await?,
                Err(error) => return Err(error),
                Ok(_) => {}
            }
        }
        Ok(())
    }

    async fn create(&self, name: &str) -> Result<(), ApiError> {
        let object = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
        let body = Body {
            bytes: object.to_string().into(),
            format: BodyFormat::Json,
        };
        let target = Target {
            user: user(),
            ..Target::default()
        };
        let request = CreateRequest {
            target,
            body,
            options: WriteOptions::default(),
        };
        match self.namespaces.create(request).await {
            Err(error) if error.reason == Reason::AlreadyExists => Ok(()),
            Err(error) => Err(error),
            Ok(_) => {
                tracing::info!(namespace = name, "created a system namespace");
                Ok(())
            }
        }
    }
}

/// Whom the server's own writes are by (`system:apiserver`).
fn user() -> UserInfo {
    UserInfo {
        name: "system:apiserver".into(),
        groups: vec!["system:masters".into()],
        ..UserInfo::default()
    }
}
