//! The metadata that the server owns: what it sets on create and carries over on update.

use std::{collections::BTreeSet, sync::LazyLock};

use jiff::Timestamp;
use rand::Rng as _;
use serde_json::Value;
use trireme_machinery::{ApiError, Object, json, meta::Meta};

/// The object's metadata, which is made if it is missing.
pub(super) fn of(object: &mut Value) -> &mut Object {
    if !object.get("metadata").is_some_and(Value::is_object)
        && let Some(fields) = object.as_object_mut()
    {
        fields.insert("metadata".into(), Value::Object(Object::new()));
    }
    object
        .get_mut("metadata")
        .and_then(Value::as_object_mut)
        .expect("every object is a JSON object with metadata")
}

/// The object's metadata to look at; empty if it is missing.
pub(super) fn view(object: &Value) -> Meta<'_> {
    static NONE: LazyLock<Object> = LazyLock::new(Object::new);
    Meta::new(object.get("metadata").and_then(Value::as_object).unwrap_or(&NONE))
}

/// A text field of the metadata, empty if absent.
pub(crate) fn text<'a>(object: &'a Value, name: &str) -> &'a str {
    object
        .get("metadata")
        .and_then(|metadata| metadata.get(name))
        .and_then(Value::as_str)
        .unwrap_or("")
}

/// `metadata.finalizers`
pub(super) fn finalizers(object: &Value) -> Vec<String> {
    let list = json::at(object, "/metadata/finalizers").and_then(Value::as_array);
    list.into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}

/// Replaces `metadata.finalizers`.
pub(super) fn set_finalizers(object: &mut Value, finalizers: Vec<String>) {
    set_or_remove(
        of(object),
        "finalizers",
        (!finalizers.is_empty()).then(|| finalizers.into()),
    );
}

/// An integer field of the metadata.
pub(super) fn integer(object: &Value, name: &str) -> Option<i64> {
    object.get("metadata")?.get(name)?.as_i64()
}

/// Reports whether a deletion is under way.
pub(super) fn is_terminating(object: &Value) -> bool {
    json::at(object, "/metadata/deletionTimestamp").is_some()
}

