//! Objects of every kind, as a create and an update see them.
//!
//! An input is a manifest in JSON on the first line, which says its kind, and the object that it replaces on the
//! second; without a second line it replaces itself. What holds: decoding, defaults and the way to the stored version
//! are final (done again they change nothing), whatever is in an object; no hook of a strategy panics; an object that
//! is valid can be cached, read back, shown in every version and as a row of a Table.

use bytes::Bytes;
use serde_json::Value;
use trireme_machinery::{
    Object, Reason,
    field::Path,
    json,
    meta::{self, Meta, MetaMut},
    schema,
};
use trireme_registry::{
    Item, ResourceDefinition, ServedVersion,
    item::parse,
    request::{Body, BodyFormat, FieldValidation},
    subresource::SubresourceRole,
    testing, versions,
};

use crate::{input::first_line, json::assert_same, world};

/// Checks the input as a manifest and what it replaces.
pub fn check(data: &[u8]) {
    let (manifest, replaced) = first_line(data);
    let Some((info, version, new)) = decoded(manifest) else {
        return;
    };
    let old = decoded(replaced).filter(|(other, _, _)| other.resource == info.resource);
    let old = old.map(|(_, other, mut object)| {
        settle(info, other, &mut object);
        object
    });
    put_through(info, version, new, old);
}

/// The object that a manifest describes, of the kind that it says it is.
fn decoded(manifest: &[u8]) -> Option<(&'static ResourceDefinition, &'static ServedVersion, Value)> {
    let value = json::decode(manifest).ok()?.value;
    let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
    let (info, version) = world::by_kind(text("apiVersion"), text("kind"))?;
    let body = Body {
        bytes: Bytes::copy_from_slice(manifest),
        format: BodyFormat::Json,
    };
    let warned = testing::decode_body(info, version, world::KNOWN_KINDS.clone(), &body, FieldValidation::Warn);
    let strict = testing::decode_body(
        info,
        version,
        world::KNOWN_KINDS.clone(),
        &body,
        FieldValidation::Strict,
    );
    match (warned, strict) {
        (Ok((object, warnings)), Ok((strict, _))) => {
            assert!(warnings.is_empty() && object == strict, "{warnings:?}");
            Some((info, version, object))
        }
        (Ok((object, warnings)), Err(error)) => {
            assert!(!warnings.is_empty(), "strict mode refuses what is warned of: {error}");
            Some((info, version, object))
        }
        (Err(error), strict) => {
            assert!(error.reason == Reason::BadRequest && strict.is_err(), "{error:?}");
            None
        }
    }
}

/// Puts a decoded object through the hooks of a create, and of an update of `old` or of itself.
pub(crate) fn put_through(info: &ResourceDefinition, version: &ServedVersion, mut object: Value, old: Option<Value>) {
    is_final(info, version, &object);
    settle(info, version, &mut object);
    let (strategy, context) = (&*info.strategy, world::context(version));
    let old = old.unwrap_or_else(|| object.clone());
    update(info, version, &object, &old);
    identify(info, &mut object);
    strategy.prepare_for_create(&context, &mut object);
    let errors = testing::errors_of_new(info, &context, &object);
    if errors.is_empty() {
        strategy.canonicalize(&mut object);
        let _ = strategy.warnings(&object, None);
        is_servable(info, &object);
    } else {
        let error = trireme_machinery::ApiError::invalid(&info.group_kind(), "name", &errors);
        assert!(!error.message.is_empty());
    }
}

