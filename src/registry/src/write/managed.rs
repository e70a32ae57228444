//! Stage *managed fields*: who set which field, kept in `metadata.managedFields`.
//!
//! The stage sees objects before mutating admission and before the strategy prepares them, as in
//! `k8s.io/apiserver/pkg/endpoints/handlers`: what those change belongs to nobody. What the strategy will put back is
//! not owned by the writer either: [`Strategy::reset_fields`](crate::Strategy::reset_fields).

use jiff::Timestamp;
use serde_json::{Value, json};
use trireme_machinery::{
    ApiError, GroupVersion, GroupVersionKind, json,
    managed::{
        self, Conflicts, FieldSet, ManagedVersions, ManagerId, Managers, SchemaNode, is_reset, same_but_for_times,
    },
    meta::ANNOTATIONS_MAX_BYTES,
    schema::{self, TypeId, TypeTable},
};

use super::{Writer, managed_versions::ResourceVersions, metadata};
use crate::{
    admission::WriteRequest,
    definition::{ResourceDefinition, ServedVersion},
    request::Subresource,
};

pub(super) const MANAGED_FIELDS: &str = "managedFields";

/// The schema of a version.
pub(super) fn schema_node<'d>(definition: &'d ResourceDefinition, version: &'d ServedVersion) -> SchemaNode<'d> {
    match &version.schema {
        Some(schema) => SchemaNode::Own(schema.merge_schema()),
        None => SchemaNode::Struct(&definition.types, version.type_id),
    }
}

/// The one version of objects that are posted and not kept.
struct PostedVersion<'t> {
    types: &'t TypeTable,
    type_id: TypeId,
    version: String,
}

impl ManagedVersions for PostedVersion<'_> {
    fn node(&self, _version: &str) -> SchemaNode<'_> {
        SchemaNode::Struct(self.types, self.type_id)
    }

    fn convert(&self, object: &Value, version: &str) -> Option<Value> {
        (version == self.version).then(|| object.clone())
    }

    fn changeable(&self, fields: FieldSet, _version: &str) -> FieldSet {
        fields
    }
}

/// Notes in an object that is posted and not kept who set its fields, and brings it into its last form.
pub(crate) fn manage_posted(
    (types, type_id, kind): (&TypeTable, TypeId, &GroupVersionKind),
    object: &mut Value,
    (manager, subresource): (&str, &str),
    now: Timestamp,
) {
    let versions = PostedVersion {
        types,
        type_id,
        version: kind.group_version().to_string(),
    };
    let given = object
        .get_mut("metadata")
        .and_then(Value::as_object_mut)
        .and_then(|metadata| metadata.remove(MANAGED_FIELDS));
    let mut managers = Managers::decode(given.as_ref()).unwrap_or_default();
    let blank = blank_of(types, type_id, kind);
    let id = ManagerId::updater(manager, &versions.version, subresource);
    managers.update(&versions, &blank, object, id, &time_of(now));
    if let Some(entries) = managers.encode() {
        metadata::of(object).insert(MANAGED_FIELDS.into(), entries);
    }
    schema::void_empty(types, type_id, object);
}

/// An object of a version without any field that a client sets, as Go makes one.
pub(super) fn blank(definition: &ResourceDefinition, version: &ServedVersion) -> Value {
    let kind = definition.kind_in(version);
    match version.schema {
        Some(_) => bare(&kind),
        None => blank_of(&definition.types, version.type_id, &kind),
    }
}

fn blank_of(types: &TypeTable, type_id: TypeId, kind: &GroupVersionKind) -> Value {
    schema::decode(types, type_id, bare(kind))
        .map(|decoded| decoded.value)
        .unwrap_or_default()
}

fn bare(kind: &GroupVersionKind) -> Value {
    json!({
        "apiVersion": kind.group_version().to_string(),
        "kind": &*kind.kind,
    })
}

/// `metadata.managedFields`
fn entries_of(object: &Value) -> Option<&Value> {
    json::at(object, "/metadata/managedFields")
}

