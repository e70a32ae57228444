//! ResourceQuotas (`pkg/registry/core/resourcequota`, `pkg/apis/core/validation`).

use serde_json::{Value, json};
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    go_text::structs::{self, PrintedField, PrintedShape},
};
use trireme_registry::{Column, Strategy, WriteContext, strategy::MetadataChecks};

use crate::{
    checks::quantity,
    columns::{self, column, described},
    kind::Kind,
    resource_names::{is_standard_for_quotas, validate_resource_quantity_value, validate_resource_quota_resource_name},
    values::{entries, items, keep_field, text},
};

const SCOPES: [&str; 7] = [
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "CrossNamespacePodAffinity",
    "VolumeAttributesClass",
];
/// Resources that can be counted of pods in a scope.
const POD_RESOURCES: [&str; 7] = [
    "pods",
    "cpu",
    "memory",
    "requests.cpu",
    "requests.memory",
    "limits.cpu",
    "limits.memory",
];
/// `core.ScopeSelector`.
const SCOPE_SELECTOR: &[PrintedField] = &[(
    "MatchExpressions",
    "matchExpressions",
    PrintedShape::List(&[
        ("ScopeName", "scopeName", PrintedShape::Text),
        ("Operator", "operator", PrintedShape::Text),
        ("Values", "values", PrintedShape::Plain),
    ]),
)];

/// The kind's parts.
pub(crate) fn kind() -> Kind {
    let request = "Request represents a minimum amount of cpu/memory that a container may consume.";
    let limit = "Limits control the maximum amount of cpu/memory that a container may use independent of contention on \
                 the node.";
    Kind::new("", "resourcequotas", ResourceQuotas).columns(vec![
        columns::name(),
        usage_column("Request", request, false),
        usage_column("Limit", limit, true),
        columns::age(),
    ])
}

/// `resource: used/hard` for all limits, or for all others.
fn usage_column(name: &str, description: &'static str, limits: bool) -> Column {
    column(name, "string", described(description), move |object| {
        let status = object.get("status").unwrap_or(&Value::Null);
        let shown = entries(status, "hard")
            .filter(|(name, _)| name.starts_with("limits") == limits)
            .map(|(name, hard)| {
                let used = status.get("used").map_or("0", |used| text(used, name));
                let used = if used.is_empty() { "0" } else { used };
                format!("{name}: {used}/{}", hard.as_str().unwrap_or_default())
            });
        shown.collect::<Vec<_>>().join(", ").into()
    })
}

struct ResourceQuotas;

impl Strategy for ResourceQuotas {
    fn metadata_checks_of_update(&self, _context: &WriteContext) -> MetadataChecks {
        MetadataChecks::OfChange
    }

    fn prepare_for_create(&self, _context: &WriteContext, object: &mut Value) {
        object["status"] = json!({});
    }

    fn validate(&self, _context: &WriteContext, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        let spec = object.get("spec").unwrap_or(&Value::Null);
        validate_resource_list(spec, "hard", &Path::new("spec"), &mut errors);
        validate_resource_quota_scopes(spec, &Path::new("spec.scopes"), &mut errors);
        validate_scope_selector(spec, &Path::new("spec.scopeSelector"), &mut errors);
        errors
    }

    fn prepare_for_update(&self, _context: &WriteContext, new: &mut Value, old: &Value) {
        keep_field(new, old, "status");
    }

    fn validate_update(&self, context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        let mut errors = self.validate(context, new);
        let sorted = |object: &Value| {
            let spec = object.get("spec").unwrap_or(&Value::Null);
            let mut scopes: Vec<String> = items(spec, "scopes").iter().map(ToString::to_string).collect();
            scopes.sort();
            scopes.dedup();
            scopes
        };
        if sorted(new) != sorted(old) {
            let scopes = new.pointer("/spec/scopes").unwrap_or(&Value::Null);
            errors.push(Error::invalid(&Path::new("spec.scopes"), scopes, "field is immutable"));
        }
        errors
    }

