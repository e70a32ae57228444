//! Objects in the versions that clients ask for: bytes are spliced where only `apiVersion` differs, and go through a
//! tree only where a conversion does something.
//!
//! Where a [`Converter`](crate::Converter) converts, [`in_version`] is called first, with everything that is at hand; the
//! other functions show such items as they are.

use std::{borrow::Cow, sync::Arc};

use bytes::Bytes;
use serde_json::Value;
use trireme_machinery::{ApiError, GroupVersion, json};

use crate::{
    definition::{ResourceDefinition, ServedVersion},
    encode,
    item::{Item, parse},
    stored,
};

/// The items as the converter of the resource shows them in a version: one call for all that are in another. Costs
/// nothing for a resource without one.
///
/// # Errors
/// Those of the converter, and if it gives back another number of objects.
pub async fn in_version(
    info: &ResourceDefinition,
    mut items: Vec<Arc<Item>>,
    version: usize,
) -> Result<Vec<Arc<Item>>, ApiError> {
    if info.converter.is_none() {
        return Ok(items);
    }
    let to = served_at(info, version);
    for from in info
        .versions
        .iter()
        .filter(|from| from.group_version != to.group_version)
    {
        let is_of = |item: &Arc<Item>| is_in(item, &from.group_version);
        let places: Vec<usize> = (0..items.len())
            .filter(|at| items.get(*at).is_some_and(is_of))
            .collect();
        if places.is_empty() {
            continue;
        }
        let objects = places.iter().filter_map(|at| items.get(*at)).map(|item| parse(item));
        let objects = objects.collect::<Result<Vec<_>, _>>()?;
        let converted = convert(info, objects, from, to).await?;
        for (at, object) in places.into_iter().zip(converted) {
            if let Some(place) = items.get_mut(at) {
                let fields = info.selectable.values(&object);
                *place = Arc::new(place.with_object(&object, fields));
            }
        }
    }
    Ok(items)
}

/// The items as [`in_version`] shows them, for watchers: what another watcher of the resource has just had converted, or waits
/// for, costs no call.
///
/// # Errors
/// As there.
pub async fn shared_in_version(
    info: &Arc<ResourceDefinition>,
    items: Vec<Arc<Item>>,
    version: usize,
) -> Result<Vec<Arc<Item>>, ApiError> {
    let to = &served_at(info, version).group_version;
    if info.converter.is_none() || items.iter().all(|item| is_in(item, to)) {
        return Ok(items);
    }
    let conversions = info.conversions.join(&items, version, |missing| {
        let info = Arc::clone(info);
        Box::pin(async move { in_version(&info, missing, version).await })
    });
    let joins_others = conversions.joins_others;
    match conversions.items().await {
        // One that another watcher began may have failed for an object that is not among these.
        Err(_) if joins_others => in_version(info, items, version).await,
        converted => converted,
    }
}

/// One item as [`in_version`] shows it.
///
/// # Errors
/// As there.
pub async fn item_in_version(
    info: &ResourceDefinition,
    item: &Arc<Item>,
    version: usize,
) -> Result<Arc<Item>, ApiError> {
    let mut items = in_version(info, vec![item.clone()], version).await?;
    items
        .pop()
        .ok_or_else(|| ApiError::internal("an object was lost in its conversion"))
}

/// An object that is written by a request of a version, as the client sees it there. Nothing changes if it is
/// [written](ResourceDefinition::written_version) in that version.
pub(crate) fn from_written(info: &ResourceDefinition, version: &ServedVersion, object: &mut Value) {
    if !info.is_written_as_requested() {
        from_stored(info, version, object);
    }
}

/// The same, without a copy where nothing changes.
pub(crate) fn served_of_written<'o>(
    info: &ResourceDefinition,
    version: &ServedVersion,
    object: &'o Value,
) -> Cow<'o, Value> {
    if info.written_version(version).group_version == version.group_version {
        return Cow::Borrowed(object);
    }
    let mut object = object.clone();
    from_written(info, version, &mut object);
    Cow::Owned(object)
}

