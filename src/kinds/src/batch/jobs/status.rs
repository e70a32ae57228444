//! Errors of a job's status: most rules hold only for what a write changes, so that old objects stay writable.

use jiff::Timestamp;
use serde_json::Value;
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    go_text::structs::{self, PrintedField, PrintedShape},
};

use super::indexes;
use crate::{
    checks::number,
    checks::validate_nonnegative_fields,
    values::{items, text, text_at},
};

const UNCOUNTED: &[PrintedField] = &[
    ("Succeeded", "succeeded", PrintedShape::Plain),
    ("Failed", "failed", PrintedShape::Plain),
];

/// A status with what its job wants.
#[derive(Clone, Copy)]
struct JobStatus<'a> {
    spec: &'a Value,
    status: &'a Value,
}

impl<'a> JobStatus<'a> {
    fn of(object: &'a Value) -> Self {
        let part = |name: &str| object.get(name).unwrap_or(&Value::Null);
        Self {
            spec: part("spec"),
            status: part("status"),
        }
    }

    fn is(self, condition: &str) -> bool {
        is_true(self.status, condition)
    }

    fn is_finished(self) -> bool {
        self.is("Complete") || self.is("Failed")
    }

    fn is_indexed(self) -> bool {
        text(self.spec, "completionMode") == "Indexed"
    }

    fn completions(self) -> Option<i64> {
        number(self.spec, "completions")
    }
}

/// Returns true if a status has a condition that is true.
pub(super) fn is_true(status: &Value, condition: &str) -> bool {
    has_condition(status, condition, "True")
}

fn has_condition(status: &Value, condition: &str, value: &str) -> bool {
    items(status, "conditions")
        .iter()
        .any(|item| text(item, "type") == condition && text(item, "status") == value)
}

/// The status and spec before and after a write.
#[derive(Clone, Copy)]
struct JobStatusChange<'a> {
    new: JobStatus<'a>,
    old: JobStatus<'a>,
}

impl JobStatusChange<'_> {
    fn condition(self, name: &str) -> bool {
        self.new.is(name) != self.old.is(name)
    }

    fn finished(self) -> bool {
        self.new.is_finished() != self.old.is_finished()
    }

    fn field(self, name: &str) -> bool {
        self.new.status.get(name) != self.old.status.get(name)
    }
}

/// Validates a new status (`ValidateJobStatusUpdate`).
pub(super) fn validate_job_status_update(new: &Value, old: &Value, errors: &mut ErrorList) {
    let changes = JobStatusChange {
        new: JobStatus::of(new),
        old: JobStatus::of(old),
    };
    let path = Path::new("status");
    let counters = ["active", "succeeded", "failed", "ready", "terminating"];
    validate_nonnegative_fields(changes.new.status, &path, &counters, errors);
    validate_uncounted_terminated_pods(changes.new.status, &path.child("uncountedTerminatedPods"), errors);
    validate_completion_conditions(changes, &path, errors);
    validate_finished_job(changes, &path, errors);
    validate_index_lists(changes, &path, errors);
    validate_running_counters(changes, &path, errors);
    validate_condition_transitions(changes, &path, errors);
}

/// A error of the conditions, which are not shown.
fn condition_error(path: &Path<'_>, detail: &str) -> Error {
    Error::invalid_shown(&path.child("conditions"), detail, "")
}

fn validate_uncounted_terminated_pods(status: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(uncounted) = status.get("uncountedTerminatedPods") else {
        return;
    };
    let mut seen = Vec::new();
    for list in ["succeeded", "failed"] {
        let path = path.child(list);
        for (index, uid) in items(uncounted, list).iter().enumerate() {
            let at = path.index(index);
            if uid.as_str() == Some("") {
                errors.push(Error::invalid(&at, uid, "must not be empty"));
            } else if seen.contains(&uid) {
                errors.push(Error::duplicate(&at, uid));
            } else {
                seen.push(uid);
            }
        }
    }
}

