//! `PodSecurity`: what the pods of a namespace may do is bounded by its labels (`k8s.io/pod-security-admission`,
//! `plugin/pkg/admission/security/podsecurity`).
//!
//! Pods are refused by the level that is enforced; what has pods made of its template only warns. Labels that would refuse
//! pods that are there already warn, too.

mod baseline;
mod checks;
mod configuration;
mod existing;
mod metrics;
mod pod;
mod policy;
mod restricted;

use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::Value;
use trireme_actors::Clock;
use trireme_machinery::{ApiError, GroupKind, field::ErrorList, go_text::quote};
use trireme_registry::{Admission, Attributes, Operation, WriteRequest};

pub(crate) use self::configuration::PodSecurityConfiguration;
use self::{
    checks::Violations,
    existing::ExistingPods,
    metrics::{PodSecurityMetrics, PolicyMode},
    pod::{CheckedPod, items, name},
    policy::{LevelVersion, PREFIX, PodSecurityPolicy, PolicyLevel},
};
use crate::{attributes::forbidden, namespaces::Namespaces, object_lookup::ObjectLookup};

/// The resources that make pods, with the place of their template.
const TEMPLATES: [(&str, &str, &str); 8] = [
    ("", "replicationcontrollers", "/spec/template"),
    ("", "podtemplates", "/template"),
    ("apps", "replicasets", "/spec/template"),
    ("apps", "deployments", "/spec/template"),
    ("apps", "statefulsets", "/spec/template"),
    ("apps", "daemonsets", "/spec/template"),
    ("batch", "jobs", "/spec/template"),
    ("batch", "cronjobs", "/spec/jobTemplate/spec/template"),
];
/// Subresources of pods that do not change what runs.
const IGNORED: [&str; 8] = [
    "exec",
    "attach",
    "binding",
    "eviction",
    "log",
    "portforward",
    "proxy",
    "status",
];

/// The plugin.
pub(crate) struct PodSecurity {
    namespaces: Namespaces,
    existing: ExistingPods,
    configuration: PodSecurityConfiguration,
    metrics: PodSecurityMetrics,
}

/// The kinds of writes that it looks at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SecuredWrite {
    Namespace,
    Pod,
    /// A resource that makes pods of the template at this place.
    Template(&'static str),
}

impl SecuredWrite {
    fn of(request: &WriteRequest) -> Option<Self> {
        let (group, resource) = (&*request.resource.group, &*request.resource.resource);
        let part = request.subresource.name();
        if !matches!(request.operation, Operation::Create | Operation::Update) {
            return None;
        }
        match (group, resource) {
            ("", "pods") => (!IGNORED.contains(&part)).then_some(Self::Pod),
            _ if !part.is_empty() => None,
            ("", "namespaces") => Some(Self::Namespace),
            _ => TEMPLATES
                .iter()
                .find(|(of, name, _)| (*of, *name) == (group, resource))
                .map(|(.., pointer)| Self::Template(pointer)),
        }
    }
}

impl PodSecurity {
    /// Looks at the labels of these namespaces, and at pods if they change.
    pub(crate) fn new(
        namespaces: Namespaces,
        pods: ObjectLookup,
        clock: Clock,
        configuration: PodSecurityConfiguration,
    ) -> Self {
        Self {
            namespaces,
            existing: ExistingPods::new(pods, clock),
            configuration,
            metrics: PodSecurityMetrics::new(),
        }
    }

    async fn check(&self, attributes: &Attributes) -> Result<(), ApiError> {
        let Some((secured, object)) = SecuredWrite::of(attributes).zip(attributes.object.as_ref()) else {
            return Ok(());
        };
        if secured == SecuredWrite::Namespace {
            return self.check_namespace(attributes, object).await;
        }
        let user = &attributes.context.user.name;
        if let Some(reason) = self.configuration.exempt(attributes.namespace(), user) {
            attributes.annotate(format!("{PREFIX}exempt"), reason.to_owned());
            self.metrics.exempt(attributes);
            return Ok(());
        }
        let template = match secured {
            SecuredWrite::Pod => {
                let old = attributes.old_object.as_deref();
                if old.is_some_and(|old| !is_significant(object, old)) {
                    return Ok(());
                }
                Some(object)
            }
            SecuredWrite::Template(pointer) => object.pointer(pointer),
            SecuredWrite::Namespace => None,
        };
        let Some(template) = template else {
            return Ok(());
        };
        if self.configuration.has_exempt_runtime_class(template) {
            attributes.annotate(format!("{PREFIX}exempt"), "runtimeClass".to_owned());
            self.metrics.exempt(attributes);
            return Ok(());
        }
        let namespace = self.namespaces.find(attributes.namespace()).await;
        let namespace = namespace.map_err(|_| {
            self.metrics.failed(attributes, true);
            let name = quote(attributes.namespace());
            ApiError::internal(format!("failed to lookup namespace {name}"))
        })?;
        let (policy, errors) = PodSecurityPolicy::of_labels(self.configuration.defaults, |key| namespace.label(key));
        let pod = CheckedPod::of(template);
        self.evaluate(attributes, pod, secured == SecuredWrite::Pod, &policy, &errors)
    }

