//! `PolicyParameterAccess`: who writes an admission policy with parameters, or binds one to them, may read these
//! (`authz.go` of the four registries in `pkg/registry/admissionregistration`). The messages of a policy can show what is in
//! its parameters.

use std::sync::Arc;

use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::Value;
use trireme_machinery::{
    ApiError, GroupKind, GroupVersion,
    field::{Error, Path},
};
use trireme_registry::{
    Admission, Attributes, Operation, PublishedSurface, WriteRequest,
    request::{Subresource, UserInfo},
};

use crate::{
    object_lookup::ObjectLookup,
    permissions::{PermissionRequest, Permissions},
    policies::is_of_policies,
};

const GROUP: &str = "admissionregistration.k8s.io";
/// May do everything.
const MASTERS: &str = "system:masters";
/// All of a kind that is not known, in an authorizer's words.
const ANY: &str = "*";

/// The check.
pub struct PolicyParameterAccess {
    permissions: Arc<dyn Permissions>,
    surface: PublishedSurface,
    validating: ObjectLookup,
    mutating: ObjectLookup,
}

/// The resource of parameters, as far as it is known.
struct ParamResource {
    version: Option<GroupVersion>,
    plural: Option<String>,
}

impl ParamResource {
    /// The step that failed to find the resource of this kind, in kube-apiserver's words.
    fn unknown_as(&self, param_kind: &Value) -> Option<String> {
        let step = match (&self.version, &self.plural) {
            (None, _) => "parse",
            (Some(_), None) => "resolve",
            (Some(_), Some(_)) => return None,
        };
        let (version, kind) = (text(param_kind, "apiVersion"), text(param_kind, "kind"));
        Some(format!("{step} paramKind &{{{version} {kind}}}"))
    }
}

impl PolicyParameterAccess {
    /// Asks these authorizers about the kinds of this surface.
    pub fn new(permissions: Arc<dyn Permissions>, surface: &PublishedSurface) -> Self {
        let policies = |plural| ObjectLookup::new(surface.resource(GROUP, "v1", plural));
        Self {
            permissions,
            surface: surface.clone(),
            validating: policies("validatingadmissionpolicies"),
            mutating: policies("mutatingadmissionpolicies"),
        }
    }

    async fn check(&self, attributes: &Attributes) -> Result<(), ApiError> {
        let Some(new) = &attributes.object else {
            return Ok(());
        };
        let (user, old) = (&attributes.context.user, attributes.old_object.as_deref());
        if user.groups.iter().any(|group| group == MASTERS) {
            return Ok(());
        }
        let refusal = match &*attributes.resource.resource {
            "validatingadmissionpolicies" | "mutatingadmissionpolicies" => self.of_policy(user, new, old).await,
            "validatingadmissionpolicybindings" => self.of_binding(user, new, old, &self.validating).await,
            _ => self.of_binding(user, new, old, &self.mutating).await,
        };
        let Some(error) = refusal else { return Ok(()) };
        let kind = GroupKind {
            group: attributes.kind.group.clone(),
            kind: attributes.kind.kind.clone(),
        };
        Err(ApiError::invalid(&kind, &attributes.name, &vec![error]))
    }

    async fn of_policy(&self, user: &UserInfo, new: &Value, old: Option<&Value>) -> Option<Error> {
        let param_kind = new.pointer("/spec/paramKind")?;
        if old.and_then(|old| old.pointer("/spec/paramKind")) == Some(param_kind) {
            return None;
        }
        let access = (ANY, ANY);
        if self.may(user, "get", &self.resource(Some(param_kind)), access).await {
            return None;
        }
        let detail = format!(
            "user {} must have \"get\" permission on all objects of the referenced paramKind (kind={}, apiVersion={})",
            shown(user),
            text(param_kind, "kind"),
            text(param_kind, "apiVersion"),
        );
        Some(Error::forbidden(&Path::new("spec.paramKind"), &detail))
    }

    /// kube-apiserver compares references by the addresses of their parts, so that it asks again at each update.
    async fn of_binding(
        &self,
        user: &UserInfo,
        new: &Value,
        old: Option<&Value>,
        policies: &ObjectLookup,
    ) -> Option<Error> {
        let param_ref = new.pointer("/spec/paramRef")?;
        let policy_name = |binding: &Value| text(&binding["spec"], "policyName").to_owned();
        let is_unchanged =
            |old: &Value| old.pointer("/spec/paramRef") == Some(param_ref) && policy_name(old) == policy_name(new);
        if old.is_some_and(is_unchanged) {
            return None;
        }
        let policy = policies.find("", &policy_name(new)).await.ok().flatten();
        let param_kind = policy.as_ref().and_then(|policy| policy.pointer("/spec/paramKind"));
        let resource = self.resource(param_kind);
        let (namespace, name) = (text(param_ref, "namespace"), text(param_ref, "name"));
        let verb = if name.is_empty() { "list" } else { "get" };
        if self.may(user, verb, &resource, (namespace, name)).await {
            return None;
        }
        let unknown = match (&policy, param_kind) {
            (None, _) => Some(format!("get policy {}", policy_name(new))),
            (_, Some(param_kind)) => resource.unknown_as(param_kind),
            (Some(_), None) => None,
        };
        let user = shown(user);
        let detail = match unknown {
            Some(what) => format!(
                "unable to {what} to determine minimum required permissions and user {user} does not have \"{verb}\" \
                 permission for all groups, versions and resources"
            ),
            None => format!("user {user} does not have \"{verb}\" permission on the object referenced by paramRef"),
        };
        Some(Error::forbidden(&Path::new("spec.paramRef"), &detail))
    }

    /// The resource of a kind; any, as far as it is not known.
    fn resource(&self, param_kind: Option<&Value>) -> ParamResource {
        let version = param_kind.and_then(|kind| GroupVersion::parse(text(kind, "apiVersion")));
        let plural = version
            .as_ref()
            .zip(param_kind)
            .and_then(|(version, param_kind)| self.surface.resource_of_kind(version, text(param_kind, "kind")));
        let plural = plural.map(|(plural, _)| plural.to_string());
        ParamResource { version, plural }
    }

    async fn may(
        &self,
        user: &UserInfo,
        verb: &str,
        resource: &ParamResource,
        (namespace, name): (&str, &str),
    ) -> bool {
        let access = PermissionRequest {
            user,
            verb,
            group: resource.version.as_ref().map_or(ANY, |version| &version.group),
            version: resource.version.as_ref().map_or(ANY, |version| &version.version),
            resource: resource.plural.as_deref().unwrap_or(ANY),
            subresource: "",
            namespace,
            name,
        };
        self.permissions.allow(access).await
    }
}

/// The text of a field; empty if there is none.
fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// A user as Go prints its facts.
fn shown(user: &UserInfo) -> String {
    let extra = user
        .extra
        .iter()
        .map(|(key, values)| format!("{key}:[{}]", values.join(" ")));
    let extra: Vec<String> = extra.collect();
    format!(
        "&{{{} {} [{}] map[{}]}}",
        user.name,
        user.uid,
        user.groups.join(" "),
        extra.join(" ")
    )
}

impl Admission for PolicyParameterAccess {
    fn handles(&self, request: &WriteRequest) -> bool {
        is_of_policies(request)
            && request.subresource == Subresource::None
            && matches!(request.operation, Operation::Create | Operation::Update)
    }

    fn validate<'a>(&'a self, attributes: &'a Attributes) -> BoxFuture<'a, Result<(), ApiError>> {
        self.check(attributes).boxed()
    }
}
