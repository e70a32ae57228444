//! Jobs (`pkg/registry/batch/job`, `pkg/apis/batch/validation`).

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};
use trireme_machinery::{
    Feature, GroupVersionKind,
    field::{Error, ErrorList, Path},
    names,
    selector::compile_label_selector,
    time,
};
use trireme_registry::{Column, Strategy, WriteContext};

use crate::{
    checks::number,
    columns::{self, column, described, documented, since},
    kind::{Kind, selectable},
    pod_template::{Capabilities, drop_disabled_at},
    values::{integer_at, is_true_at, keep_field, set_default, struct_mut, text, text_at},
    workload::{changes_generation, default_template, name_warnings, shown_selector, template_columns},
};

mod indexes;
mod policies;
mod spec;
mod status;
#[cfg(test)]
mod tests;

use spec::MutablePods;
pub(crate) use spec::{validate_job_template_spec, warnings};

const SPEC: &str = "io.k8s.api.batch.v1.JobSpec";
const STATUS: &str = "io.k8s.api.batch.v1.JobStatus";
/// Labels by which a job's pods are found: those of the first versions and those of today.
const UID_LABELS: [&str; 2] = ["controller-uid", "batch.kubernetes.io/controller-uid"];
const NAME_LABELS: [&str; 2] = ["job-name", "batch.kubernetes.io/job-name"];

/// The kind's parts.
pub(crate) fn kind(capabilities: Capabilities) -> Kind {
    let [containers, images, selector] = template_columns(SPEC);
    Kind::new("batch", "jobs", Jobs { capabilities })
        .columns(vec![
            columns::name(),
            column("Status", "string", described("Status of the job."), |object| {
                state(object).into()
            }),
            column("Completions", "string", documented(STATUS, "succeeded"), |object| {
                completions(object).into()
            }),
            duration_column(),
            columns::age(),
            containers,
            images,
            selector,
        ])
        .selectable(vec![selectable("status.successful", &["status.succeeded"], |object| {
            integer_at(object, "/status/succeeded").unwrap_or(0).to_string()
        })])
}

fn state(object: &Value) -> &'static str {
    let is = |condition: &str| {
        object
            .get("status")
            .is_some_and(|status| status::is_true(status, condition))
    };
    let deleted = object.pointer("/metadata/deletionTimestamp").is_some();
    let states = [
        (is("Complete"), "Complete"),
        (is("Failed"), "Failed"),
        (deleted, "Terminating"),
        (is("Suspended"), "Suspended"),
        (is("FailureTarget"), "FailureTarget"),
        (is("SuccessCriteriaMet"), "SuccessCriteriaMet"),
    ];
    states
        .iter()
        .find(|(holds, _)| *holds)
        .map_or("Running", |(_, name)| name)
}

fn completions(object: &Value) -> String {
    let succeeded = integer_at(object, "/status/succeeded").unwrap_or(0);
    let parallelism = integer_at(object, "/spec/parallelism").unwrap_or(0);
    match integer_at(object, "/spec/completions") {
        Some(wanted) => format!("{succeeded}/{wanted}"),
        None if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        None => format!("{succeeded}/1"),
    }
}

fn duration_column() -> Column {
    let duration = |object: &Value, now: Timestamp| {
        let start = text_at(object, "/status/startTime");
        let end = text_at(object, "/status/completionTime").parse::<Timestamp>();
        match (start.parse::<Timestamp>(), end) {
            (Ok(start), Ok(end)) => time::human_duration(end.duration_since(start)),
            (Ok(_), Err(_)) => since(start, now),
            _ => String::new(),
        }
    };
    Column {
        cell: Arc::new(move |object, now| Value::from(duration(object, now))),
        ..column(
            "Duration",
            "string",
            described("Time required to complete the job."),
            |_| Value::Null,
        )
    }
}

struct Jobs {
    capabilities: Capabilities,
}