    fn validate_status_update(&self, _context: &WriteContext, new: &Value, _old: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        let status = new.get("status").unwrap_or(&Value::Null);
        for list in ["hard", "used"] {
            validate_resource_list(status, list, &Path::new("status"), &mut errors);
        }
        errors
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let hard = new.pointer("/spec/hard").filter(|_| old.is_none());
        let warn = |resource| hard.and_then(|hard| warn_of_requests_above_limits(hard, resource));
        ["cpu", "memory", "storage", "ephemeral-storage"]
            .into_iter()
            .filter_map(warn)
            .collect()
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }
}

/// The warning of a quota that allows more requests of a resource than limits (`WarningsOnCreate`).
fn warn_of_requests_above_limits(hard: &Value, resource: &str) -> Option<String> {
    let of_bare_name = || hard.get(resource).filter(|_| matches!(resource, "cpu" | "memory"));
    let (mut requests, limits) = (format!("requests.{resource}"), format!("limits.{resource}"));
    let limit = hard.get(&limits)?;
    let request = match hard.get(&requests) {
        Some(request) => request,
        None => {
            resource.clone_into(&mut requests);
            of_bare_name()?
        }
    };
    (quantity(request) > quantity(limit)).then(|| {
        let [request, limit] = [request, limit].map(|amount| amount.as_str().unwrap_or_default());
        format!("ResourceQuota {requests} ({request}) should be less than {limits} ({limit})")
    })
}

fn validate_resource_list(fields: &Value, list: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let path = path.child(list);
    for (name, amount) in entries(fields, list) {
        let at = path.key(name);
        validate_resource_quota_resource_name(name, &at, errors);
        validate_resource_quantity_value(name, amount, &at, errors);
    }
}

/// Returns true if what is in a scope can be counted by a resource; of resources that are not the quotas' own this is unknown.
fn fits(scope: &str, resource: &str) -> bool {
    match scope {
        _ if !is_standard_for_quotas(resource) => true,
        "Terminating" | "NotTerminating" | "NotBestEffort" | "PriorityClass" | "CrossNamespacePodAffinity" => {
            POD_RESOURCES.contains(&resource)
        }
        "BestEffort" => resource == "pods",
        "VolumeAttributesClass" => matches!(resource, "persistentvolumeclaims" | "requests.storage"),
        _ => true,
    }
}

/// As upstream's `validateResourceQuotaScopes`.
fn validate_resource_quota_scopes(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let scopes: Vec<&str> = items(spec, "scopes").iter().filter_map(Value::as_str).collect();
    let shown = spec.get("scopes").unwrap_or(&Value::Null);
    for scope in &scopes {
        if !SCOPES.contains(scope) {
            errors.push(Error::invalid(path, shown, "unsupported scope"));
        }
        for _ in entries(spec, "hard").filter(|(resource, _)| !fits(scope, resource)) {
            errors.push(Error::invalid(path, shown, "unsupported scope applied to resource"));
        }
    }
    if conflicts(&scopes) {
        errors.push(Error::invalid(path, shown, "conflicting scopes"));
    }
}

fn conflicts(scopes: &[&str]) -> bool {
    [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]]
        .iter()
        .any(|pair| pair.iter().all(|scope| scopes.contains(scope)))
}

/// As upstream's `validateScopeSelector`.
fn validate_scope_selector(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(selector) = spec.get("scopeSelector") else {
        return;
    };
    let path = path.child("matchExpressions");
    let mut scopes = Vec::new();
    for term in items(selector, "matchExpressions") {
        validate_scoped_resource_selector_requirement(spec, selector, term, &path, errors);
        scopes.push(text(term, "scopeName"));
    }
    if conflicts(&scopes) {
        // Kubernetes shows the other list of scopes here.
        let shown = spec.get("scopes").unwrap_or(&Value::Null);
        errors.push(Error::invalid(&path, shown, "conflicting scopes"));
    }
}