/// The time as entries show it.
pub(super) fn time_of(now: Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

impl Writer {
    /// Notes in `object`, which is in the version that it is written in, what its writer changes of `old`. An apply has done so, and so has
    /// a write of the scale.
    pub(super) async fn manage_fields(&self, request: &WriteRequest, old: Option<&Value>, object: &mut Value) {
        if request.is_apply() || request.subresource == Subresource::Scale {
            return;
        }
        let mut given = metadata::of(object).remove(MANAGED_FIELDS);
        let live = old.and_then(entries_of);
        if request.subresource != Subresource::None {
            given = given.filter(|given| Some(given) == live);
        }
        if let (Some(old), Some(live)) = (old, live)
            && (given.is_none() || given.as_ref() == Some(live))
        {
            let mut entries = given.take().unwrap_or_else(|| live.clone());
            if self.note_time(request, old, object, &mut entries).is_some() {
                metadata::of(object).insert(MANAGED_FIELDS.into(), entries);
                return;
            }
        }
        let live = || Managers::decode(live).unwrap_or_default();
        let managers = match given.as_ref() {
            given if is_reset(given) => Managers::default(),
            given => match Managers::decode(given) {
                Ok(managers) if !managers.is_empty() => managers,
                _ => live(),
            },
        };
        // An object that nobody is known to manage stays so until it is applied to.
        if old.is_some() && managers.is_empty() {
            return;
        }
        let managers = self.note_changes(request, old, object, &managers).await;
        if let Some(entries) = managers.and_then(|managers| managers.encode()) {
            metadata::of(object).insert(MANAGED_FIELDS.into(), entries);
        }
    }

    /// Notes a change of fields that its writer, and nobody else, owns already, which is what most updates are: only a time
    /// changes in the entries. `None` if the change is another one.
    fn note_time(&self, request: &WriteRequest, old: &Value, new: &Value, entries: &mut Value) -> Option<()> {
        let version = self.version(&request.target).ok()?;
        if version.group_version != self.info.written_version(version).group_version {
            return None;
        }
        let versions = ResourceVersions::new(&self.info, version, request.subresource);
        let id = self.updater(request, version);
        managed::update_owned(entries, &versions, old, new, &id, &time_of(request.context.now))
    }

    fn updater(&self, request: &WriteRequest, version: &ServedVersion) -> ManagerId {
        let at = version.group_version.to_string();
        ManagerId::updater(&request.options.field_manager, &at, request.subresource.name())
    }

    /// The managers after a change. There are none any more if a converter does not convert the object into the version of
    /// one of them: the write goes on, as at kube-apiserver.
    async fn note_changes(
        &self,
        request: &WriteRequest,
        old: Option<&Value>,
        new: &Value,
        managers: &Managers,
    ) -> Option<Managers> {
        let version = self.version(&request.target).ok()?;
        let mut versions = ResourceVersions::new(&self.info, version, request.subresource);
        let at = version.group_version.to_string();
        let id = self.updater(request, version);
        let time = time_of(request.context.now);
        let blank = old.is_none().then(|| blank(&self.info, version));
        let old = old.or(blank.as_ref())?;
        let in_written;
        let (old, new) = if version.group_version == self.info.written_version(version).group_version {
            (old, new)
        } else {
            in_written = (versions.convert(old, &at)?, versions.convert(new, &at)?);
            (&in_written.0, &in_written.1)
        };
        let noted = versions.evaluate(|versions| {
            let mut managers = managers.clone();
            managers.update(versions, old, new, id.clone(), &time);
            managers
        });
        let noted = noted.await;
        noted
            .inspect_err(|error| tracing::warn!(%error, "the managers of an object's fields are lost"))
            .ok()
    }

    /// Puts back the old entries if a change is one of their times alone.
    pub(super) fn keep_times(&self, object: &mut Value, old: &Value) {
        // Most changes are of more, which is seen at the first difference.
        if !super::object::same_but_for(object, old, &["resourceVersion", MANAGED_FIELDS]) {
            return;
        }
        if let (Some(after), Some(before)) = (entries_of(object), entries_of(old))
            && after != before
            && same_but_for_times(after, before)
        {
            metadata::of(object).insert(MANAGED_FIELDS.into(), before.clone());
        }
    }

    /// The object after an apply, in the version of the request, with the entries of its managers.
    pub(super) async fn applied(
        &self,
        request: &WriteRequest,
        mut live: Value,
        is_new: bool,
        applied: &Value,
    ) -> Result<Value, ApiError> {
        let version = self.version(&request.target)?;
        let mut entries = metadata::of(&mut live).remove(MANAGED_FIELDS);
        let write = ManagedApply {
            at: version.group_version.to_string(),
            id: ManagerId::applier(&request.options.field_manager, request.subresource.name()),
            force: request.options.force.unwrap_or_default(),
            time: time_of(request.context.now),
        };
        let is_repeated = self.info.converter.is_some();
        let merge = |versions: &ResourceVersions<'_>| {
            // Where nothing is missing, which only a converter can make so, once is enough.
            let entries = if is_repeated { entries.clone() } else { entries.take() };
            let blank = || blank(&self.info, version);
            let blank = (!is_new).then_some(&blank as &dyn Fn() -> Value);
            write.merged(versions, (&live, applied), entries, blank)
        };
        let mut versions = ResourceVersions::new(&self.info, version, request.subresource);
        let (merged, entries) = versions.evaluate(merge).await??;
        let mut object = self.typed(version, merged, applied)?;
        if write.is_by_kubectl() {
            renew_last_applied(&mut object, applied);
        }
        if let Some(entries) = entries {
            metadata::of(&mut object).insert(MANAGED_FIELDS.into(), entries);
        }
        Ok(object)
    }

    /// The merged object in the form in which the server keeps it.
    fn typed(&self, version: &ServedVersion, merged: Value, applied: &Value) -> Result<Value, ApiError> {
        let decoded = match &version.schema {
            Some(schema) => schema.decode_merged(merged),
            None => schema::decode(&self.info.types, version.type_id, merged),
        };
        decoded.map(|decoded| decoded.value).map_err(|error| {
            let kind = self.info.kind_in(version);
            ApiError::bad_request(format!(
                "failed to convert new object ({}) to proper version: unable to convert unstructured object to {}, \
                 Kind={}: {error}",
                shown(applied),
                slashed(&version.group_version.to_string()),
                kind.kind
            ))
        })
    }

    /// The error of an applied value that does not fit its schema, or is not meant for this resource.
    pub(super) fn check_applied(&self, request: &WriteRequest, applied: &Value) -> Result<(), ApiError> {
        let version = self.version(&request.target)?;
        let expected = (version.group_version.to_string(), &*request.kind.kind);
        check_applied(schema_node(&self.info, version), (&expected.0, expected.1), applied)
    }
}