impl Strategy for Jobs {
    fn default(&self, object: &mut Value) {
        let spec = struct_mut(object, "spec");
        if !spec.contains_key("completions") && !spec.contains_key("parallelism") {
            set_default(spec, "completions", 1);
        }
        set_default(spec, "parallelism", 1);
        let backoff = if spec.contains_key("backoffLimitPerIndex") {
            i32::MAX
        } else {
            6
        };
        set_default(spec, "backoffLimit", backoff);
        set_default(spec, "completionMode", "NonIndexed");
        set_default(spec, "suspend", false);
        let replacement = if spec.contains_key("podFailurePolicy") {
            "Failed"
        } else {
            "TerminatingOrFailed"
        };
        set_default(spec, "podReplacementPolicy", replacement);
        set_default(spec, "manualSelector", false);
        default_template(spec);
        label_like_template(object);
    }

    fn drop_disabled(&self, object: &mut Value, old: Option<&Value>) {
        drop_disabled_at(self.capabilities, object, old, "/spec/template/spec");
    }

    fn prepare_for_create(&self, _context: &WriteContext, object: &mut Value) {
        object["status"] = json!({});
        // In Go the labels that a job has of its template are the template's own, which get more here, unless the job was copied
        // to generate its name, or there are none yet: then it gets them when all is valid. A job that was sent with the very labels
        // of its template is taken for one that was sent without any.
        let labels = |pointer: &str| object.pointer(pointer).cloned();
        let shares_labels = labels("/metadata/labels").is_some()
            && labels("/metadata/labels") == labels("/spec/template/metadata/labels")
            && text_at(object, "/metadata/generateName").is_empty();
        if shares_labels {
            struct_mut(object, "metadata").remove("labels");
        }
        if !is_true_at(object, "/spec/manualSelector") {
            generate_selector(object);
        }
        if shares_labels {
            label_like_template(object);
        }
    }

    fn canonicalize(&self, object: &mut Value) {
        label_like_template(object);
    }

    fn validate(&self, _context: &WriteContext, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        validate_job(self.capabilities, object, true, &mut errors);
        errors
    }

    fn prepare_for_update(&self, _context: &WriteContext, new: &mut Value, old: &Value) {
        keep_field(new, old, "status");
    }

    fn validate_update(&self, _context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        let old_label = |name: &str| template_label(old, name).is_some();
        let prefixed = old_label(NAME_LABELS[1]) && old_label(UID_LABELS[1]);
        // Kubernetes validates the object by itself and again as a change, and reports both.
        let capabilities = self
            .capabilities
            .in_change_of(old.pointer("/spec/template"))
            .with_selector_of(old.pointer("/spec/selector"));
        let mut errors = ErrorList::new();
        validate_job(capabilities, new, prefixed, &mut errors);
        spec::validate_job_spec(
            capabilities,
            new.get("spec").unwrap_or(&Value::Null),
            &Path::new("spec"),
            &mut errors,
        );
        spec::validate_job_spec_update(new, old, self.mutable_pods(old), &mut errors);
        errors
    }

    fn validate_status_update(&self, _context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        status::validate_job_status_update(new, old, &mut errors);
        errors
    }

    fn refuse_field(&self, _kind: &GroupVersionKind, field: &str) -> Option<String> {
        (field != "status.successful").then(|| format!("field label {field:?} not supported for Job"))
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = name_warnings(new, old);
        if let Some(spec) = new.get("spec").filter(|_| changes_generation(new, old)) {
            warnings.extend(spec::warnings(spec, "spec"));
        }
        warnings
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn orphans_by_default(&self) -> bool {
        true
    }

    fn default_propagation_warning(&self) -> Option<&'static str> {
        Some(
            "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove \
             them or set propagationPolicy=Orphan to suppress this warning",
        )
    }
}

impl Jobs {
    /// The parts of a job's template that an update of it may change (`validationOptionsForJob`).
    fn mutable_pods(&self, old: &Value) -> MutablePods {
        let has = |feature| self.capabilities.features.has(feature);
        let suspended = is_true_at(old, "/spec/suspend");
        let never_started = old.pointer("/status/startTime").is_none();
        let was_stopped = old
            .get("status")
            .is_some_and(|status| status::is_true(status, "Suspended"));
        let is_idle = integer_at(old, "/status/active").unwrap_or(0) == 0 && (never_started || was_stopped);
        MutablePods {
            resources: suspended && is_idle && has(Feature::MutablePodResourcesForSuspendedJobs),
            scheduling: suspended
                && if has(Feature::MutableSchedulingDirectivesForSuspendedJobs) {
                    is_idle
                } else {
                    never_started
                },
        }
    }
}