/// As upstream's `validateScopedResourceSelectorRequirement`.
fn validate_scoped_resource_selector_requirement(
    spec: &Value,
    selector: &Value,
    term: &Value,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let (scope, operator) = (text(term, "scopeName"), text(term, "operator"));
    if !SCOPES.contains(&scope) {
        errors.push(Error::invalid_str(&path.child("scopeName"), scope, "unsupported scope"));
    }
    for _ in entries(spec, "hard").filter(|(resource, _)| !fits(scope, resource)) {
        let shown = structs::compact(Some(selector), PrintedShape::Pointer(SCOPE_SELECTOR));
        errors.push(Error::invalid_shown(
            path,
            shown,
            "unsupported scope applied to resource",
        ));
    }
    let has_classes = matches!(scope, "PriorityClass" | "VolumeAttributesClass");
    if SCOPES.contains(&scope) && !has_classes && operator != "Exists" {
        let detail = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, \
                      ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or \
                      ResourceQuotaScopeCrossNamespacePodAffinity";
        errors.push(Error::invalid_str(&path.child("operator"), operator, detail));
    }
    let values = items(term, "values");
    match operator {
        "In" | "NotIn" if values.is_empty() => {
            let detail = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
            errors.push(Error::required(&path.child("values"), detail));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
            errors.push(Error::invalid(&path.child("values"), &values.to_vec().into(), detail));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        _ => errors.push(Error::invalid_str(
            &path.child("operator"),
            operator,
            "not a valid selector operator",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Trial, named};

    fn trial() -> Trial {
        Trial::new("", "resourcequotas", kind())
    }

    fn selected(resource: &str, scopes: &[&str]) -> Value {
        let terms = scopes
            .iter()
            .map(|scope| json!({ "scopeName": scope, "operator": "Exists" }));
        let terms: Vec<Value> = terms.collect();
        json!({ "hard": { resource: "1" }, "scopeSelector": { "matchExpressions": terms } })
    }

    #[test]
    fn errors_of_quotas() {
        trial().expect_errors(&[
            (
                named(
                    "a",
                    json!({ "hard": { "pods": "1", "count/deployments.apps": "3", "requests.ex.test/g": "1" } }),
                ),
                &[],
            ),
            (
                named("a", json!({ "hard": { "pods": "1500m" } })),
                &[r#"spec.hard[pods]: Invalid value: "1500m": must be an integer"#],
            ),
            (
                named("a", json!({ "hard": { "pods": "9223372036854775807" } })),
                &[],
            ),
            (
                named("a", json!({ "hard": { "cpu": "1" }, "scopes": ["BestEffort"] })),
                &[r#"spec.scopes: Invalid value: ["BestEffort"]: unsupported scope applied to resource"#],
            ),
            (
                named(
                    "a",
                    json!({ "hard": { "requests.ex.test/g": "1", "count/jobs.batch": "1" }, "scopes": ["NotBestEffort"] }),
                ),
                &[],
            ),
            (
                named("a", json!({ "hard": { "ephemeral-storage": "1" }, "scopes": ["NotBestEffort"] })),
                &[r#"spec.scopes: Invalid value: ["NotBestEffort"]: unsupported scope applied to resource"#],
            ),
            (
                named("a", selected("cpu", &["BestEffort"])),
                &[
                    r#"spec.scopeSelector.matchExpressions: Invalid value: {"MatchExpressions":[{"ScopeName":"BestEffort","Operator":"Exists","Values":null}]}: unsupported scope applied to resource"#,
                ],
            ),
            (
                named("a", selected("pods", &["Terminating", "NotTerminating"])),
                &["spec.scopeSelector.matchExpressions: Invalid value: null: conflicting scopes"],
            ),
            (
                named("a", json!({ "scopes": ["Terminating", "NotTerminating"] })),
                &[r#"spec.scopes: Invalid value: ["Terminating","NotTerminating"]: conflicting scopes"#],
            ),
        ]);
    }

    #[test]
    fn scopes_do_not_change() {
        let old = trial()
            .create(named("a", json!({ "scopes": ["Terminating"] })))
            .expect("the quota is valid");
        trial().expect_patch_errors(
            &old,
            &[
                (json!({ "spec": { "hard": { "pods": "2" } } }), &[]),
                (
                    json!({ "spec": { "scopes": ["BestEffort"] } }),
                    &[r#"spec.scopes: Invalid value: ["BestEffort"]: field is immutable"#],
                ),
            ],
        );
    }
}
