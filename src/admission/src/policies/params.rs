//! The parameters that a binding names (`CollectParams` of `k8s.io/apiserver/pkg/admission/plugin/policy/generic`).

use std::time::Instant;

use serde_json::Value;
use trireme_machinery::{ApiError, Reason};
use trireme_registry::{
    PublishedSurface, RegistryHandle,
    request::{Freshness, GetRequest, ListOptions, ListRequest, Selection, Target},
    versions,
};

use super::policy::{Binding, ParamKind, ParamRef};

/// The reason that there are no parameters.
pub(super) enum ParamError {
    /// The policy names no kind that is served.
    Policy(String),
    /// The binding names none.
    Binding(String),
}

/// The request that parameters are for.
#[derive(Clone, Copy)]
pub(super) struct ParamScope<'a> {
    pub(super) surface: &'a PublishedSurface,
    /// The namespace of the request.
    pub(super) namespace: &'a str,
    pub(super) deadline: Option<Instant>,
}

impl ParamScope<'_> {
    /// The objects with which the policy is evaluated, once each; `Null` if it is evaluated without.
    ///
    /// # Errors
    /// If there are none, and the binding does not allow that.
    pub(super) async fn collect(&self, kind: Option<&ParamKind>, binding: &Binding) -> Result<Vec<Value>, ParamError> {
        let Some(kind) = kind else {
            return Ok(vec![Value::Null]);
        };
        let mut registry = self.registry(kind)?;
        let Some(reference) = &binding.params else {
            return Ok(vec![Value::Null]);
        };
        let found = loop {
            match self.find(&registry, kind, reference).await {
                // Its successor knows.
                Err(_) if registry.is_superseded() => registry = self.registry(kind)?,
                found => break found.map_err(ParamError::Binding)?,
            }
        };
        if found.is_empty() && reference.denies_without {
            let text = "no params found for policy binding with `Deny` parameterNotFoundAction";
            return Err(ParamError::Binding(text.to_owned()));
        }
        Ok(found)
    }

    /// The registry of a kind.
    fn registry(&self, kind: &ParamKind) -> Result<RegistryHandle, ParamError> {
        let surface = self.surface.load();
        let registry = surface
            .as_ref()
            .and_then(|surface| surface.of_kind(&kind.version, &kind.kind));
        registry.cloned().ok_or_else(|| {
            let (version, group, kind) = (&kind.version.version, &kind.version.group, &kind.kind);
            ParamError::Policy(format!(
                "failed to find resource referenced by paramKind: '{group}/{version}, Kind={kind}'"
            ))
        })
    }

    async fn find(
        &self,
        registry: &RegistryHandle,
        kind: &ParamKind,
        reference: &ParamRef,
    ) -> Result<Vec<Value>, String> {
        let info = registry.current();
        let namespace = if info.namespaced {
            let namespace = Some(reference.namespace.as_str()).filter(|namespace| !namespace.is_empty());
            namespace.unwrap_or(self.namespace)
        } else if reference.namespace.is_empty() {
            ""
        } else {
            return Err("paramRef.namespace must not be provided for a cluster-scoped `paramKind`".to_owned());
        };
        if info.namespaced && namespace.is_empty() {
            let text = "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources";
            return Err(text.to_owned());
        }
        let target = Target {
            namespace: namespace.to_owned(),
            name: reference.name.clone(),
            deadline: self.deadline,
            ..Target::default()
        };
        let items = match (&reference.selector, reference.name.is_empty()) {
            (None, false) => get(registry, target).await.map_err(|error| error.message)?,
            (Some(selector), true) => {
                let request = ListRequest {
                    target,
                    selection: Selection {
                        labels: selector.clone()?,
                        ..Selection::default()
                    },
                    options: ListOptions {
                        freshness: Freshness::Any,
                        ..ListOptions::default()
                    },
                };
                registry.list(request).await.map_err(|error| error.message)?.items
            }
            (Some(_), false) => return Err("paramRef.name and paramRef.selector are mutually exclusive".to_owned()),
            (None, true) => return Err("one of name or selector must be provided".to_owned()),
        };
        let version = info.version_index(&kind.version).unwrap_or(info.storage_version);
        let items = versions::in_version(&info, items, version)
            .await
            .map_err(|error| error.message)?;
        Ok(items
            .iter()
            .map(|item| versions::object_value(&info, item, version))
            .collect())
    }
}

/// The object as the watch cache has it, or if it is not there yet, as it is now.
async fn get(
    registry: &RegistryHandle,
    target: Target,
) -> Result<Vec<std::sync::Arc<trireme_registry::Item>>, ApiError> {
    for freshness in [Freshness::Any, Freshness::Latest] {
        let target = target.clone();
        match registry.get(GetRequest { target, freshness }).await {
            Ok(item) => return Ok(vec![item]),
            Err(error) if error.reason == Reason::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Vec::new())
}
