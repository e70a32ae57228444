//! CronJobs (`pkg/registry/batch/cronjob`, `pkg/apis/batch/validation`).

use std::sync::Arc;

use serde_json::{Value, json};
use trireme_machinery::field::{Error, ErrorList, Path};
use trireme_registry::{Column, Strategy, WriteContext, strategy::MetadataChecks};

use super::{jobs, schedule};
use crate::{
    checks::validate_nonnegative_fields,
    columns::{self, column, documented, since, wide},
    kind::Kind,
    pod_template::{Capabilities, drop_disabled_at},
    values::{items, keep_field, struct_mut, text, text_at},
    workload::{changes_generation, container_columns, default_template, name_warnings},
};

const SPEC: &str = "io.k8s.api.batch.v1.CronJobSpec";
const STATUS: &str = "io.k8s.api.batch.v1.CronJobStatus";
const JOB_SPEC: &str = "io.k8s.api.batch.v1.JobSpec";
/// The controller adds eleven characters to make the name of a job, which may have 63.
const MAX_NAME_BYTES: usize = 52;

/// The kind's parts.
pub(crate) fn kind(capabilities: Capabilities) -> Kind {
    let [containers, images] = container_columns("/spec/jobTemplate/spec/template/spec");
    let schedule = |object: &Value| Value::from(text_at(object, "/spec/schedule"));
    let suspend = |object: &Value| match object.pointer("/spec/suspend").and_then(Value::as_bool) {
        Some(true) => "True".into(),
        Some(false) => "False".into(),
        None => "<unset>".into(),
    };
    let active = |object: &Value| Value::from(object.get("status").map_or(0, |status| items(status, "active").len()));
    Kind::new("batch", "cronjobs", CronJobs { capabilities }).columns(vec![
        columns::name(),
        column("Schedule", "string", documented(SPEC, "schedule"), schedule),
        column("Timezone", "string", documented(SPEC, "timeZone"), |object| {
            let zone = object.pointer("/spec/timeZone");
            Value::from(zone.and_then(Value::as_str).unwrap_or("<none>"))
        }),
        column("Suspend", "boolean", documented(SPEC, "suspend"), suspend),
        column("Active", "integer", documented(STATUS, "active"), active),
        last_schedule_column(),
        columns::age(),
        containers,
        images,
        wide(column(
            "Selector",
            "string",
            documented(JOB_SPEC, "selector"),
            |object| columns::label_selector(object.pointer("/spec/jobTemplate/spec/selector")),
        )),
    ])
}

fn last_schedule_column() -> Column {
    Column {
        cell: Arc::new(|object, now| match text_at(object, "/status/lastScheduleTime") {
            "" => "<none>".into(),
            at => since(at, now).into(),
        }),
        ..column(
            "Last Schedule",
            "string",
            documented(STATUS, "lastScheduleTime"),
            |_| Value::Null,
        )
    }
}

struct CronJobs {
    capabilities: Capabilities,
}

impl Strategy for CronJobs {
    fn metadata_checks_of_update(&self, _context: &WriteContext) -> MetadataChecks {
        MetadataChecks::OfChange
    }

    fn default(&self, object: &mut Value) {
        let job = struct_mut(object, "spec")
            .get_mut("jobTemplate")
            .and_then(|template| template.get_mut("spec"));
        if let Some(job) = job.and_then(Value::as_object_mut) {
            default_template(job);
        }
    }

    fn drop_disabled(&self, object: &mut Value, old: Option<&Value>) {
        drop_disabled_at(self.capabilities, object, old, "/spec/jobTemplate/spec/template/spec");
    }

    fn prepare_for_create(&self, _context: &WriteContext, object: &mut Value) {
        object["status"] = json!({});
    }

