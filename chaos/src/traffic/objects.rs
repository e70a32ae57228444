//! The objects that clients write, and what a write leaves in them for the later check.
//!
//! Every write carries its own attempt id and, in `payload`, random text: the object in the store, in a list or in an
//! event says by itself which write it is of.

use rand::Rng;
use serde_json::{Value, json};
use trireme_http::client::Method;

use super::wire::Call;
use crate::history::Key;

/// The namespaces of the traffic; lists and watches are over one of them or over both.
pub(crate) const NAMESPACES: [&str; 2] = ["chaos-a", "chaos-b"];
/// The annotation with the id of the write.
pub(crate) const ATTEMPT: &str = "chaos.trireme.example/attempt";
/// The annotation with random text.
pub(crate) const PAYLOAD: &str = "chaos.trireme.example/payload";
/// The annotation that counters count in.
pub(crate) const COUNT: &str = "chaos.trireme.example/count";
/// The label by which an object enters and leaves selectors.
pub(crate) const COLOUR: &str = "colour";
/// The values of that label.
pub(crate) const COLOURS: [&str; 3] = ["red", "green", "blue"];
/// The label of the objects that a client deletes together.
pub(crate) const BATCH: &str = "batch";
/// Most of the random text in an object.
const PAYLOAD_BYTES: usize = 600;

/// The resources that are written; neither is touched by any controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Resource {
    /// `configmaps`
    ConfigMaps,
    /// `podtemplates`
    PodTemplates,
}

impl Resource {
    /// Both.
    pub(crate) const ALL: [Self; 2] = [Self::ConfigMaps, Self::PodTemplates];

    /// The name in paths and keys.
    pub(crate) fn plural(self) -> &'static str {
        match self {
            Self::ConfigMaps => "configmaps",
            Self::PodTemplates => "podtemplates",
        }
    }

    /// The path of the collection, in one namespace or in all.
    pub(crate) fn collection(self, namespace: Option<&str>) -> String {
        match namespace {
            Some(namespace) => format!("/api/v1/namespaces/{namespace}/{}", self.plural()),
            None => format!("/api/v1/{}", self.plural()),
        }
    }

    /// The collection as histories name it.
    pub(crate) fn key(self, namespace: Option<&str>) -> Key {
        Key {
            resource: self.plural().to_owned(),
            namespace: namespace.unwrap_or_default().to_owned(),
            name: String::new(),
        }
    }
}

/// The place of an object.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ObjectPath {
    pub(crate) resource: Resource,
    pub(crate) namespace: &'static str,
    pub(crate) name: String,
}

impl ObjectPath {
    /// Its URL path.
    pub(crate) fn path(&self) -> String {
        format!("{}/{}", self.resource.collection(Some(self.namespace)), self.name)
    }

    /// The object as histories name it.
    pub(crate) fn key(&self) -> Key {
        Key {
            name: self.name.clone(),
            ..self.resource.key(Some(self.namespace))
        }
    }
}

/// The changes that a write makes, beside its attempt id.
#[derive(Debug, Clone)]
pub(crate) struct ObjectEdit {
    pub(crate) attempt: String,
    pub(crate) payload: String,
    pub(crate) colour: &'static str,
    pub(crate) batch: Option<String>,
    /// Only counters have one.
    pub(crate) count: Option<u64>,
}

impl ObjectEdit {
    /// Random text and colour for this attempt.
    pub(crate) fn draw(rng: &mut impl Rng, attempt: String) -> Self {
        let length = rng.random_range(1..=PAYLOAD_BYTES);
        let letter = |rng: &mut _| char::from(Rng::random_range(rng, b'a'..=b'z'));
        Self {
            attempt,
            payload: (0..length).map(|_| letter(rng)).collect(),
            colour: COLOURS[rng.random_range(0..COLOURS.len())],
            batch: None,
            count: None,
        }
    }

    fn labels(&self) -> Value {
        match &self.batch {
            Some(batch) => json!({ COLOUR: self.colour, BATCH: batch }),
            None => json!({ COLOUR: self.colour }),
        }
    }

