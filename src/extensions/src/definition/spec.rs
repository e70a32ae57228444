//! Holds the spec of a definition against the rules for definitions (`ValidateCustomResourceDefinition`).
//!
//! Upstream holds what all versions have alike in one place of its own form of the object, and names that place in its
//! errors: `spec.validation` for the schema of a definition of one version. So do these.

use serde_json::Value;
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    names, webhook_address,
};

use super::{
    field_paths::find_field,
    internals::shown_versions,
    schema::validate_version_schema,
    structural::{flag, text},
};
use crate::structural::metadata::MetadataType;

const MAX_SELECTABLE_FIELDS: usize = 8;
const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 8] = [
    "byte",
    "date",
    "date-time",
    "double",
    "float",
    "int32",
    "int64",
    "password",
];

/// The versions of a definition.
pub(super) fn versions(object: &Value) -> &[Value] {
    let versions = object.pointer("/spec/versions").and_then(Value::as_array);
    versions.map_or(&[], Vec::as_slice)
}

/// Validates the spec of a definition; `old` is what it replaces. `versions_are_open`: conversion review versions that
/// nobody knows are taken. Without the type of metadata, defaults within them may be of any type.
pub(super) fn validate_spec(
    object: &Value,
    old: Option<&Value>,
    versions_are_open: bool,
    metadata: Option<&MetadataType>,
    errors: &mut ErrorList,
) {
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let path = Path::new("spec");
    validate_group(spec, &path, errors);
    validate_scope(spec, &path, errors);
    for (index, version) in versions(object).iter().enumerate() {
        if version.pointer("/schema/openAPIV3Schema").is_none() {
            let list = path.child("versions");
            let at = list.index(index);
            errors.push(Error::required(&at.child("schema.openAPIV3Schema"), ""));
        }
    }
    validate_versions(object, old, metadata, &path, errors);
    validate_names(spec, &path.child("names"), true, errors);
    let parts = SharedParts::of(versions(object));
    parts.validate_shared(old, metadata, &path, errors);
    validate_conversion(spec, versions_are_open, &path.child("conversion"), errors);
}

fn validate_group(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let (group, at) = (text(spec, "group"), path.child("group"));
    let texts = names::dns1123_subdomain(group);
    if group.is_empty() {
        errors.push(Error::required(&at, ""));
    } else if !texts.is_empty() {
        errors.push(Error::invalid_str(&at, group, &texts.join(",")));
    } else if !group.contains('.') {
        errors.push(Error::invalid_str(
            &at,
            group,
            "should be a domain with at least one dot",
        ));
    }
}

fn validate_scope(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let at = path.child("scope");
    match text(spec, "scope") {
        "" => errors.push(Error::required(&at, "")),
        "Cluster" | "Namespaced" => {}
        other => errors.push(Error::not_supported(&at, other, &["Cluster", "Namespaced"])),
    }
}

/// The parts that versions may have alike.
struct SharedParts<'v> {
    versions: &'v [Value],
}

impl<'v> SharedParts<'v> {
    fn of(versions: &'v [Value]) -> Self {
        Self { versions }
    }

    /// A part that all versions have and have alike.
    fn shared(&self, name: &str) -> Option<&'v Value> {
        let first = self.versions.first()?.get(name)?;
        let is_same = |version: &Value| version.get(name) == Some(first);
        self.versions.iter().all(is_same).then_some(first)
    }

    /// The parts that all versions have alike.
    fn shared_names(&self) -> Vec<&'static str> {
        let names = ["schema", "subresources", "additionalPrinterColumns", "selectableFields"];
        names.into_iter().filter(|name| self.shared(name).is_some()).collect()
    }

    fn has_status(&self) -> bool {
        let mut versions = self.versions.iter();
        versions.any(|version| {
            version
                .pointer("/subresources/status")
                .is_some_and(|status| !status.is_null())
        })
    }

    fn validate_shared(
        &self,
        old: Option<&Value>,
        metadata: Option<&MetadataType>,
        path: &Path<'_>,
        errors: &mut ErrorList,
    ) {
        let schema = self.shared("schema").and_then(|schema| schema.get("openAPIV3Schema"));
        if let Some(schema) = schema.filter(|schema| !schema.is_null()) {
            let is_unchanged = self.versions.first().is_some_and(|first| has_same_schema(first, old));
            let at = path.child("validation");
            validate_version_schema(schema, self.has_status(), is_unchanged, metadata, &at, errors);
        }
        if let Some(subresources) = self.shared("subresources") {
            validate_subresources(subresources, &path.child("subresources"), errors);
        }
        if let Some(columns) = self.shared("additionalPrinterColumns") {
            validate_columns(columns, &path.child("additionalPrinterColumns"), errors);
        }
        if let Some(fields) = self.shared("selectableFields") {
            let first = self.versions.first().unwrap_or(&Value::Null);
            validate_selectable_fields(first, fields, &path.child("selectableFields"), errors);
        }
    }
}