    fn validate(&self, _context: &WriteContext, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        validate_cron_job_spec(
            self.capabilities,
            object.get("spec").unwrap_or(&Value::Null),
            None,
            &mut errors,
        );
        let name = text_at(object, "/metadata/name");
        if name.len() > MAX_NAME_BYTES {
            let detail = format!("must be no more than {MAX_NAME_BYTES} characters");
            errors.push(Error::invalid_str(&Path::new("metadata.name"), name, &detail));
        }
        errors
    }

    fn prepare_for_update(&self, _context: &WriteContext, new: &mut Value, old: &Value) {
        keep_field(new, old, "status");
    }

    fn validate_update(&self, _context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        let capabilities = self
            .capabilities
            .in_change_of(old.pointer("/spec/jobTemplate/spec/template"));
        validate_cron_job_spec(
            capabilities,
            new.get("spec").unwrap_or(&Value::Null),
            old.get("spec"),
            &mut errors,
        );
        errors
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = name_warnings(new, old);
        let job = new
            .pointer("/spec/jobTemplate/spec")
            .filter(|_| changes_generation(new, old));
        warnings.extend(
            job.map(|job| jobs::warnings(job, "spec.jobTemplate.spec"))
                .unwrap_or_default(),
        );
        // A new schedule of this sort is refused; only old ones are left to be warned of.
        if old.is_some() && text_at(new, "/spec/schedule").contains("TZ") {
            let text = "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see \
                        https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details";
            warnings.push(text.to_owned());
        }
        warnings
    }

    fn has_generation(&self) -> bool {
        true
    }
}

/// As upstream's `validateCronJobSpec`.
fn validate_cron_job_spec(capabilities: Capabilities, spec: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    let path = Path::new("spec");
    validate_schedule_format(spec, old, &path.child("schedule"), errors);
    validate_nonnegative_fields(spec, &path, &["startingDeadlineSeconds"], errors);
    let zone = spec.get("timeZone").and_then(Value::as_str);
    if old.is_none_or(|old| old.get("timeZone").and_then(Value::as_str) != zone)
        && let Some(zone) = zone
    {
        validate_time_zone(zone, &path.child("timeZone"), errors);
    }
    match text(spec, "concurrencyPolicy") {
        "" => errors.push(Error::required(&path.child("concurrencyPolicy"), "")),
        "Allow" | "Forbid" | "Replace" => {}
        other => {
            let at = path.child("concurrencyPolicy");
            errors.push(Error::not_supported(&at, other, &["Allow", "Forbid", "Replace"]));
        }
    }
    let job = spec.pointer("/jobTemplate/spec").unwrap_or(&Value::Null);
    jobs::validate_job_template_spec(capabilities, job, &path.child("jobTemplate.spec"), errors);
    validate_nonnegative_fields(
        spec,
        &path,
        &["successfulJobsHistoryLimit", "failedJobsHistoryLimit"],
        errors,
    );
}

/// As upstream's `validateScheduleFormat`.
fn validate_schedule_format(spec: &Value, old: Option<&Value>, path: &Path<'_>, errors: &mut ErrorList) {
    let schedule = text(spec, "schedule");
    if schedule.is_empty() {
        errors.push(Error::required(path, ""));
        return;
    }
    if let Err(why) = schedule::check(schedule) {
        errors.push(Error::invalid_str(path, schedule, &why));
    }
    if !schedule.contains("TZ") {
        return;
    }
    let had_zone = old.is_some_and(|old| text(old, "schedule").contains("TZ"));
    if !had_zone {
        let detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
        errors.push(Error::invalid_str(path, schedule, detail));
    } else if spec.get("timeZone").is_some() {
        let detail = "cannot use both timeZone field and TZ or CRON_TZ in schedule";
        errors.push(Error::invalid_str(path, schedule, detail));
    }
}

