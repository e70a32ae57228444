//! The versions of a resource as field sets are compared in them.
//!
//! Field sets are pure code and a [`Converter`](crate::Converter) is not, so [`ResourceVersions::evaluate`] runs the code, makes the
//! conversions that it missed, all of one version in one call, and runs it again until none is missing.

use std::cell::RefCell;

use serde_json::Value;
use trireme_machinery::{
    ApiError,
    managed::{FieldSet, ManagedVersions, PathElement, SchemaNode},
};

use super::managed::schema_node;
use crate::{
    definition::{ResourceDefinition, ServedVersion},
    request::Subresource,
    versions,
};

/// The versions of the request's group. Where another group serves the same objects (events), its writers lose what they own,
/// as at kube-apiserver.
pub(super) struct ResourceVersions<'d> {
    definition: &'d ResourceDefinition,
    requested: &'d ServedVersion,
    subresource: Subresource,
    /// The fields of the requested version that the write cannot change.
    reset: FieldSet,
    conversions: RefCell<Conversions<'d>>,
}

/// The conversions that the converter of a resource has made, or is to make.
#[derive(Default)]
struct Conversions<'d> {
    made: Vec<(ObjectConversion<'d>, Value)>,
    missing: Vec<ObjectConversion<'d>>,
}

struct ObjectConversion<'d> {
    object: Value,
    from: &'d ServedVersion,
    to: &'d ServedVersion,
}

impl ObjectConversion<'_> {
    fn is(&self, object: &Value, to: &ServedVersion) -> bool {
        self.to.group_version == to.group_version && self.object == *object
    }

    fn has_versions_of(&self, other: &Self) -> bool {
        self.from.group_version == other.from.group_version && self.to.group_version == other.to.group_version
    }
}

impl<'d> ResourceVersions<'d> {
    pub(super) fn new(
        definition: &'d ResourceDefinition,
        version: &'d ServedVersion,
        subresource: Subresource,
    ) -> Self {
        Self {
            definition,
            requested: version,
            subresource,
            reset: reset_fields(definition, subresource, (version, version)),
            conversions: RefCell::default(),
        }
    }

    fn find(&self, version: &str) -> Option<&'d ServedVersion> {
        let group = &self.requested.group_version.group;
        let mut versions = self.definition.versions.iter();
        versions.find(|served| served.group_version.group == *group && served.group_version.to_string() == version)
    }

    /// The outcome of a computation that has all conversions it needs. It starts from nothing each time that it is called.
    ///
    /// # Errors
    /// Those of the converter.
    pub(super) async fn evaluate<T>(&mut self, mut compute: impl FnMut(&Self) -> T) -> Result<T, ApiError> {
        loop {
            let outcome = compute(self);
            let missing = std::mem::take(&mut self.conversions.get_mut().missing);
            if missing.is_empty() {
                return Ok(outcome);
            }
            self.make(missing).await?;
        }
    }

    async fn make(&mut self, mut missing: Vec<ObjectConversion<'d>>) -> Result<(), ApiError> {
        while let Some(last) = missing.pop() {
            let (mut batch, others): (Vec<_>, Vec<_>) = missing.into_iter().partition(|one| one.has_versions_of(&last));
            missing = others;
            let (from, to) = (last.from, last.to);
            batch.push(last);
            let objects = batch.iter().map(|one| one.object.clone()).collect();
            let converted = versions::convert(self.definition, objects, from, to).await?;
            self.conversions.get_mut().made.extend(batch.into_iter().zip(converted));
        }
        Ok(())
    }

    /// An object as the converter gives it. It counts as one that cannot be converted while that has yet to be done.
    fn converted(&self, object: &Value, to: &'d ServedVersion) -> Option<Value> {
        let mut conversions = self.conversions.borrow_mut();
        if let Some((_, converted)) = conversions.made.iter().find(|(made, _)| made.is(object, to)) {
            return Some(converted.clone());
        }
        if conversions.missing.iter().all(|missing| !missing.is(object, to)) {
            conversions.missing.push(ObjectConversion {
                object: object.clone(),
                from: self.find(version_of(object))?,
                to,
            });
        }
        None
    }

    fn respelled(&self, object: &Value, to: &ServedVersion) -> Value {
        let mut object = object.clone();
        let from = version_of(&object);
        if from != to.group_version.to_string() {
            if let Some(conversion) = self.find(from).and_then(|from| from.conversion.as_ref()) {
                conversion.to_stored(&mut object);
            }
            if let Some(conversion) = &to.conversion {
                conversion.to_served(&mut object);
            }
        }
        object
    }
}