fn validate_versions(
    object: &Value,
    old: Option<&Value>,
    metadata: Option<&MetadataType>,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let versions = versions(object);
    let parts = SharedParts::of(versions);
    let list = path.child("versions");
    for (index, version) in versions.iter().enumerate() {
        let at = list.index(index);
        let name = text(version, "name");
        let texts = names::dns1035_label(name);
        if !texts.is_empty() {
            errors.push(Error::invalid_str(&at.child("name"), name, &texts.join(",")));
        }
        validate_deprecation_warning(version, &at.child("deprecationWarning"), errors);
        if let Some(schema) = version
            .pointer("/schema/openAPIV3Schema")
            .filter(|_| parts.shared("schema").is_none())
        {
            let has_status = version
                .pointer("/subresources/status")
                .is_some_and(|status| !status.is_null());
            let is_unchanged = has_same_schema(version, old);
            validate_version_schema(schema, has_status, is_unchanged, metadata, &at.child("schema"), errors);
        }
        let own = |name: &str| version.get(name).filter(|_| parts.shared(name).is_none());
        if let Some(subresources) = own("subresources") {
            validate_subresources(subresources, &at.child("subresources"), errors);
        }
        if let Some(columns) = own("additionalPrinterColumns") {
            validate_columns(columns, &at.child("additionalPrinterColumns"), errors);
        }
        if let Some(fields) = own("selectableFields") {
            validate_selectable_fields(version, fields, &at.child("selectableFields"), errors);
        }
    }
    let all = || shown_versions(object.pointer("/spec/versions"), &parts.shared_names());
    let name_of = |version: &Value| text(version, "name").to_owned();
    let is_repeated = |(at, version): (usize, &Value)| {
        versions
            .iter()
            .take(at)
            .any(|before| name_of(before) == name_of(version))
    };
    if versions.iter().enumerate().any(is_repeated) {
        let detail = "must contain unique version names";
        errors.push(Error::invalid_shown(&list, all(), detail));
    }
    if versions.iter().filter(|version| flag(version, "storage")).count() != 1 {
        let detail = "must have exactly one version marked as storage version";
        errors.push(Error::invalid_shown(&list, all(), detail));
    }
    // Upstream keeps the name of the first version in a field of its own as well.
    let first = versions.first().map_or("", |version| text(version, "name"));
    validate_label(first, &path.child("version"), errors);
}

/// Reports whether the version of the same name had this schema before.
fn has_same_schema(version: &Value, old: Option<&Value>) -> bool {
    let before = old.map_or(&[][..], versions).iter();
    let mut before = before.filter(|known| text(known, "name") == text(version, "name"));
    before
        .next()
        .is_some_and(|known| known.get("schema") == version.get("schema"))
}

fn validate_deprecation_warning(version: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(warning) = version.get("deprecationWarning").and_then(Value::as_str) else {
        return;
    };
    let mut push = |detail: &str| errors.push(Error::invalid_str(path, warning, detail));
    if !flag(version, "deprecated") {
        return push("can only be set for deprecated versions");
    }
    if warning.len() > 256 {
        push("must be <= 256 characters long");
    }
    if warning.is_empty() {
        push("must not be an empty string");
    }
    if let Some((at, _)) = warning.char_indices().find(|(_, character)| character.is_control()) {
        push(&format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {at}"
        ));
    }
}