fn validate_completion_conditions(changes: JobStatusChange<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let job = changes.new;
    let at = path.child("completionTime");
    let completed = job.status.get("completionTime");
    if (changes.condition("Complete") || changes.condition("Failed")) && job.is("Complete") && job.is("Failed") {
        errors.push(condition_error(
            path,
            "cannot set Complete=True and Failed=true conditions",
        ));
    }
    let target_changed = changes.condition("Complete") || changes.condition("FailureTarget");
    if target_changed && job.is("Complete") && job.is("FailureTarget") {
        errors.push(condition_error(
            path,
            "cannot set Complete=True and FailureTarget=true conditions",
        ));
    }
    if changes.condition("Complete") || changes.field("completionTime") {
        match completed {
            Some(time) if !job.is("Complete") => {
                let detail = "cannot set completionTime when there is no Complete=True condition";
                errors.push(Error::invalid(&at, time, detail));
            }
            None if job.is("Complete") => {
                errors.push(Error::required(&at, "completionTime is required for Complete jobs"));
            }
            _ => {}
        }
    }
    let time = |name: &str| text(job.status, name).parse::<Timestamp>().ok();
    let is_early = time("startTime")
        .zip(time("completionTime"))
        .is_some_and(|(start, end)| end < start);
    if (changes.field("startTime") || changes.field("completionTime")) && is_early {
        let shown = completed.unwrap_or(&Value::Null);
        errors.push(Error::invalid(&at, shown, "must be equal to or after `startTime`"));
    }
    let failed_changed = changes.condition("Failed") || changes.field("failedIndexes");
    if failed_changed && job.is("Failed") && !job.is("FailureTarget") {
        let detail = "cannot set Failed=True condition without the FailureTarget=true condition";
        errors.push(condition_error(path, detail));
    }
    let success_changed = changes.condition("Complete") || changes.condition("SuccessCriteriaMet");
    if success_changed && job.is("Complete") && !job.is("SuccessCriteriaMet") {
        let detail = "cannot set Complete=True condition without the SuccessCriteriaMet=true condition";
        errors.push(condition_error(path, detail));
    }
}

fn validate_finished_job(changes: JobStatusChange<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let job = changes.new;
    if !job.is_finished() {
        return;
    }
    let active = number(job.status, "active").unwrap_or(0);
    if (changes.finished() || changes.field("active")) && active > 0 {
        errors.push(Error::invalid(
            &path.child("active"),
            &active.into(),
            "active>0 is invalid for finished job",
        ));
    }
    // A suspended job that wants nothing is complete without ever having started.
    let never_starts = is_suspended(job) && job.completions() == Some(0);
    let may_tell_of_start = changes.finished() || changes.field("startTime");
    if may_tell_of_start && !never_starts && job.status.get("startTime").is_none() {
        errors.push(Error::required(
            &path.child("startTime"),
            "startTime is required for finished job",
        ));
    }
    let uncounted = job.status.get("uncountedTerminatedPods");
    let is_left = |pods: &&Value| !items(pods, "failed").is_empty() || !items(pods, "succeeded").is_empty();
    let may_tell = changes.finished() || changes.field("uncountedTerminatedPods");
    if let Some(pods) = uncounted.filter(is_left).filter(|_| may_tell) {
        let shown = structs::compact(Some(pods), PrintedShape::Pointer(UNCOUNTED));
        errors.push(Error::invalid_shown(
            &path.child("uncountedTerminatedPods"),
            shown,
            "must be empty for finished job",
        ));
    }
}

fn validate_index_lists(changes: JobStatusChange<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let job = changes.new;
    let per_index = job.spec.get("backoffLimitPerIndex").is_some();
    let completed = text(job.status, "completedIndexes");
    let failed = job.status.get("failedIndexes").and_then(Value::as_str);
    let (at_completed, at_failed) = (path.child("completedIndexes"), path.child("failedIndexes"));
    let (completed_changed, failed_changed) = (changes.field("completedIndexes"), changes.field("failedIndexes"));
    if let Some(completions) = job.completions() {
        if let Some(why) = indexes::count(completed, completions)
            .err()
            .filter(|_| completed_changed)
        {
            let detail = format!("error parsing completedIndexes: {why}");
            errors.push(Error::invalid_str(&at_completed, completed, &detail));
        }
        let parsed = failed
            .filter(|_| failed_changed && per_index)
            .map(|list| (list, indexes::count(list, completions)));
        if let Some((list, Err(why))) = parsed {
            errors.push(Error::invalid_str(
                &at_failed,
                list,
                &format!("error parsing failedIndexes: {why}"),
            ));
        }
    }
    if completed_changed && !completed.is_empty() && !job.is_indexed() {
        let detail = "cannot set non-empty completedIndexes when non-indexed completion mode";
        errors.push(Error::invalid_str(&at_completed, completed, detail));
    }
    if let Some(failed) = failed.filter(|_| failed_changed && !per_index) {
        let detail = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
        errors.push(Error::invalid_str(&at_failed, failed, detail));
    }
    let lists = failed
        .zip(job.completions())
        .filter(|_| completed_changed || failed_changed);
    if let Some((failed, completions)) = lists
        && let Some(shared) = indexes::first_shared(completed, failed, completions)
    {
        let detail = format!("failedIndexes and completedIndexes overlap at index: {shared}");
        errors.push(Error::invalid_str(&at_failed, failed, &detail));
    }
}