/// The other hooks: whatever the two objects are, they end.
fn update(info: &ResourceDefinition, version: &ServedVersion, new: &Value, old: &Value) {
    let (strategy, context) = (&*info.strategy, world::context(version));
    let path = Path::new("metadata");
    let _ = meta::validate_builtin_object_meta_update(metadata(new), metadata(old), &path);
    let with = |prepare: &dyn Fn(&mut Value)| {
        let mut object = new.clone();
        prepare(&mut object);
        object
    };
    let changed = with(&|object| strategy.prepare_for_update(&context, object, old));
    let _ = strategy.validate_update(&context, &changed, old);
    let _ = strategy.is_new_generation(&changed, old);
    let _ = strategy.warnings(&changed, Some(old));
    let status = with(&|object| strategy.prepare_for_status_update(&context, object, old));
    let _ = strategy.validate_status_update(&context, &status, old);
    let finalized = with(&|object| strategy.prepare_for_finalize(&context, object, old));
    let _ = strategy.validate_finalize(&context, &finalized, old);
    for name in ["ephemeralcontainers", "resize", "approval"] {
        if let Some(SubresourceRole::Update(updater)) = strategy.subresource(name) {
            let part_of = with(&|object| updater.prepare_for_update(&context, object, old));
            let _ = updater.validate_update(&context, &part_of, old);
        }
    }
    let _ = (strategy.deletion(new, None), strategy.deletion(new, Some(-1)));
    strategy.mark_deleted(&mut new.clone());
    let _ = strategy.may_be_removed(new);
}

/// Defaults, and the way to the stored version in the form in which it is kept.
fn settle(info: &ResourceDefinition, version: &ServedVersion, object: &mut Value) {
    schema::apply_defaults(&info.types, version.type_id, object);
    let once = object.clone();
    schema::apply_defaults(&info.types, version.type_id, object);
    assert_eq!(*object, once, "defaults are final");
    is_final(info, version, object);
    versions::to_stored(info, version, object);
    info.strategy.default(object);
    let once = object.clone();
    info.strategy.default(object);
    assert_eq!(*object, once, "the kind's own defaults are final");
    schema::void_empty(&info.types, info.stored().type_id, object);
}

/// A decoded object is in the form in which it would be decoded again.
fn is_final(info: &ResourceDefinition, version: &ServedVersion, object: &Value) {
    let mut object = object.clone();
    // The one empty list that decoding keeps: it resets the managed fields and is gone before the object is stored.
    if object.pointer("/metadata/managedFields") == Some(&Value::Array(Vec::new()))
        && let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut)
    {
        metadata.remove("managedFields");
    }
    let object = &object;
    let again = schema::decode_with_empty(&info.types, version.type_id, object.clone());
    let again = again.expect("what was decoded once can be decoded again");
    assert_eq!(again.unknown, [""; 0], "unknown fields were dropped");
    assert_eq!(again.value, *object, "the decoded form is final");
    let printed = json::encode(object);
    let parsed = json::decode(&printed).expect("what is printed can be read").value;
    // 1.0 is stored as 1, in fields that hold any JSON.
    assert_same(&parsed, object);
}

/// An object that has been accepted can be cached, read and shown.
fn is_servable(info: &ResourceDefinition, object: &Value) {
    let item = Item::from_object(info, object).expect("what was accepted can be cached");
    let parsed = parse(&item).expect("what is cached can be read");
    for index in 0..info.versions.len() {
        let bytes = versions::object_bytes(info, &item, index);
        let shown = json::decode(&bytes).expect("what is served is JSON").value;
        assert_eq!(shown, versions::object_value(info, &item, index));
        assert!(versions::list_item_bytes(info, &item, index).starts_with(br#"{"metadata":{"#));
    }
    for column in info.columns_in(info.storage_version) {
        let _ = (column.cell)(&parsed, jiff::Timestamp::UNIX_EPOCH);
    }
    if let Some(conditions) = info.row_conditions {
        conditions(&parsed);
    }
}

/// The name, namespace and uid that a create would have given.
fn identify(info: &ResourceDefinition, object: &mut Value) {
    let Some(fields) = object.as_object_mut() else {
        return;
    };
    let metadata = fields.entry("metadata").or_insert_with(|| Object::new().into());
    let Some(metadata) = metadata.as_object_mut() else {
        return;
    };
    let mut metadata = MetaMut::new(metadata);
    metadata.set_namespace(if info.namespaced { "ns" } else { "" });
    metadata.set_uid("0f0e0d0c-0b0a-4908-8706-050403020100");
    metadata.set_resource_version("7");
    metadata.set_creation_timestamp("2026-01-01T00:00:00Z");
}

fn metadata(object: &Value) -> Meta<'_> {
    static NONE: std::sync::LazyLock<Object> = std::sync::LazyLock::new(Object::new);
    Meta::new(object.get("metadata").and_then(Value::as_object).unwrap_or(&NONE))
}
