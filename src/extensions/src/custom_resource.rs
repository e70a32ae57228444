//! The behaviour of custom resources (`registry/customresource`).
//!
//! Objects are held against the schema of the requested version. They come here in that version if a webhook converts them;
//! otherwise the versions differ by their schemas alone.

use std::{
    collections::BTreeSet,
    sync::{Arc, OnceLock},
};

use serde_json::Value;
use trireme_machinery::{
    GroupVersion,
    field::{Error, ErrorList, ErrorType, Path},
    meta::ObjectMeta as _,
    names,
    schema::{accessor_error, nested_field},
};
use trireme_registry::{
    ResetFields, Strategy, Verb, Verbs, WarningRecorder, WriteContext, definition::ScalePaths, request::Subresource,
    strategy::MetadataChecks,
};

use crate::{
    object_schema::VersionSchema,
    rules::{CompiledRules, RuleMeters},
    structural::{
        correlation::Ratchet, list_types::validate_list_sets_and_maps, metadata::validate_embedded,
        values::validate_value,
    },
};

/// The rules of one version.
pub(crate) struct CustomVersion {
    group_version: GroupVersion,
    schema: Arc<VersionSchema>,
    /// True if the status is written through `/status` alone.
    has_status: bool,
    scale: Option<ScalePaths>,
    rules: OnceLock<Option<CompiledRules>>,
    meters: RuleMeters,
}

/// The strategy of one custom resource.
pub(crate) struct CustomResource {
    /// Not empty.
    pub(crate) versions: Vec<CustomVersion>,
    /// True if the definition is being deleted.
    pub(crate) is_terminating: bool,
}

impl CustomResource {
    fn version(&self, context: &WriteContext) -> Option<&CustomVersion> {
        let mut versions = self.versions.iter();
        versions
            .find(|version| version.group_version == context.version)
            .or_else(|| self.versions.first())
    }
}

impl CustomVersion {
    /// The rules of a version; `scale` are the paths of `/scale`, if it has that.
    pub(crate) fn new(
        group_version: GroupVersion,
        schema: Arc<VersionSchema>,
        has_status: bool,
        scale: Option<ScalePaths>,
        meters: RuleMeters,
    ) -> Self {
        Self {
            group_version,
            schema,
            has_status,
            scale,
            rules: OnceLock::new(),
            meters,
        }
    }

    /// The rules in CEL, if the schema has any. They are compiled when an object is first held against them: a replica that
    /// starts with a thousand definitions needs few of them at once, or ever.
    fn rules(&self) -> Option<&CompiledRules> {
        let schema = &self.schema.structural;
        let compiled = || {
            let compile = || CompiledRules::compile(schema, true);
            schema.has_rules().then(|| self.meters.compile(compile)).flatten()
        };
        self.rules.get_or_init(compiled).as_ref()
    }

    fn validate(&self, new: &Value, old: Option<&Value>, warnings: &WarningRecorder) -> ErrorList {
        let mut errors = ErrorList::new();
        validate_value(new, old, &self.schema.structural, "", &mut errors);
        self.validate_scale_spec(new, &mut errors);
        self.validate_scale_status(new, &mut errors);
        validate_embedded(new, &self.schema.structural, &Path::root(), &mut errors);
        self.validate_list_types(new, old, &mut errors);
        self.validate_rules(new, old, warnings, &mut errors);
        errors
    }

    fn validate_status(&self, new: &Value, old: &Value, warnings: &WarningRecorder) -> ErrorList {
        let mut errors = ErrorList::new();
        if let (Some(status), Some(schema)) = (new.get("status"), self.schema.structural.property("status")) {
            validate_value(status, old.get("status"), schema, "status", &mut errors);
        }
        self.validate_scale_status(new, &mut errors);
        self.validate_list_types(new, Some(old), &mut errors);
        self.validate_rules(new, Some(old), warnings, &mut errors);
        errors
    }

    /// Lists that were wrong before may stay so.
    fn validate_list_types(&self, new: &Value, old: Option<&Value>, errors: &mut ErrorList) {
        let errors_of = |object: &Value| {
            let mut errors = ErrorList::new();
            validate_list_sets_and_maps(object, &self.schema.structural, &Path::root(), &mut errors);
            errors
        };
        let found = errors_of(new);
        if !found.is_empty() && old.is_none_or(|old| errors_of(old).is_empty()) {
            errors.extend(found);
        }
    }