/// The other way round: an object of a client in the version in which it is written.
pub(crate) fn to_written(info: &ResourceDefinition, version: &ServedVersion, object: &mut Value) {
    if !info.is_written_as_requested() {
        to_stored(info, version, object);
    }
}

/// An object that is written in one version as one of another.
pub(crate) async fn between(
    info: &ResourceDefinition,
    (from, to): (&ServedVersion, &ServedVersion),
    object: &mut Value,
) -> Result<(), ApiError> {
    if info.converter.is_some() {
        return convert_one(info, object, from, to).await;
    }
    if from.group_version != to.group_version {
        to_stored(info, from, object);
        from_stored(info, to, object);
    }
    Ok(())
}

/// An object that is written in a version as it is stored; nothing if it is in the stored version already.
pub(crate) async fn as_stored(
    info: &ResourceDefinition,
    version: &ServedVersion,
    object: &Value,
) -> Result<Option<Value>, ApiError> {
    let (from, to) = (info.written_version(version), info.stored());
    if from.group_version == to.group_version {
        return Ok(None);
    }
    let mut object = object.clone();
    between(info, (from, to), &mut object).await?;
    Ok(Some(object))
}

/// An object that a dry run would have stored, as a request of a version would read it (`DryRunnableStorage.copyInto`).
pub(crate) async fn read_back(
    info: &ResourceDefinition,
    version: &ServedVersion,
    object: &mut Value,
) -> Result<(), ApiError> {
    if !info.is_custom {
        from_written(info, version, object);
        return Ok(());
    }
    let stored = info.stored();
    if let Some(converted) = as_stored(info, version, object).await? {
        *object = converted;
    }
    let decoded = json::decode(&json::encode(object));
    *object = decoded.map_err(ApiError::internal)?.value;
    if let Some(schema) = &stored.schema {
        schema.restore(object);
    }
    if stored.group_version == version.group_version {
        return Ok(());
    }
    between(info, (stored, version), object).await
}

/// An item as a tree in the version in which a request of a version writes it, with its `resourceVersion`.
pub(crate) async fn written_value(
    info: &ResourceDefinition,
    item: &Item,
    version: &ServedVersion,
) -> Result<Value, ApiError> {
    let mut object = parse(item)?;
    let written = info.written_version(version);
    if !is_in(item, &written.group_version)
        && let Some(from) = info.versions.iter().find(|from| is_in(item, &from.group_version))
    {
        between(info, (from, written), &mut object).await?;
    }
    Ok(object)
}

async fn convert_one(
    info: &ResourceDefinition,
    object: &mut Value,
    from: &ServedVersion,
    to: &ServedVersion,
) -> Result<(), ApiError> {
    let mut converted = convert(info, vec![object.take()], from, to).await?;
    *object = converted.pop().unwrap_or_default();
    Ok(())
}

/// Converts objects by the converter of the resource, in one call.
pub(crate) async fn convert(
    info: &ResourceDefinition,
    objects: Vec<Value>,
    from: &ServedVersion,
    to: &ServedVersion,
) -> Result<Vec<Value>, ApiError> {
    let count = objects.len();
    let mut converted = match &info.converter {
        Some(converter) if from.group_version != to.group_version => {
            converter
                .convert(objects, &from.group_version, &to.group_version)
                .await?
        }
        _ => objects,
    };
    if converted.len() != count {
        let text = format!(
            "the conversion to {} gave {} objects for {count}",
            to.group_version,
            converted.len()
        );
        return Err(ApiError::internal(text));
    }
    for object in &mut converted {
        name_version(info, to, object);
    }
    Ok(converted)
}

/// Reports whether an item is stored in another form or version than it would be written in. One that a webhook converts is kept
/// in the version that it was written in.
pub(crate) fn is_stale(info: &ResourceDefinition, item: &Item) -> bool {
    item.is_stale || !is_in(item, &info.stored().group_version)
}