impl ManagedVersions for ResourceVersions<'_> {
    fn node(&self, version: &str) -> SchemaNode<'_> {
        match self.find(version) {
            Some(served) => schema_node(self.definition, served),
            None => SchemaNode::Deduced,
        }
    }

    fn convert(&self, object: &Value, version: &str) -> Option<Value> {
        let to = self.find(version)?;
        if self.definition.converter.is_some() && version_of(object) != version && !is_blank(object) {
            return self.converted(object, to);
        }
        let mut object = self.respelled(object, to);
        object.as_object_mut()?.insert("apiVersion".into(), version.into());
        Some(object)
    }

    fn changeable(&self, fields: FieldSet, version: &str) -> FieldSet {
        let of_other;
        let reset = match self.find(version) {
            None => return fields,
            Some(at) if at.group_version == self.requested.group_version => &self.reset,
            Some(at) => {
                of_other = reset_fields(self.definition, self.subresource, (self.requested, at));
                &of_other
            }
        };
        fields.recursive_difference(reset)
    }
}

fn reset_fields(
    definition: &ResourceDefinition,
    subresource: Subresource,
    (requested, at): (&ServedVersion, &ServedVersion),
) -> FieldSet {
    let versions = (&requested.group_version, &at.group_version);
    let mut reset = FieldSet::default();
    for path in definition.strategy.reset_fields_in(subresource, versions).0 {
        reset.insert(&PathElement::dotted(path));
    }
    reset
}

fn version_of(object: &Value) -> &str {
    object.get("apiVersion").and_then(Value::as_str).unwrap_or_default()
}

/// Reports whether an object has no field but its version and kind: no converter is called for one.
fn is_blank(object: &Value) -> bool {
    let mut fields = object.as_object().into_iter().flatten();
    fields.all(|(name, _)| name == "apiVersion" || name == "kind")
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use futures_util::{FutureExt as _, future::BoxFuture};
    use serde_json::json;
    use trireme_machinery::GroupVersion;

    use super::*;
    use crate::{definition::Converter, fixtures::widgets};

    /// Notes how many objects it converts at a time; refuses those that are named `bad`.
    #[derive(Default)]
    struct Counting(Mutex<Vec<usize>>);

    impl Converter for Counting {
        fn convert<'a>(
            &'a self,
            objects: Vec<Value>,
            _: &'a GroupVersion,
            _: &'a GroupVersion,
        ) -> BoxFuture<'a, Result<Vec<Value>, ApiError>> {
            Box::pin(async move {
                self.0.lock().expect("no holder panicked").push(objects.len());
                let is_bad = objects.iter().any(|object| object["metadata"]["name"] == "bad");
                if is_bad {
                    Err(ApiError::unspecified("no"))
                } else {
                    Ok(objects)
                }
            })
        }
    }

    #[test]
    fn what_a_computation_misses_of_a_version_is_converted_in_one_call() {
        let converter = Arc::new(Counting::default());
        let definition = ResourceDefinition {
            converter: Some(converter.clone()),
            ..widgets()
        };
        let version = definition.stored();
        let other = definition
            .versions
            .iter()
            .find(|other| other.group_version != version.group_version);
        let other = other.expect("there are two").group_version.to_string();
        let mut versions = ResourceVersions::new(&definition, version, Subresource::None);
        let object = |name: &str| {
            let api_version = version.group_version.to_string();
            json!({"apiVersion": api_version, "kind": "Widget", "metadata": {"name": name}})
        };
        let mut both = |one: Value, two: Value| {
            let convert =
                |versions: &ResourceVersions<'_>| (versions.convert(&one, &other), versions.convert(&two, &other));
            versions.evaluate(convert).now_or_never().expect("nothing waits")
        };
        let (one, two) = both(object("a"), object("b")).expect("they can be converted");
        for converted in [one, two] {
            assert_eq!(converted.expect("the version is there")["apiVersion"], *other);
        }
        both(object("b"), object("c")).expect("they can be converted");
        let blank = json!({"apiVersion": version.group_version.to_string(), "kind": "Widget"});
        both(blank, object("a")).expect("what has no fields is not sent");
        assert_eq!(*converter.0.lock().expect("no holder panicked"), [2, 1]);
        assert_eq!(
            both(object("a"), object("bad")).expect_err("it is refused").message,
            "no"
        );
    }
}