    fn validate_rules(&self, new: &Value, old: Option<&Value>, warnings: &WarningRecorder, errors: &mut ErrorList) {
        let Some(rules) = self.rules() else { return };
        if errors.iter().any(blocks_rules) {
            let detail = "some validation rules were not checked because the object was invalid; correct the existing \
                          errors to complete validation";
            errors.push(Error::invalid(&Path::new("<nil>"), &Value::Null, detail));
            return;
        }
        let ratchet = Ratchet::of(new, old, &self.schema.structural);
        warnings.add(self.meters.evaluate(|| rules.validate(new, old, ratchet, errors)));
    }

    fn validate_scale_spec(&self, object: &Value, errors: &mut ErrorList) {
        if let Some(scale) = &self.scale {
            validate_replicas(object, &scale.spec_replicas, errors);
        }
    }

    fn validate_scale_status(&self, object: &Value, errors: &mut ErrorList) {
        let Some(scale) = &self.scale else { return };
        validate_replicas(object, &scale.status_replicas, errors);
        let Some(path) = scale.selector.as_deref() else { return };
        let detail = match nested_field(object, path) {
            Ok(Some(selector)) if !selector.is_string() => accessor_error(path, selector, "string"),
            Ok(_) => return,
            Err(detail) => detail,
        };
        errors.push(Error::invalid_str(&Path::new(&format!(".{path}")), "", &detail));
    }
}

/// Errors after which rules would speak of an object that is not of its schema.
fn blocks_rules(error: &Error) -> bool {
    matches!(
        error.kind,
        ErrorType::NotSupported
            | ErrorType::Required
            | ErrorType::TooLong
            | ErrorType::TooMany
            | ErrorType::TypeInvalid
    )
}

fn validate_replicas(object: &Value, path: &str, errors: &mut ErrorList) {
    let shown_path = format!(".{path}");
    let at = Path::new(&shown_path);
    let replicas = match nested_field(object, path) {
        Ok(Some(replicas)) => replicas,
        Ok(None) => return,
        Err(detail) => {
            errors.push(Error::invalid(&at, &0.into(), &detail));
            return;
        }
    };
    let detail = match replicas.as_i64() {
        None => {
            let detail = accessor_error(path, replicas, "int64");
            errors.push(Error::invalid(&at, &0.into(), &detail));
            return;
        }
        Some(..0) => "should be a non-negative integer".to_owned(),
        Some(number) if number > i64::from(i32::MAX) => {
            format!("should be less than or equal to {}", i32::MAX)
        }
        Some(_) => return,
    };
    errors.push(Error::invalid(&at, replicas, &detail));
}

impl Strategy for CustomResource {
    /// A write of the whole leaves the status alone only where its version has `/status`, and counts for no other version, as at
    /// kube-apiserver.
    fn reset_fields_in(
        &self,
        subresource: Subresource,
        (requested, at): (&GroupVersion, &GroupVersion),
    ) -> ResetFields {
        let mut versions = self.versions.iter();
        let has_status = versions.any(|version| version.group_version == *at && version.has_status);
        match subresource {
            _ if !has_status => ResetFields(&[]),
            Subresource::None if requested != at => ResetFields(&[]),
            subresource => ResetFields::of_bare_status(subresource),
        }
    }

    fn prepare_for_create(&self, context: &WriteContext, object: &mut Value) {
        if self.version(context).is_some_and(|version| version.has_status)
            && let Some(fields) = object.as_object_mut()
        {
            fields.remove("status");
        }
    }

    fn validate(&self, context: &WriteContext, object: &Value) -> ErrorList {
        let version = self.version(context);
        version.map_or_else(ErrorList::new, |version| {
            version.validate(object, None, &context.warnings)
        })
    }

    fn prepare_for_update(&self, context: &WriteContext, new: &mut Value, old: &Value) {
        if self.version(context).is_some_and(|version| version.has_status) {
            set_or_remove(new, "status", old.get("status"));
        }
    }

    fn validate_update(&self, context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        let version = self.version(context);
        version.map_or_else(ErrorList::new, |version| {
            version.validate(new, Some(old), &context.warnings)
        })
    }