/// Validates the names of a resource; those that were accepted may be missing.
pub(super) fn validate_names(names_of: &Value, path: &Path<'_>, are_required: bool, errors: &mut ErrorList) {
    let names_of = if are_required {
        names_of.get("names").unwrap_or(&Value::Null)
    } else {
        names_of
    };
    if are_required {
        for name in ["plural", "singular", "kind", "listKind"] {
            if text(names_of, name).is_empty() {
                errors.push(Error::required(&path.child(name), ""));
            }
        }
    }
    for name in ["plural", "singular"] {
        validate_label(text(names_of, name), &path.child(name), errors);
    }
    for name in ["kind", "listKind"] {
        let given = text(names_of, name);
        let texts = names::dns1035_label(&given.to_lowercase());
        if !given.is_empty() && !texts.is_empty() {
            let detail = format!("may have mixed case, but should otherwise match: {}", texts.join(","));
            errors.push(Error::invalid_str(&path.child(name), given, &detail));
        }
    }
    validate_labels(names_of, "shortNames", path, errors);
    let (kind, list_kind) = (text(names_of, "kind"), text(names_of, "listKind"));
    if !kind.is_empty() && kind == list_kind {
        let detail = "kind and listKind may not be the same";
        errors.push(Error::invalid_str(&path.child("listKind"), list_kind, detail));
    }
    validate_labels(names_of, "categories", path, errors);
}

fn validate_label(name: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let texts = names::dns1035_label(name);
    if !name.is_empty() && !texts.is_empty() {
        errors.push(Error::invalid_str(path, name, &texts.join(",")));
    }
}

fn validate_labels(names_of: &Value, list: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let labels = names_of.get(list).and_then(Value::as_array).into_iter().flatten();
    for (index, label) in labels.filter_map(Value::as_str).enumerate() {
        let texts = names::dns1035_label(label);
        if !texts.is_empty() {
            let at = path.child(list);
            errors.push(Error::invalid_str(&at.index(index), label, &texts.join(",")));
        }
    }
}

fn validate_subresources(subresources: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(scale) = subresources.get("scale").filter(|scale| !scale.is_null()) else {
        return;
    };
    for (name, below) in [("specReplicasPath", "spec"), ("statusReplicasPath", "status")] {
        let (given, at) = (text(scale, name), path.child("scale"));
        let at = at.child(name);
        if given.is_empty() {
            errors.push(Error::required(&at, ""));
        } else if validate_simple_json_path(given, &at, errors) && !given.starts_with(&format!(".{below}.")) {
            errors.push(Error::invalid_str(
                &at,
                given,
                &format!("should be a json path under .{below}"),
            ));
        }
    }
    let selector = text(scale, "labelSelectorPath");
    let at = path.child("scale.labelSelectorPath");
    if !selector.is_empty()
        && validate_simple_json_path(selector, &at, errors)
        && !selector.starts_with(".spec.")
        && !selector.starts_with(".status.")
    {
        let detail = "should be a json path under either .spec or .status";
        errors.push(Error::invalid_str(&at, selector, detail));
    }
}

/// Returns true if the path begins as paths do.
fn validate_simple_json_path(given: &str, path: &Path<'_>, errors: &mut ErrorList) -> bool {
    if given.starts_with('.') {
        return true;
    }
    errors.push(Error::invalid_str(
        path,
        given,
        "must be a simple json path starting with .",
    ));
    false
}

fn validate_columns(columns: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    for (index, column) in columns.as_array().into_iter().flatten().enumerate() {
        let at = path.index(index);
        if text(column, "name").is_empty() {
            errors.push(Error::required(&at.child("name"), ""));
        }
        let (column_type, format) = (text(column, "type"), text(column, "format"));
        let detail = format!("must be one of {}", COLUMN_TYPES.join(","));
        if column_type.is_empty() {
            errors.push(Error::required(&at.child("type"), &detail));
        } else if !COLUMN_TYPES.contains(&column_type) {
            errors.push(Error::invalid_str(&at.child("type"), column_type, &detail));
        }
        if !format.is_empty() && !COLUMN_FORMATS.contains(&format) {
            let detail = format!("must be one of {}", COLUMN_FORMATS.join(","));
            errors.push(Error::invalid_str(&at.child("format"), format, &detail));
        }
        let json_path = text(column, "jsonPath");
        if json_path.is_empty() {
            errors.push(Error::required(&at.child("JSONPath"), ""));
        } else {
            validate_simple_json_path(json_path, &at.child("JSONPath"), errors);
        }
    }
}

