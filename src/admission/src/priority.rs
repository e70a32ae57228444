//! `Priority`: the priority of a pod or a PodGroup comes from its class, and one class is the default (`plugin/pkg/admission/priority`).

use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::{Value, json};
use trireme_machinery::ApiError;
use trireme_registry::{Admission, Attributes, Operation, WriteRequest};

use crate::{
    attributes::{forbidden, is_write_of},
    object_lookup::ObjectLookup,
};

const GROUP: &str = "scheduling.k8s.io";
const WRITES: [Operation; 2] = [Operation::Create, Operation::Update];
const DEFAULT_POLICY: &str = "PreemptLowerPriority";

/// The plugin.
pub(crate) struct Priority {
    classes: ObjectLookup,
    /// PodGroups have a priority.
    of_groups: bool,
}

/// The priority that a class gives.
struct ClassPriority {
    class: String,
    value: i64,
    policy: Option<String>,
}

impl ClassPriority {
    fn by(class: &Value) -> Self {
        Self {
            class: name(class).to_owned(),
            value: value(class),
            policy: class.get("preemptionPolicy").and_then(Value::as_str).map(str::to_owned),
        }
    }
}

impl Priority {
    /// Looks at these priority classes, for PodGroups, too, if `of_groups`.
    pub(crate) fn new(classes: ObjectLookup, of_groups: bool) -> Self {
        Self { classes, of_groups }
    }

    async fn mutate_group(&self, attributes: &mut Attributes) -> Result<(), ApiError> {
        let spec = attributes.object.as_ref().and_then(|group| group.get("spec"));
        let text = |field: &str| spec.and_then(|spec| spec.get(field)).and_then(Value::as_str);
        let class = text("priorityClassName").unwrap_or_default().to_owned();
        let own = spec.and_then(|spec| spec.get("priority")).and_then(Value::as_i64);
        let given = self.given(attributes, &class).await?;
        if let Some(own) = own.filter(|own| *own != given.value) {
            let why = format!(
                "priority set in the pod group ({own}) must match the priority computed ({}) based on the priority class \
                 set in the spec",
                given.value
            );
            return Err(forbidden(attributes, why));
        }
        if let Some(spec) = attributes.object.as_mut().and_then(|group| group.get_mut("spec")) {
            if !given.class.is_empty() {
                put(spec, "priorityClassName", given.class.into());
            }
            put(spec, "priority", given.value.into());
        }
        Ok(())
    }

    fn is_of_group(&self, request: &WriteRequest) -> bool {
        self.of_groups && is_write_of(request, GROUP, "podgroups", &[Operation::Create])
    }

    async fn mutate_pod(&self, attributes: &mut Attributes) -> Result<(), ApiError> {
        let old = attributes.old_object.clone();
        let Some(spec) = attributes.object.as_mut().and_then(|pod| pod.get_mut("spec")) else {
            return Ok(());
        };
        if let Some(old) = old {
            for field in ["priority", "preemptionPolicy"] {
                let before = old.get("spec").and_then(|spec| spec.get(field));
                if let (None, Some(before)) = (spec.get(field), before) {
                    put(spec, field, before.clone());
                }
            }
            return Ok(());
        }
        let class = spec
            .get("priorityClassName")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        let given = self.given(attributes, &class).await?;
        let spec = attributes.object.as_ref().and_then(|pod| pod.get("spec"));
        check(attributes, spec.unwrap_or(&Value::Null), &given)?;
        if let Some(spec) = attributes.object.as_mut().and_then(|pod| pod.get_mut("spec")) {
            if !given.class.is_empty() {
                put(spec, "priorityClassName", given.class.into());
            }
            put(spec, "priority", given.value.into());
            if let Some(policy) = given.policy {
                put(spec, "preemptionPolicy", policy.into());
            }
        }
        Ok(())
    }

    async fn given(&self, attributes: &Attributes, class: &str) -> Result<ClassPriority, ApiError> {
        if !class.is_empty() {
            let found = self.classes.find("", class).await?;
            let missing = || forbidden(attributes, format_args!("no PriorityClass with name {class} was found"));
            return found.as_ref().map(ClassPriority::by).ok_or_else(missing);
        }
        let default = self.default_class().await?;
        Ok(default.as_ref().map_or_else(
            || ClassPriority {
                class: String::new(),
                value: 0,
                policy: Some(DEFAULT_POLICY.to_owned()),
            },
            ClassPriority::by,
        ))
    }

    /// The default class; the one of the least value while there are several.
    async fn default_class(&self) -> Result<Option<Value>, ApiError> {
        let classes = self.classes.list("").await?;
        let defaults = classes.iter().filter(|class| is_default(class));
        Ok(defaults.min_by_key(|class| value(class)).cloned())
    }

    async fn validate_class(&self, attributes: &Attributes) -> Result<(), ApiError> {
        let Some(class) = attributes.object.as_ref().filter(|class| is_default(class)) else {
            return Ok(());
        };
        let Some(default) = self.default_class().await? else {
            return Ok(());
        };
        let default = name(&default);
        if attributes.operation == Operation::Update && default == name(class) {
            return Ok(());
        }
        let why = format!("PriorityClass {default} is already marked as default. Only one default can exist");
        Err(forbidden(attributes, why))
    }
}

/// Holds the numbers in the pod against those of the class.
fn check(attributes: &Attributes, spec: &Value, given: &ClassPriority) -> Result<(), ApiError> {
    let own = spec.get("priority").and_then(Value::as_i64);
    if let Some(own) = own.filter(|own| *own != given.value) {
        let why = format!(
            "the integer value of priority ({own}) must not be provided in pod spec; \
             priority admission controller computed {} from the given PriorityClass name",
            given.value
        );
        return Err(forbidden(attributes, why));
    }
    let own = spec.get("preemptionPolicy").and_then(Value::as_str);
    if let (Some(own), Some(policy)) = (own, given.policy.as_deref())
        && own != policy
    {
        let why = format!(
            "the string value of PreemptionPolicy ({own}) must not be provided in pod spec; \
             priority admission controller computed {policy} from the given PriorityClass name"
        );
        return Err(forbidden(attributes, why));
    }
    Ok(())
}

fn put(spec: &mut Value, field: &str, value: Value) {
    if let Some(spec) = spec.as_object_mut() {
        spec.insert(field.to_owned(), value);
    }
}

fn name(class: &Value) -> &str {
    class
        .pointer("/metadata/name")
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn value(class: &Value) -> i64 {
    class.get("value").and_then(Value::as_i64).unwrap_or_default()
}

fn is_default(class: &Value) -> bool {
    class.get("globalDefault") == Some(&json!(true))
}

impl Admission for Priority {
    fn handles(&self, request: &WriteRequest) -> bool {
        is_write_of(request, "", "pods", &WRITES)
            || is_write_of(request, GROUP, "priorityclasses", &WRITES)
            || self.is_of_group(request)
    }

    fn mutate<'a>(&'a self, attributes: &'a mut Attributes) -> BoxFuture<'a, Result<(), ApiError>> {
        if is_write_of(attributes, "", "pods", &WRITES) {
            self.mutate_pod(attributes).boxed()
        } else if self.is_of_group(attributes) {
            self.mutate_group(attributes).boxed()
        } else {
            async { Ok(()) }.boxed()
        }
    }

    fn validate<'a>(&'a self, attributes: &'a Attributes) -> BoxFuture<'a, Result<(), ApiError>> {
        if is_write_of(attributes, GROUP, "priorityclasses", &WRITES) {
            self.validate_class(attributes).boxed()
        } else {
            async { Ok(()) }.boxed()
        }
    }
}