    fn prepare_for_status_update(&self, _: &WriteContext, new: &mut Value, old: &Value) {
        let status = new.get("status").cloned();
        new.clone_from(old);
        set_or_remove(new, "status", status.as_ref());
    }

    fn validate_status_update(&self, context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        let version = self.version(context);
        version.map_or_else(ErrorList::new, |version| {
            version.validate_status(new, old, &context.warnings)
        })
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let before: BTreeSet<&str> = old.into_iter().flat_map(|old| old.meta().finalizers()).collect();
        let added: BTreeSet<&str> = new.meta().finalizers().filter(|name| !before.contains(name)).collect();
        added.into_iter().flat_map(finalizer_warnings).collect()
    }

    fn has_generation(&self) -> bool {
        true
    }

    /// A status that is written with the rest counts, too; one with a subresource of its own has been carried over.
    fn is_new_generation(&self, new: &Value, old: &Value) -> bool {
        let (Some(new), Some(old)) = (new.as_object(), old.as_object()) else {
            return new != old;
        };
        let names = new.keys().chain(old.keys()).filter(|name| *name != "metadata");
        names.into_iter().any(|name| new.get(name) != old.get(name))
    }

    fn metadata_checks_of_update(&self, _context: &WriteContext) -> MetadataChecks {
        MetadataChecks::OfChange
    }

    fn wants_standard_finalizers(&self) -> bool {
        false
    }

    fn discovered_verbs(&self, served: Verbs) -> Verbs {
        if !self.is_terminating {
            return served;
        }
        let left = [Verb::Delete, Verb::DeleteCollection, Verb::Get, Verb::List, Verb::Watch];
        left.into_iter().filter(|verb| served.contains(*verb)).collect()
    }

    fn refuse_creation(&self) -> Option<&'static str> {
        self.is_terminating
            .then_some("create not allowed while custom resource definition is terminating")
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }
}

fn set_or_remove(object: &mut Value, name: &str, value: Option<&Value>) {
    let Some(fields) = object.as_object_mut() else { return };
    match value {
        Some(value) => fields.insert(name.to_owned(), value.clone()),
        None => fields.remove(name),
    };
}

/// Warns of finalizers that may be taken for somebody else's.
fn finalizer_warnings(name: &str) -> Vec<String> {
    let quoted = trireme_machinery::go_text::quote(name);
    let mut warnings: Vec<String> = names::qualified_name(name)
        .into_iter()
        .map(|text| format!("metadata.finalizers: {quoted}: {text}"))
        .collect();
    if !name.contains('/') && !matches!(name, "orphan" | "foregroundDeletion" | "kubernetes") {
        let including = if name.contains('.') {
            " including a path (/)"
        } else {
            ""
        };
        warnings.push(format!(
            "metadata.finalizers: {quoted}: prefer a domain-qualified finalizer name{including} to avoid accidental \
             conflicts with other finalizer writers"
        ));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn replicas_are_read_as_upstream_reads_nested_fields() {
        let told = |object: Value| {
            let mut errors = ErrorList::new();
            validate_replicas(&object, "spec.inner.replicas", &mut errors);
            errors.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        for fine in [
            json!({}),
            json!({"spec": null}),
            json!({"spec": {"inner": {}}}),
            json!({"spec": {"inner": {"replicas": 3}}}),
        ] {
            assert_eq!(told(fine), Vec::<String>::new());
        }
        let wrong = |path: &str, what: &str| {
            [format!(
                ".spec.inner.replicas: Invalid value: 0: {path} accessor error: {what}"
            )]
        };
        for (object, path, what) in [
            (
                json!({"spec": ["a", 1]}),
                ".spec.inner",
                "[a 1] is of the type []interface {}, expected map[string]interface{}",
            ),
            (
                json!({"spec": {"inner": "x"}}),
                ".spec.inner.replicas",
                "x is of the type string, expected map[string]interface{}",
            ),
            (
                json!({"spec": {"inner": {"replicas": null}}}),
                ".spec.inner.replicas",
                "<nil> is of the type <nil>, expected int64",
            ),
        ] {
            assert_eq!(told(object), wrong(path, what));
        }
    }
}
