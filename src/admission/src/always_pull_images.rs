//! `AlwaysPullImages`: no pod runs an image from the node's cache without the right to pull it (`plugin/pkg/admission/alwayspullimages`).

use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::Value;
use trireme_machinery::{ApiError, go_text::aggregate_errors};
use trireme_registry::{Admission, Attributes, Operation, WriteRequest};

use crate::attributes::{forbidden, is_write_of};

const ALWAYS: &str = "Always";
const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// The plugin.
pub(crate) struct AlwaysPullImages;

impl AlwaysPullImages {
    fn set(attributes: &mut Attributes) {
        if !has_new_images(attributes) {
            return;
        }
        let Some(spec) = attributes.object.as_mut().and_then(|pod| pod.get_mut("spec")) else {
            return;
        };
        for list in CONTAINERS {
            for container in items_mut(spec, list) {
                put(container, "imagePullPolicy");
            }
        }
        for image in items_mut(spec, "volumes").filter_map(|volume| volume.get_mut("image")) {
            put(image, "pullPolicy");
        }
    }

    /// Another plugin may have changed what this one set.
    fn check(attributes: &Attributes) -> Result<(), ApiError> {
        if !has_new_images(attributes) {
            return Ok(());
        }
        let spec = attributes.object.as_ref().and_then(|pod| pod.get("spec"));
        let spec = spec.unwrap_or(&Value::Null);
        let mut errors = Vec::new();
        for list in CONTAINERS {
            for (index, container) in items(spec, list).enumerate() {
                let policy = container.get("imagePullPolicy").unwrap_or(&Value::Null);
                errors.extend(unsupported(policy, &format!("spec.{list}[{index}].imagePullPolicy")));
            }
        }
        for (index, volume) in items(spec, "volumes").enumerate() {
            if let Some(image) = volume.get("image") {
                let policy = image.get("pullPolicy").unwrap_or(&Value::Null);
                errors.extend(unsupported(policy, &format!("spec.volumes[{index}].image.pullPolicy")));
            }
        }
        match aggregate_errors(&errors) {
            Some(why) => Err(forbidden(attributes, why)),
            None => Ok(()),
        }
    }
}

fn unsupported(policy: &Value, path: &str) -> Option<String> {
    let policy = policy.as_str().unwrap_or_default();
    (policy != ALWAYS).then(|| format!("{path}: Unsupported value: \"{policy}\": supported values: \"{ALWAYS}\""))
}

fn put(of: &mut Value, field: &str) {
    if let Some(fields) = of.as_object_mut() {
        fields.insert(field.to_owned(), ALWAYS.into());
    }
}

fn items<'v>(spec: &'v Value, list: &str) -> impl Iterator<Item = &'v Value> + use<'v> {
    spec.get(list).and_then(Value::as_array).into_iter().flatten()
}

fn items_mut<'v>(spec: &'v mut Value, list: &str) -> impl Iterator<Item = &'v mut Value> + use<'v> {
    spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten()
}

fn has_new_images(attributes: &Attributes) -> bool {
    let images = |pod: Option<&Value>| -> Vec<String> {
        let spec = pod.and_then(|pod| pod.get("spec")).unwrap_or(&Value::Null);
        let all = CONTAINERS.iter().flat_map(|list| items(spec, list));
        all.filter_map(|container| container.get("image")?.as_str().map(str::to_owned))
            .collect()
    };
    let Some(old) = attributes.old_object.as_deref() else {
        return true;
    };
    let old = images(Some(old));
    images(attributes.object.as_ref())
        .iter()
        .any(|image| !old.contains(image))
}

impl Admission for AlwaysPullImages {
    fn handles(&self, request: &WriteRequest) -> bool {
        is_write_of(request, "", "pods", &[Operation::Create, Operation::Update])
    }

    fn mutate<'a>(&'a self, attributes: &'a mut Attributes) -> BoxFuture<'a, Result<(), ApiError>> {
        Self::set(attributes);
        async { Ok(()) }.boxed()
    }

    fn validate<'a>(&'a self, attributes: &'a Attributes) -> BoxFuture<'a, Result<(), ApiError>> {
        std::future::ready(Self::check(attributes)).boxed()
    }
}