/// An apply by a manager in a version.
struct ManagedApply {
    at: String,
    id: ManagerId,
    force: bool,
    time: String,
}

impl ManagedApply {
    fn is_by_kubectl(&self) -> bool {
        self.id.manager == "kubectl"
    }

    /// The merged object and its entries. What an object without managers had before gets one, if a `blank` is given to
    /// compare it with.
    fn merged(
        &self,
        versions: &ResourceVersions<'_>,
        (live, applied): (&Value, &Value),
        mut entries: Option<Value>,
        blank: Option<&dyn Fn() -> Value>,
    ) -> Result<(Value, Option<Value>), ApiError> {
        let id = (&self.id, self.at.as_str());
        if let Some(entries) = &mut entries
            && let Some(merged) = managed::apply_owned(entries, versions, live, applied, id, &self.time)
        {
            return Ok((merged, Some(entries.take())));
        }
        let mut managers = Managers::decode(entries.as_ref()).unwrap_or_default();
        if let Some(blank) = blank.filter(|_| managers.is_empty()) {
            let through = (self.at.as_str(), self.id.subresource.as_str());
            managers.adopt(versions, &blank(), live, through, &self.time);
        }
        let mut apply = |force: bool| {
            let id = (self.id.clone(), self.at.as_str());
            managers.apply(versions, live, applied, id, force, &self.time)
        };
        let merged = apply(self.force).or_else(|conflicts| match self.standing(versions, live, conflicts) {
            None => apply(true).map_err(ApiError::from),
            Some(refused) => Err(refused.into()),
        })?;
        Ok((merged, managers.encode()))
    }

    /// The conflicts that stand: not those of kubectl over what it applied itself before, on the client's side.
    fn standing(&self, versions: &ResourceVersions<'_>, live: &Value, conflicts: Conflicts) -> Option<Conflicts> {
        let last_applied = || last_applied_fields(versions.node(&self.at), live, &self.at);
        let allowed = self.is_by_kubectl().then(last_applied).flatten();
        let standing = conflicts.without(&allowed.unwrap_or_default());
        (!standing.is_empty()).then_some(standing)
    }
}

/// The error of an applied value that does not fit its schema, or is of another version and kind.
pub(super) fn check_applied(
    node: SchemaNode<'_>,
    (version, kind): (&str, &str),
    applied: &Value,
) -> Result<(), ApiError> {
    let text = |name: &str| applied.get(name).and_then(Value::as_str).unwrap_or_default();
    let (given_version, given_kind) = match text("apiVersion") {
        // A version that is none takes the kind with it.
        given if !given.is_empty() && GroupVersion::parse(given).is_none() => ("", ""),
        given => (given, text("kind")),
    };
    if (given_version, given_kind) != (version, kind) {
        let text = format!("invalid object type: {}, Kind={given_kind}", slashed(given_version));
        return Err(ApiError::bad_request(text));
    }
    let entries = json::at(applied, "/metadata/managedFields");
    if entries.is_some_and(|entries| !entries.is_null()) {
        return Err(ApiError::bad_request("metadata.managedFields must be nil"));
    }
    match managed::validate(node, applied) {
        None => Ok(()),
        Some(error) => Err(ApiError::bad_request(format!(
            "failed to create typed patch object ({}): {error}",
            shown(applied)
        ))),
    }
}