/// Reports whether an item's bytes are of a version; it costs a comparison.
fn is_in(item: &Item, version: &GroupVersion) -> bool {
    let rest = item.bytes.strip_prefix(br#"{"apiVersion":""#);
    let rest = match &*version.group {
        "" => rest,
        group => rest
            .and_then(|rest| rest.strip_prefix(group.as_bytes()))
            .and_then(|rest| rest.strip_prefix(b"/")),
    };
    let rest = rest.and_then(|rest| rest.strip_prefix(version.version.as_bytes()));
    rest.is_some_and(|rest| rest.starts_with(b"\""))
}

fn served_at(info: &ResourceDefinition, version: usize) -> &ServedVersion {
    info.versions.get(version).unwrap_or_else(|| info.stored())
}

/// The answer to a GET.
pub fn object_bytes(info: &ResourceDefinition, item: &Item, version: usize) -> Bytes {
    match served(info, version) {
        None => item.bytes.clone(),
        Some(served) if served.conversion.is_some() => converted(info, item, served),
        Some(served) => respelled(item, served),
    }
}

/// The item of a list: the object without `apiVersion` and `kind`.
pub fn list_item_bytes(info: &ResourceDefinition, item: &Item, version: usize) -> Bytes {
    let body = list_item_body(info, item, version);
    let mut bytes = Vec::with_capacity(body.len() + 1);
    bytes.push(b'{');
    bytes.extend_from_slice(&body);
    bytes.into()
}

/// The item of a list after its opening brace; costs no copy unless a conversion does something. Lists of custom resources
/// show whole objects.
pub fn list_item_body(info: &ResourceDefinition, item: &Item, version: usize) -> Bytes {
    if info.is_custom {
        return object_bytes(info, item, version).slice(1..);
    }
    match served(info, version) {
        Some(served) if served.conversion.is_some() => {
            let bytes = converted(info, item, served);
            let body = memchr::memmem::find(&bytes, br#""metadata":{"#).unwrap_or(1);
            bytes.slice(body..)
        }
        Some(_) | None => item.list_body(),
    }
}

/// The object as a tree; `Null` in the impossible case that a cached object cannot be parsed.
pub fn object_value(info: &ResourceDefinition, item: &Item, version: usize) -> Value {
    let mut object = stored::parse(&item.bytes).unwrap_or_default();
    if let Some(served) = served(info, version) {
        from_stored(info, served, &mut object);
    }
    object
}

/// Turns an object of the stored version into one of a served version.
pub fn from_stored(info: &ResourceDefinition, version: &ServedVersion, object: &mut Value) {
    if let Some(conversion) = &version.conversion {
        conversion.to_served(object);
    }
    name_version(info, version, object);
}

/// Turns an object of a served version into one of the stored version.
pub fn to_stored(info: &ResourceDefinition, version: &ServedVersion, object: &mut Value) {
    if let Some(conversion) = &version.conversion {
        conversion.to_stored(object);
    }
    name_version(info, info.stored(), object);
}

fn name_version(info: &ResourceDefinition, version: &ServedVersion, object: &mut Value) {
    if let Some(fields) = object.as_object_mut() {
        fields.insert("apiVersion".into(), version.group_version.to_string().into());
        fields.insert("kind".into(), Value::from(&*info.kind));
    }
}

/// The version, if items are to be brought into it here.
fn served(info: &ResourceDefinition, version: usize) -> Option<&ServedVersion> {
    if version == info.storage_version || info.converter.is_some() {
        None
    } else {
        info.versions.get(version)
    }
}

fn converted(info: &ResourceDefinition, item: &Item, version: &ServedVersion) -> Bytes {
    let mut object = stored::parse(&item.bytes).unwrap_or_default();
    from_stored(info, version, &mut object);
    encode::object_at(&object, item.revision).into()
}

fn respelled(item: &Item, version: &ServedVersion) -> Bytes {
    let api_version = version.group_version.to_string();
    let head = br#"{"apiVersion":""#;
    let after = item.bytes.get(head.len()..).unwrap_or_default();
    let rest = after
        .iter()
        .position(|byte| *byte == b'"')
        .and_then(|end| after.get(end..))
        .unwrap_or_default();
    [head, api_version.as_bytes(), rest].concat().into()
}