    fn annotations(&self) -> Value {
        let mut annotations = json!({ ATTEMPT: self.attempt, PAYLOAD: self.payload });
        if let Some(count) = self.count {
            annotations[COUNT] = count.to_string().into();
        }
        annotations
    }

    /// The whole object.
    pub(crate) fn object(&self, place: &ObjectPath) -> Value {
        let metadata = json!({
            "name": place.name, "namespace": place.namespace,
            "labels": self.labels(), "annotations": self.annotations(),
        });
        match place.resource {
            Resource::ConfigMaps => json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}),
            Resource::PodTemplates => json!({
                "apiVersion": "v1", "kind": "PodTemplate", "metadata": metadata,
                "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}},
            }),
        }
    }

    /// `POST`.
    pub(crate) fn create(&self, place: &ObjectPath) -> Call {
        let path = place.resource.collection(Some(place.namespace));
        Call::with_body(Method::POST, path, JSON, self.object(place).to_string())
    }

    /// `PUT` over the state that has this resourceVersion.
    pub(crate) fn update(&self, place: &ObjectPath, over: &str) -> Call {
        let mut object = self.object(place);
        object["metadata"]["resourceVersion"] = over.into();
        Call::with_body(Method::PUT, place.path(), JSON, object.to_string())
    }

    /// A JSON merge patch; of the state that has this resourceVersion, if one is given.
    pub(crate) fn merge_patch(&self, place: &ObjectPath, over: Option<&str>) -> Call {
        let mut metadata = json!({ "labels": {COLOUR: self.colour}, "annotations": self.annotations() });
        if let Some(over) = over {
            metadata["resourceVersion"] = over.into();
        }
        let body = json!({ "metadata": metadata }).to_string();
        Call::with_body(Method::PATCH, place.path(), "application/merge-patch+json", body)
    }

    /// A JSON patch; with a test of the counter, so that two that count from one number cannot both succeed.
    pub(crate) fn json_patch(&self, place: &ObjectPath, counted_from: Option<u64>) -> Call {
        let at = |annotation: &str| format!("/metadata/annotations/{}", annotation.replace('/', "~1"));
        let mut patch = vec![
            json!({"op": "replace", "path": at(ATTEMPT), "value": self.attempt}),
            json!({"op": "replace", "path": at(PAYLOAD), "value": self.payload}),
            json!({"op": "replace", "path": format!("/metadata/labels/{COLOUR}"), "value": self.colour}),
        ];
        if let (Some(from), Some(count)) = (counted_from, self.count) {
            patch.push(json!({"op": "test", "path": at(COUNT), "value": from.to_string()}));
            patch.push(json!({"op": "replace", "path": at(COUNT), "value": count.to_string()}));
        }
        let body = Value::from(patch).to_string();
        Call::with_body(Method::PATCH, place.path(), "application/json-patch+json", body)
    }
}

const JSON: &str = "application/json";

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;
    use rand::rngs::StdRng;

    use super::*;

    #[test]
    fn one_seed_gives_one_change() {
        let draw = || ObjectEdit::draw(&mut StdRng::seed_from_u64(7), "a-1".to_owned());
        assert_eq!(draw().payload, draw().payload);
        assert_eq!(draw().colour, draw().colour);
    }

    #[test]
    fn a_write_says_which_it_is() {
        let place = ObjectPath {
            resource: Resource::ConfigMaps,
            namespace: NAMESPACES[0],
            name: "k".to_owned(),
        };
        let change = ObjectEdit::draw(&mut StdRng::seed_from_u64(7), "a-1".to_owned());
        for call in [
            change.create(&place),
            change.update(&place, "5"),
            change.merge_patch(&place, None),
            change.json_patch(&place, Some(0)),
        ] {
            let (_, body) = call.body.expect("a body");
            assert!(String::from_utf8_lossy(&body).contains("a-1"), "{}", call.path);
        }
    }
}