/// A job without labels has those of its template.
fn label_like_template(object: &mut Value) {
    let labels = object
        .pointer("/spec/template/metadata/labels")
        .and_then(Value::as_object);
    let Some(labels) = labels.filter(|labels| !labels.is_empty()).cloned() else {
        return;
    };
    let own = object.pointer("/metadata/labels").and_then(Value::as_object);
    if own.is_none_or(serde_json::Map::is_empty) {
        struct_mut(object, "metadata").insert("labels".into(), labels.into());
    }
}

/// Labels the template so that the job's pods are its alone, and selects them. What the client has set stays, and is
/// refused later if it does not fit.
fn generate_selector(object: &mut Value) {
    let [name, uid] = ["/metadata/name", "/metadata/uid"].map(|pointer| text_at(object, pointer).to_owned());
    let spec = struct_mut(object, "spec");
    let template = spec.entry("template").or_insert_with(|| json!({}));
    struct_mut(template, "metadata");
    let labels = struct_mut(&mut template["metadata"], "labels");
    for label in NAME_LABELS {
        set_default(labels, label, name.as_str());
    }
    for label in UID_LABELS {
        set_default(labels, label, uid.as_str());
    }
    let selector = spec.entry("selector").or_insert_with(|| json!({}));
    set_default(struct_mut(selector, "matchLabels"), UID_LABELS[1], uid);
}

fn template_label<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    object.pointer("/spec/template/metadata/labels")?.get(name)?.as_str()
}

/// As upstream's `ValidateJob`.
fn validate_job(capabilities: Capabilities, object: &Value, prefixed: bool, errors: &mut ErrorList) {
    validate_generated_selector(object, prefixed, errors);
    let spec = object.get("spec").unwrap_or(&Value::Null);
    spec::validate_job_spec(capabilities, spec, &Path::new("spec"), errors);
    let last_index = number(spec, "completions")
        .filter(|count| *count > 0)
        .map(|count| count - 1);
    if let Some(last) = last_index.filter(|_| text(spec, "completionMode") == "Indexed") {
        let name = text_at(object, "/metadata/name");
        let host = format!("{name}-{last}");
        if !names::dns1123_label(&host).is_empty() {
            let detail = format!("will not able to create pod with invalid DNS label: {host}");
            errors.push(Error::invalid_str(&Path::new("metadata.name"), name, &detail));
        }
    }
}

/// A selector that is not the client's own must be the generated one (`validateGeneratedSelector`).
fn validate_generated_selector(object: &Value, prefixed: bool, errors: &mut ErrorList) {
    let selector = object.pointer("/spec/selector");
    let Some(selector) = selector.filter(|_| !is_true_at(object, "/spec/manualSelector")) else {
        return;
    };
    let (name, uid) = (text_at(object, "/metadata/name"), text_at(object, "/metadata/uid"));
    let wanted = [
        (UID_LABELS[0], uid),
        (NAME_LABELS[0], name),
        (UID_LABELS[1], uid),
        (NAME_LABELS[1], name),
    ];
    let wanted = wanted.get(..if prefixed { 4 } else { 2 }).unwrap_or_default();
    let path = Path::new("spec.template.metadata.labels");
    for (label, expected) in wanted {
        let detail = format!("must be '{expected}'");
        match template_label(object, label) {
            None => errors.push(Error::required(&path.key(label), &detail)),
            Some(value) if value != *expected => {
                let labels = object.pointer("/spec/template/metadata/labels").unwrap_or(&Value::Null);
                errors.push(Error::invalid(&path.key(label), labels, &detail));
            }
            Some(_) => {}
        }
    }
    let labels: serde_json::Map<String, Value> = wanted
        .iter()
        .map(|(label, value)| ((*label).to_owned(), Value::from(*value)))
        .collect();
    let compiled = compile_label_selector(selector.as_object());
    if compiled.is_ok_and(|compiled| !compiled.matches(Some(&labels))) {
        let detail = "`selector` not auto-generated";
        errors.push(Error::invalid_shown(
            &Path::new("spec.selector"),
            shown_selector(selector),
            detail,
        ));
    }
}
