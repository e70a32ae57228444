//! Patches: the first line is `json`, `merge` or `strategic`, the second an object that says its kind, the rest a patch.
//!
//! Invariants: a patch that is applied gives an object of the kind that decodes to itself, nests no deeper than JSON may
//! and has not grown by more than the patch and what it may copy; a merge patch changes nothing the second time.

use bytes::Bytes;
use serde_json::Value;
use trireme_machinery::{
    Reason, json,
    patch::{self, JsonPatch},
    schema,
};
use trireme_registry::{request::PatchKind, testing};

use crate::{input::first_line, world};

/// No more than this may be added to an object by defaults of its type and by longer ways to write the same.
const SLACK: usize = 64 * 1024;

/// Checks the input as a kind of patch, an object and a patch.
pub fn check(data: &[u8]) {
    let (kind, rest) = first_line(data);
    let (object, patch) = first_line(rest);
    let Ok(decoded) = json::decode(object) else { return };
    let kind = match kind {
        b"json" => PatchKind::Json,
        b"merge" => PatchKind::Merge,
        b"strategic" => PatchKind::StrategicMerge,
        _ => return,
    };
    untyped(kind, &decoded.value, patch);
    typed(kind, decoded.value, patch);
}

/// On any document, before a type is held against it.
fn untyped(kind: PatchKind, document: &Value, patch: &[u8]) {
    let patched = match kind {
        PatchKind::Json => JsonPatch::decode(patch).and_then(|patch| patch.apply(document.clone())),
        PatchKind::Merge => patch::decode_merge_patch(patch).map(|decoded| {
            let mut once = document.clone();
            patch::merge_patch(&mut once, decoded.value.clone());
            let mut twice = once.clone();
            patch::merge_patch(&mut twice, decoded.value);
            assert_eq!(once, twice, "a merge patch applied again changes nothing");
            once
        }),
        PatchKind::StrategicMerge | PatchKind::Apply => return,
    };
    if let Ok(patched) = patched {
        is_bounded(&patched, document, patch);
    }
}

/// On an object of the kind that it says it is, as a PATCH does it.
fn typed(kind: PatchKind, document: Value, patch: &[u8]) {
    let text = |name: &str| document.get(name).and_then(Value::as_str).unwrap_or_default();
    let Some((info, version)) = world::by_kind(text("apiVersion"), text("kind")) else {
        return;
    };
    let Ok(mut object) = schema::decode(&info.types, version.type_id, document).map(|decoded| decoded.value) else {
        return;
    };
    schema::apply_defaults(&info.types, version.type_id, &mut object);
    match testing::apply_patch(info, version, kind, &Bytes::copy_from_slice(patch), object.clone()) {
        Ok((patched, _)) => {
            is_bounded(&patched, &object, patch);
            let again = schema::decode_with_empty(&info.types, version.type_id, patched.clone());
            assert_eq!(again.map(|again| again.value), Ok(patched), "the patched form is final");
        }
        Err(error) => assert_ne!(error.reason, Reason::InternalError, "{error:?}"),
    }
}

/// It can be written and read, and is not much larger than what it was made of.
fn is_bounded(patched: &Value, document: &Value, patch: &[u8]) {
    let printed = json::encode(patched);
    let most = json::encode(document).len() + patch.len() * 8 + patch::MAX_COPIED_BYTES + SLACK;
    assert!(printed.len() <= most, "{} bytes of at most {most}", printed.len());
    json::decode(&printed).expect("what is printed can be read");
}
