//! `DefaultStorageClass` and `DefaultIngressClass`: claims and ingresses without a class get the default one
//! (`plugin/pkg/admission/storage/storageclass/setdefault`, `…/network/defaultingressclass`).

use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::Value;
use trireme_machinery::ApiError;
use trireme_registry::{Admission, Attributes, Operation, WriteRequest};

use crate::{
    attributes::{annotation, forbidden, is_write_of},
    object_lookup::ObjectLookup,
};

/// The annotations of the names of classes, before there was a field for them.
const STORAGE_CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
const INGRESS_CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";

/// The plugins differ in these.
struct Defaulted {
    group: &'static str,
    resource: &'static str,
    field: &'static str,
    annotation: &'static str,
    /// Annotations of a class by which it is the default.
    marks: &'static [&'static str],
}

/// `DefaultStorageClass` or `DefaultIngressClass`.
pub(crate) struct DefaultClass {
    defaulted: Defaulted,
    classes: ObjectLookup,
}

impl DefaultClass {
    /// `DefaultStorageClass`, with the storage classes that there are.
    pub(crate) fn of_claims(classes: ObjectLookup) -> Self {
        let defaulted = Defaulted {
            group: "",
            resource: "persistentvolumeclaims",
            field: "storageClassName",
            annotation: STORAGE_CLASS_ANNOTATION,
            marks: &[
                "storageclass.kubernetes.io/is-default-class",
                "storageclass.beta.kubernetes.io/is-default-class",
            ],
        };
        Self { defaulted, classes }
    }

    /// `DefaultIngressClass`, with the ingress classes that there are.
    pub(crate) fn of_ingresses(classes: ObjectLookup) -> Self {
        let defaulted = Defaulted {
            group: "networking.k8s.io",
            resource: "ingresses",
            field: "ingressClassName",
            annotation: INGRESS_CLASS_ANNOTATION,
            marks: &["ingressclass.kubernetes.io/is-default-class"],
        };
        Self { defaulted, classes }
    }

    async fn set(&self, attributes: &mut Attributes) -> Result<(), ApiError> {
        let Defaulted {
            field,
            annotation: key,
            marks,
            ..
        } = self.defaulted;
        let has_class = attributes.object.as_ref().is_none_or(|object| {
            let named = object.get("spec").and_then(|spec| spec.get(field));
            named.is_some_and(|name| !name.is_null()) || annotation(object, key).is_some()
        });
        if has_class {
            return Ok(());
        }
        let classes = self.classes.list("").await;
        let classes = classes.map_err(|error| forbidden(attributes, error))?;
        let spec = attributes.object.as_mut().and_then(|object| object.get_mut("spec"));
        let (Some(name), Some(Value::Object(spec))) = (newest_default(&classes, marks), spec) else {
            return Ok(());
        };
        spec.insert(field.to_owned(), name.into());
        Ok(())
    }
}

/// The name of the newest class that is marked, the first by name among equally old ones.
fn newest_default(classes: &[Value], marks: &[&str]) -> Option<String> {
    let text = |class: &Value, field: &str| {
        let text = class.get("metadata").and_then(|metadata| metadata.get(field)?.as_str());
        text.unwrap_or_default().to_owned()
    };
    let marked = classes
        .iter()
        .filter(|class| marks.iter().any(|mark| annotation(class, mark) == Some("true")));
    // Times are of one length and zone, so that they sort as texts.
    let newest = marked.min_by_key(|class| (std::cmp::Reverse(text(class, "creationTimestamp")), text(class, "name")));
    newest.map(|class| text(class, "name"))
}

impl Admission for DefaultClass {
    fn handles(&self, request: &WriteRequest) -> bool {
        is_write_of(
            request,
            self.defaulted.group,
            self.defaulted.resource,
            &[Operation::Create],
        )
    }

    fn mutate<'a>(&'a self, attributes: &'a mut Attributes) -> BoxFuture<'a, Result<(), ApiError>> {
        self.set(attributes).boxed()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn class(name: &str, created: &str, mark: &str, value: &str) -> Value {
        json!({ "metadata": { "name": name, "creationTimestamp": created, "annotations": { mark: value } } })
    }

    #[test]
    fn the_newest_default_wins_then_the_first_name() {
        let old = class("z", "2026-01-01T00:00:00Z", "m", "true");
        let new = class("y", "2026-01-02T00:00:00Z", "m", "true");
        let twin = class("b", "2026-01-02T00:00:00Z", "n", "true");
        let marks = &["m", "n"];
        assert_eq!(newest_default(&[old.clone(), new.clone()], marks).as_deref(), Some("y"));
        assert_eq!(newest_default(&[new, old, twin], marks).as_deref(), Some("b"));
        let no = class("a", "2026-01-02T00:00:00Z", "m", "True");
        assert_eq!(newest_default(&[no], marks), None, "the value is taken literally");
    }
}