fn validate_selectable_fields(version: &Value, fields: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let schema = version.pointer("/schema/openAPIV3Schema").unwrap_or(&Value::Null);
    let mut seen: Vec<Vec<String>> = Vec::new();
    for (index, field) in fields.as_array().into_iter().flatten().enumerate() {
        let (json_path, at) = (text(field, "jsonPath"), path.index(index));
        let at = at.child("jsonPath");
        if json_path.is_empty() {
            errors.push(Error::required(&at, ""));
            continue;
        }
        let (names, found) = match find_field(schema, json_path, false) {
            Ok(found) => found,
            Err(why) => {
                errors.push(Error::invalid_str(
                    &at,
                    json_path,
                    &format!("is an invalid path: {why}"),
                ));
                continue;
            }
        };
        if names.first().is_some_and(|name| name == "metadata") {
            errors.push(Error::invalid_str(
                &at,
                json_path,
                "must not point to fields in metadata",
            ));
        }
        if !matches!(text(found, "type"), "string" | "boolean" | "integer") {
            let detail = "must point to a field of type string, boolean or integer. Enum string fields and strings \
                          with formats are allowed.";
            errors.push(Error::invalid_str(&at, json_path, detail));
        }
        if seen.contains(&names) {
            errors.push(Error::duplicate(&at, &json_path.into()));
        } else {
            seen.push(names);
        }
    }
    if seen.len() > MAX_SELECTABLE_FIELDS {
        errors.push(Error::too_many(path, seen.len(), MAX_SELECTABLE_FIELDS));
    }
}

fn validate_conversion(spec: &Value, versions_are_open: bool, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(conversion) = spec.get("conversion").filter(|conversion| !conversion.is_null()) else {
        return;
    };
    let strategy = text(conversion, "strategy");
    if strategy != "None" && flag(spec, "preserveUnknownFields") {
        let detail = "must be None if spec.preserveUnknownFields is true";
        errors.push(Error::invalid_str(&path.child("strategy"), strategy, detail));
    }
    let webhook = conversion.get("webhook").filter(|webhook| !webhook.is_null());
    let config = webhook.and_then(|webhook| webhook.get("clientConfig"));
    match strategy {
        "" => errors.push(Error::required(&path.child("strategy"), "")),
        "None" | "Webhook" => {}
        other => {
            let known = ["None", "Webhook"];
            errors.push(Error::not_supported(&path.child("strategy"), other, &known));
        }
    }
    let versions = webhook.and_then(|webhook| webhook.get("conversionReviewVersions"));
    if strategy == "Webhook" {
        validate_client_config(config, &path.child("webhookClientConfig"), errors);
        let at = path.child("conversionReviewVersions");
        return validate_review_versions(versions, versions_are_open, &at, errors);
    }
    let detail = "should not be set when strategy is not set to Webhook";
    if config.is_some_and(|config| !config.is_null()) {
        errors.push(Error::forbidden(&path.child("webhookClientConfig"), detail));
    }
    if versions
        .and_then(Value::as_array)
        .is_some_and(|versions| !versions.is_empty())
    {
        errors.push(Error::forbidden(&path.child("conversionReviewVersions"), detail));
    }
}

fn validate_client_config(config: Option<&Value>, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(config) = config.filter(|config| !config.is_null()) else {
        return errors.push(Error::required(path, "required when strategy is set to Webhook"));
    };
    let is_set = |name: &str| config.get(name).is_some_and(|value| !value.is_null());
    if is_set("url") == is_set("service") {
        return errors.push(Error::required(path, "exactly one of url or service is required"));
    }
    if let Some(url) = config.get("url").and_then(Value::as_str) {
        return webhook_address::validate_url(url, &path.child("url"), errors);
    }
    let service = config.get("service").unwrap_or(&Value::Null);
    let at = path.child("service");
    // Upstream takes the one for the other here.
    for (name, shown) in [("name", "namespace"), ("namespace", "name")] {
        if text(service, name).is_empty() {
            errors.push(Error::required(&at.child(shown), ""));
        }
    }
    webhook_address::validate_port_and_path(service, &at, errors);
}

fn validate_review_versions(versions: Option<&Value>, is_open: bool, path: &Path<'_>, errors: &mut ErrorList) {
    let list = versions.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    if list.is_empty() {
        return errors.push(Error::required(path, ""));
    }
    for (index, version) in list.iter().enumerate() {
        let at = path.index(index);
        if list.iter().take(index).any(|before| before == version) {
            errors.push(Error::invalid(&at, version, "duplicate version"));
            continue;
        }
        for why in names::dns1035_label(version.as_str().unwrap_or_default()) {
            errors.push(Error::invalid(&at, version, &why));
        }
    }
    if !is_open && !list.iter().any(|version| version == "v1" || version == "v1beta1") {
        let detail = "must include at least one of v1, v1beta1";
        errors.push(Error::invalid(path, &list.to_vec().into(), detail));
    }
}