/// The fields that the annotation of client-side apply has with the same values as the object.
fn last_applied_fields(node: SchemaNode<'_>, live: &Value, version: &str) -> Option<FieldSet> {
    let text = json::at(live, "/metadata/annotations")?.get(LAST_APPLIED)?.as_str()?;
    let last: Value = serde_json::from_str(text).ok()?;
    let is_alike = last.get("apiVersion")?.as_str()? == version && last.get("kind") == live.get("kind");
    if !is_alike || managed::validate(node, &last).is_some() {
        return None;
    }
    let comparison = managed::FieldComparison::of(node, &last, live);
    let fields = managed::fields_of(node, &last);
    Some(
        fields
            .difference(&comparison.modified)
            .difference(&comparison.added)
            .difference(&comparison.removed),
    )
}

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Keeps the annotation of client-side apply, where there is one, in step with what kubectl applied; it goes if the annotations
/// would be too long with it.
fn renew_last_applied(object: &mut Value, applied: &Value) {
    let has_one = |annotations: &Value| annotations.get(LAST_APPLIED).is_some_and(|text| text != "");
    let Some(annotations) = object
        .pointer_mut("/metadata/annotations")
        .filter(|fields| has_one(fields))
    else {
        return;
    };
    let mut last = applied.clone();
    if let Some(fields) = last.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        fields.remove(LAST_APPLIED);
    }
    if let Some(fields) = annotations.as_object_mut() {
        let text = String::from_utf8_lossy(&json::encode(&last)).into_owned();
        fields.insert(LAST_APPLIED.into(), (json::compact(&text) + "\n").into());
        let text_bytes = |text: &Value| text.as_str().map_or(0, str::len);
        let bytes: usize = fields.iter().map(|(key, text)| key.len() + text_bytes(text)).sum();
        if bytes > ANNOTATIONS_MAX_BYTES {
            fields.remove(LAST_APPLIED);
        }
    }
}

/// `namespace/name; group/version, Kind=kind`
fn shown(applied: &Value) -> String {
    let text = |name: &str| applied.get(name).and_then(Value::as_str).unwrap_or_default();
    format!(
        "{}/{}; {}, Kind={}",
        metadata::text(applied, "namespace"),
        metadata::text(applied, "name"),
        slashed(text("apiVersion")),
        text("kind")
    )
}

/// A group and version with the slash that Go writes also where the group is empty.
fn slashed(version: &str) -> String {
    if version.contains('/') {
        version.to_owned()
    } else {
        format!("/{version}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn renewed(applied: &Value, mut annotations: Value) -> Value {
        annotations[LAST_APPLIED] = "{}".into();
        let mut object = json!({ "metadata": { "annotations": annotations } });
        renew_last_applied(&mut object, applied);
        object["metadata"]["annotations"].take()
    }

    #[test]
    fn the_last_applied_configuration_is_written_as_go_writes_it() {
        let applied =
            json!({"data": {"a": "<&>", "n": [1.0, 1e20]}, "metadata": {"annotations": {LAST_APPLIED: "x", "b": "c"}}});
        let text =
            r#"{"data":{"a":"\u003c\u0026\u003e","n":[1,100000000000000000000]},"metadata":{"annotations":{"b":"c"}}}"#;
        assert_eq!(renewed(&applied, json!({})), json!({LAST_APPLIED: format!("{text}\n")}));
    }

    #[test]
    fn a_last_applied_configuration_that_is_too_long_goes() {
        let fitting = "y".repeat(ANNOTATIONS_MAX_BYTES - LAST_APPLIED.len() - "{\"a\":\"\"}\n".len());
        let kept = renewed(&json!({ "a": fitting }), json!({}));
        assert!(kept.get(LAST_APPLIED).is_some());
        for (applied, annotations) in [
            (json!({"a": fitting.clone() + "y"}), json!({})),
            (json!({ "a": fitting }), json!({"b": ""})),
        ] {
            assert_eq!(renewed(&applied, annotations.clone()), annotations);
        }
    }
}