    async fn check_namespace(&self, attributes: &Attributes, namespace: &Value) -> Result<(), ApiError> {
        let (policy, errors) = self.policy_of(namespace);
        let old = attributes.old_object.as_deref().map(|old| self.policy_of(old));
        let (old, old_errors) = old.unwrap_or_default();
        if !errors.is_empty() && errors != old_errors {
            let kind = GroupKind {
                group: attributes.kind.group.clone(),
                kind: attributes.kind.kind.clone(),
            };
            return Err(ApiError::invalid(&kind, &attributes.name, &errors));
        }
        if let Some(warning) = self.configuration.ignored(&attributes.name, &policy, namespace) {
            attributes.warn(warning);
            return Ok(());
        }
        let user = &attributes.context.user.name;
        let is_exempt = self.configuration.exempt(&attributes.name, user).is_some();
        if attributes.operation == Operation::Update && !is_exempt && is_stricter(policy.enforce, old.enforce) {
            let counts = |pod: &Value| !self.configuration.has_exempt_runtime_class(pod);
            let warnings = self.existing.violations(&attributes.name, policy.enforce, counts).await;
            warnings.into_iter().for_each(|warning| attributes.warn(warning));
        }
        Ok(())
    }

    /// Holds a pod or a template against the policy.
    fn evaluate(
        &self,
        attributes: &Attributes,
        pod: CheckedPod<'_>,
        enforces: bool,
        policy: &PodSecurityPolicy,
        errors: &ErrorList,
    ) -> Result<(), ApiError> {
        let annotate = |key: &str, value: String| attributes.annotate(format!("{PREFIX}{key}"), value);
        let is_privileged = errors.is_empty() && policy.is_fully_privileged();
        if enforces {
            let level = if is_privileged {
                PodSecurityPolicy::default().enforce
            } else {
                policy.enforce
            };
            annotate("enforce-policy", level.to_string());
        }
        if is_privileged {
            if enforces {
                self.metrics
                    .evaluated(attributes, PolicyMode::Enforce, policy.enforce, true);
            }
            return Ok(());
        }
        if !errors.is_empty() {
            let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
            let errors = trireme_machinery::go_text::aggregate_errors(&errors).unwrap_or_default();
            self.metrics.failed(attributes, false);
            annotate("error", format!("Failed to parse policy: {errors}"));
        }
        let violations = |of: LevelVersion| Violations::of(pod, of);
        let audited = violations(policy.audit);
        if !audited.is_empty() {
            let level = quote(&policy.audit.to_string());
            let text = format!("would violate PodSecurity {level}: {}", audited.details());
            annotate("audit-violations", text);
            self.metrics
                .evaluated(attributes, PolicyMode::Audit, policy.audit, false);
        }
        let enforced = if enforces {
            violations(policy.enforce)
        } else {
            Violations::default()
        };
        if enforces {
            self.metrics
                .evaluated(attributes, PolicyMode::Enforce, policy.enforce, enforced.is_empty());
        }
        if !enforced.is_empty() {
            let level = quote(&policy.enforce.to_string());
            let why = format!("violates PodSecurity {level}: {}", enforced.details());
            return Err(forbidden(attributes, why));
        }
        let warned = violations(policy.warn);
        if !warned.is_empty() {
            let level = quote(&policy.warn.to_string());
            attributes.warn(format!("would violate PodSecurity {level}: {}", warned.details()));
            self.metrics.evaluated(attributes, PolicyMode::Warn, policy.warn, false);
        }
        Ok(())
    }

    fn policy_of(&self, namespace: &Value) -> (PodSecurityPolicy, ErrorList) {
        let labels = namespace.pointer("/metadata/labels");
        PodSecurityPolicy::of_labels(self.configuration.defaults, |key| labels?.get(key)?.as_str())
    }
}

/// Reports whether pods may violate a policy that did not violate the old one.
fn is_stricter(new: LevelVersion, old: LevelVersion) -> bool {
    new != old && new.level != PolicyLevel::Privileged && (new.version != old.version || new.level > old.level)
}

/// Reports whether an update changes what runs in a pod: images, or ephemeral containers.
fn is_significant(pod: &Value, old: &Value) -> bool {
    let list = |of: &'_ Value, field: &str| -> Vec<(String, String)> {
        let containers = items(of.get("spec").unwrap_or(&Value::Null), field);
        let image = |container: &Value| {
            container
                .get("image")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        containers
            .map(|container| (name(container).to_owned(), image(container)))
            .collect()
    };
    let images =
        |of: &Value, field: &str| -> Vec<String> { list(of, field).into_iter().map(|(_, image)| image).collect() };
    let before = list(old, "ephemeralContainers");
    ["containers", "initContainers"]
        .iter()
        .any(|field| images(pod, field) != images(old, field))
        || list(pod, "ephemeralContainers")
            .iter()
            .any(|container| !before.contains(container))
}

impl Admission for PodSecurity {
    fn handles(&self, request: &WriteRequest) -> bool {
        SecuredWrite::of(request).is_some()
    }

    fn validate<'a>(&'a self, attributes: &'a Attributes) -> BoxFuture<'a, Result<(), ApiError>> {
        self.check(attributes).boxed()
    }
}