/// The time as `metav1.Time` is written.
pub(super) fn time(at: Timestamp) -> Value {
    Value::from(at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

/// `metadata.deletionTimestamp` as a time.
pub(super) fn deletion_time(object: &Value) -> Option<Timestamp> {
    text(object, "deletionTimestamp").parse().ok()
}

/// Sets a field, or removes it.
pub(super) fn set_or_remove(fields: &mut Object, name: &str, value: Option<Value>) {
    match value {
        Some(value) => fields.insert(name.to_owned(), value),
        None => fields.remove(name),
    };
}

/// Returns true if the object says in which namespace it is.
pub(super) fn has_namespace(object: &Value) -> bool {
    !text(object, "namespace").is_empty()
}

/// The object's namespace must be the URL's, or left out.
pub(crate) fn settle_namespace(object: &mut Value, namespace: &str) -> Result<(), ApiError> {
    let given = text(object, "namespace");
    if namespace.is_empty() {
        of(object).remove("namespace");
    } else if given.is_empty() {
        of(object).insert("namespace".into(), namespace.into());
    } else if given != namespace {
        return Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    Ok(())
}

/// The object's name must be the URL's.
pub(super) fn check_name(object: &Value, name: &str) -> Result<(), ApiError> {
    match text(object, "name") {
        "" => Err(ApiError::bad_request(format!(
            "the name of the object ({name} based on URL) was undeterminable: name must be provided"
        ))),
        given if given != name => Err(ApiError::bad_request(format!(
            "the name of the object ({given}) does not match the name on the URL ({name})"
        ))),
        _ => Ok(()),
    }
}

/// Drops what a new object may not bring along, before admission sees it (`rest.WipeObjectMetaSystemFields`).
pub(super) fn wipe_new(object: &mut Value) {
    let metadata = of(object);
    for name in [
        "creationTimestamp",
        "uid",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "selfLink",
    ] {
        metadata.remove(name);
    }
}

/// Sets the fields that every new object gets, whatever the client and admission said (`rest.FillObjectMetaSystemFields`).
pub(super) fn fill_new(object: &mut Value, now: Timestamp, has_generation: bool) {
    let metadata = of(object);
    metadata.insert("creationTimestamp".into(), time(now));
    metadata.insert("uid".into(), uuid::Uuid::new_v4().to_string().into());
    for name in ["deletionTimestamp", "deletionGracePeriodSeconds"] {
        metadata.remove(name);
    }
    if has_generation {
        metadata.insert("generation".into(), 1.into());
    }
}

/// When owners are looked at: in an object as it was sent, and in what mutating admission leaves, which also has those of a patch.
#[derive(Clone, Copy)]
pub(super) enum OwnersSeen {
    AsSent,
    AfterAdmission,
}

/// Drops repeated owners; gives back what to warn of.
pub(super) fn dedup_owners(object: &mut Value, seen: OwnersSeen) -> Option<String> {
    let owners = of(object).get_mut("ownerReferences").and_then(Value::as_array_mut)?;
    let (mut known, mut repeated): (BTreeSet<String>, Vec<String>) = Default::default();
    owners.retain(|owner| {
        let is_new = known.insert(owner.to_string());
        if !is_new {
            let uid = owner.get("uid").and_then(Value::as_str);
            repeated.push(uid.unwrap_or_default().to_owned());
        }
        is_new
    });
    let when = match seen {
        OwnersSeen::AsSent => "",
        OwnersSeen::AfterAdmission => " after mutating admission happens",
    };
    (!repeated.is_empty()).then(|| {
        format!(
            ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, and may \
             reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
            repeated.join(", ")
        )
    })
}

/// Takes from the old object all that an update keeps, whatever the client said or when it said nothing.
pub(super) fn carry_over(new: &mut Value, old: &Value) {
    let old = old.get("metadata").and_then(Value::as_object);
    let kept = |name: &str| old.and_then(|fields| fields.get(name)).cloned();
    let metadata = of(new);
    metadata.remove("selfLink");
    for name in ["creationTimestamp", "generation"] {
        set_or_remove(metadata, name, kept(name));
    }
    if let Some(at) = kept("deletionTimestamp") {
        metadata.insert("deletionTimestamp".into(), at);
    }
    for name in ["uid", "deletionGracePeriodSeconds"] {
        if metadata.get(name).is_none_or(|given| given.as_str() == Some(""))
            && let Some(value) = kept(name)
        {
            metadata.insert(name.to_owned(), value);
        }
    }
}

/// Sets `deletionTimestamp` and its grace period; the generation grows when the deletion begins.
pub(super) fn mark_deleted(object: &mut Value, at: Timestamp, grace_seconds: i64) {
    let begins = !is_terminating(object);
    let metadata = of(object);
    metadata.insert("deletionTimestamp".into(), time(at));
    metadata.insert("deletionGracePeriodSeconds".into(), grace_seconds.into());
    if begins && let Some(generation) = metadata.get("generation").and_then(Value::as_i64).filter(|g| *g > 0) {
        metadata.insert("generation".into(), (generation + 1).into());
    }
}

/// Makes a name from `generateName`: at most 63 bytes, five of them random.
pub fn generate_name(base: &str) -> String {
    const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    const RANDOM_BYTES: usize = 5;
    const MAX_BASE_BYTES: usize = 63 - RANDOM_BYTES;
    let mut end = base.len().min(MAX_BASE_BYTES);
    while !base.is_char_boundary(end) {
        end -= 1;
    }
    let mut name = base.get(..end).unwrap_or_default().to_owned();
    let mut random = rand::rng();
    for _ in 0..RANDOM_BYTES {
        name.push(char::from(
            *ALPHABET.get(random.random_range(0..ALPHABET.len())).unwrap_or(&b'x'),
        ));
    }
    name
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn generated_names_keep_58_bytes_of_their_base() {
        let name = generate_name(&"a".repeat(70));
        assert_eq!(name.len(), 63);
        assert!(generate_name("web-").starts_with("web-"));
        assert_eq!(generate_name("web-").len(), 9);
    }

    #[test]
    fn repeated_owners_go_and_others_stay() {
        let owner = |number: usize| json!({"uid": format!("u{number}"), "name": "a", "kind": "A", "apiVersion": "v1"});
        let other = json!({"uid": "u1", "name": "b", "kind": "A", "apiVersion": "v1"});
        let owners = json!([owner(1), owner(2), owner(1), other, owner(2), owner(1)]);
        let mut object = json!({"metadata": {"ownerReferences": owners}});
        let warning = dedup_owners(&mut object, OwnersSeen::AsSent).expect("some are repeated");
        assert!(warning.ends_with("duplicate UID(s) observed: u1, u2, u1"), "{warning}");
        assert_eq!(
            object["metadata"]["ownerReferences"],
            json!([owner(1), owner(2), other])
        );

        let many: Vec<Value> = (0..20_000).map(owner).collect();
        let mut object = json!({"metadata": {"ownerReferences": many}});
        assert_eq!(dedup_owners(&mut object, OwnersSeen::AsSent), None);
        assert_eq!(object["metadata"]["ownerReferences"], Value::from(many));
    }

    #[test]
    fn an_update_keeps_what_the_server_owns() {
        let old = json!({"metadata": {"uid": "u", "creationTimestamp": "t", "generation": 2, "labels": {"a": "b"}}});
        let mut new = json!({"metadata": {"uid": "", "creationTimestamp": "x", "generation": 9, "selfLink": "/"}});
        carry_over(&mut new, &old);
        assert_eq!(
            new,
            json!({"metadata": {"uid": "u", "creationTimestamp": "t", "generation": 2}})
        );
    }

    #[test]
    fn a_deletion_cannot_be_called_back_or_moved() {
        let old = json!({"metadata": {"deletionTimestamp": "t", "deletionGracePeriodSeconds": 0}});
        for given in [json!({}), json!({"deletionTimestamp": "u"})] {
            let mut new = json!({ "metadata": given });
            carry_over(&mut new, &old);
            assert_eq!(new, old);
        }
    }

    #[test]
    fn marking_bumps_the_generation_once() {
        let mut object = json!({"metadata": {"generation": 1}});
        mark_deleted(&mut object, Timestamp::UNIX_EPOCH, 30);
        mark_deleted(&mut object, Timestamp::UNIX_EPOCH, 0);
        assert_eq!(integer(&object, "generation"), Some(2));
        assert_eq!(integer(&object, "deletionGracePeriodSeconds"), Some(0));
        assert_eq!(text(&object, "deletionTimestamp"), "1970-01-01T00:00:00Z");
    }
}