/// As upstream's `validateTimeZone`.
fn validate_time_zone(zone: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if zone.is_empty() {
        errors.push(Error::invalid_str(
            path,
            zone,
            "timeZone must be nil or non-empty string",
        ));
        return;
    }
    let is_part = |part: &str| {
        let fits = (1..=14).contains(&part.len()) && !matches!(part, "." | "..") && !part.starts_with('-');
        fits && part
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b".-_+".contains(&byte))
    };
    if !zone.split('/').all(is_part) {
        errors.push(Error::invalid_str(path, zone, &format!("unknown time zone {zone}")));
        return;
    }
    if zone.eq_ignore_ascii_case("local") {
        let detail = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        errors.push(Error::invalid_str(path, zone, detail));
    }
    if let Err(why) = schedule::check_zone(zone) {
        errors.push(Error::invalid_str(path, zone, &why));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Trial, merged, named};

    fn cron_job(patch: &Value) -> Value {
        let pod = json!({ "restartPolicy": "Never", "containers": [{ "name": "c", "image": "img:1" }] });
        let spec = json!({ "schedule": "@hourly", "jobTemplate": { "spec": { "template": { "spec": pod } } } });
        named("a", merged(&spec, patch))
    }

    #[test]
    fn errors_of_the_spec() {
        let trial = Trial::new("batch", "cronjobs", kind(Default::default()));
        let cases: [(Value, &[&str]); 8] = [
            (json!({ "timeZone": "Europe/Paris" }), &[]),
            (json!({ "schedule": null }), &["spec.schedule: Required value"]),
            (
                json!({ "schedule": "61 * * * *", "startingDeadlineSeconds": -1, "concurrencyPolicy": "Z" }),
                &[
                    r#"spec.schedule: Invalid value: "61 * * * *": end of range (61) above maximum (59): 61"#,
                    "spec.startingDeadlineSeconds: Invalid value: -1: must be greater than or equal to 0",
                    r#"spec.concurrencyPolicy: Unsupported value: "Z": supported values: "Allow", "Forbid", "Replace""#,
                ],
            ),
            (
                json!({ "schedule": "TZ=UTC * * * * *" }),
                &[
                    r#"spec.schedule: Invalid value: "TZ=UTC * * * * *": cannot use TZ or CRON_TZ in schedule, use timeZone field instead"#,
                ],
            ),
            (
                json!({ "timeZone": "" }),
                &[r#"spec.timeZone: Invalid value: "": timeZone must be nil or non-empty string"#],
            ),
            (
                json!({ "timeZone": "Mars/Base" }),
                &[r#"spec.timeZone: Invalid value: "Mars/Base": unknown time zone Mars/Base"#],
            ),
            (
                json!({ "timeZone": "local" }),
                &[
                    r#"spec.timeZone: Invalid value: "local": timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"#,
                    r#"spec.timeZone: Invalid value: "local": unknown time zone local"#,
                ],
            ),
            (
                json!({ "jobTemplate": { "spec": { "manualSelector": true, "selector": { "matchLabels": { "a": "b" } } } } }),
                &[
                    r#"spec.jobTemplate.spec.selector: Invalid value: {"matchLabels":{"a":"b"}}: `selector` will be auto-generated"#,
                    r#"spec.jobTemplate.spec.manualSelector: Unsupported value: true: supported values: "nil", "false""#,
                ],
            ),
        ];
        trial.expect_errors(&cases.map(|(patch, errors)| (cron_job(&patch), errors)));
        let long = "a".repeat(53);
        let error = format!("metadata.name: Invalid value: \"{long}\": must be no more than 52 characters");
        let mut body = cron_job(&json!({}));
        body["metadata"]["name"] = long.into();
        assert_eq!(trial.errors(body), [error]);
    }

    #[test]
    fn old_schedules_with_zones_are_warned_of() {
        let trial = Trial::new("batch", "cronjobs", kind(Default::default()));
        let old = trial.decode(cron_job(&json!({ "schedule": "TZ=UTC 0 0 * * *" })));
        let warning = "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see \
                    https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details";
        assert_eq!(trial.warnings(&old, Some(&old)), [warning]);
    }
}