fn validate_running_counters(changes: JobStatusChange<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let job = changes.new;
    let count = |name: &str| number(job.status, name).unwrap_or(0);
    if (changes.finished() || changes.field("terminating")) && count("terminating") > 0 && job.is_finished() {
        let detail = "terminating>0 is invalid for finished job";
        errors.push(Error::invalid(
            &path.child("terminating"),
            &count("terminating").into(),
            detail,
        ));
    }
    let ready = number(job.status, "ready").filter(|ready| *ready > count("active"));
    if let Some(ready) = ready.filter(|_| changes.field("ready") || changes.field("active")) {
        errors.push(Error::invalid(
            &path.child("ready"),
            &ready.into(),
            "cannot set more ready pods than active",
        ));
    }
    if job.is("SuccessCriteriaMet") {
        for failure in ["Failed", "FailureTarget"]
            .into_iter()
            .filter(|failure| job.is(failure))
        {
            let detail = format!("cannot set SuccessCriteriaMet=True and {failure}=true conditions");
            errors.push(condition_error(path, &detail));
        }
    } else if job.is("Complete") && job.spec.get("successPolicy").is_some() {
        let detail = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True";
        errors.push(condition_error(path, detail));
    }
}

fn validate_condition_transitions(changes: JobStatusChange<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let (job, old) = (changes.new, changes.old);
    for condition in ["Failed", "Complete", "FailureTarget"] {
        if old.is(condition) && !job.is(condition) {
            let detail = format!("cannot disable the terminal {condition}=True condition");
            errors.push(condition_error(path, &detail));
        }
    }
    let may_shrink = job.is_indexed() && job.completions() == number(job.spec, "parallelism");
    for counter in ["failed", "succeeded"] {
        let count = |job: JobStatus<'_>| number(job.status, counter).unwrap_or(0);
        if count(job) < count(old) && !(counter == "succeeded" && may_shrink) {
            let detail = format!("cannot decrease the {counter} counter");
            errors.push(Error::invalid(&path.child(counter), &count(job).into(), &detail));
        }
    }
    let (completed, before) = (job.status.get("completionTime"), old.status.get("completionTime"));
    if let Some(time) = completed.filter(|time| before.is_some_and(|before| before != *time)) {
        errors.push(Error::invalid(
            &path.child("completionTime"),
            time,
            "field is immutable",
        ));
    }
    validate_start_time(changes, &path.child("startTime"), errors);
    if old.is("SuccessCriteriaMet") && !job.is("SuccessCriteriaMet") {
        errors.push(condition_error(
            path,
            "cannot disable the SuccessCriteriaMet=True condition",
        ));
    }
    if old.is("Complete") && !old.is("SuccessCriteriaMet") && job.is("SuccessCriteriaMet") {
        let detail = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions";
        errors.push(condition_error(path, detail));
    }
}

fn is_suspended(job: JobStatus<'_>) -> bool {
    job.spec.get("suspend") == Some(&Value::Bool(true))
}

/// Only a job that is suspended or goes on after it was may start at another time.
fn validate_start_time(changes: JobStatusChange<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let (job, old) = (changes.new, changes.old);
    let had_started = !text_at(old.status, "/startTime").is_empty();
    let resumes = old.is("Suspended") && has_condition(job.status, "Suspended", "False");
    if is_suspended(job) || resumes || !had_started || !changes.field("startTime") {
        return;
    }
    let time = job.status.get("startTime").unwrap_or(&Value::Null);
    errors.push(Error::invalid(
        path,
        time,
        "field is immutable for unsuspended job once set",
    ));
}
