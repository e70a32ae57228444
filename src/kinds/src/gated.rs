//! Fields of features.

use serde_json::Value;
use trireme_machinery::{Feature, Features};

use crate::values::{at, remove};

/// A field of a feature: the JSON pointer of the struct that holds it, and its name.
pub(crate) type GatedField = (Feature, &'static str, &'static str);

/// A feature, the sign that an object uses what it brings, and the way to drop that.
pub(crate) type GatedUse = (Feature, fn(&Value) -> bool, fn(&mut Value));

/// Removes the fields whose features are off, each unless the old object has it (`dropDisabledFields`).
pub(crate) fn drop_disabled_fields(features: Features, fields: &[GatedField], object: &mut Value, old: Option<&Value>) {
    let off = fields.iter().filter(|(feature, ..)| !features.has(*feature));
    for (_, holder, name) in off {
        let has_field = |object: &Value| at(object, holder).is_some_and(|holder| holder.get(name).is_some());
        if !has_field(object) || old.is_some_and(has_field) {
            continue;
        }
        if let Some(holder) = object.pointer_mut(holder) {
            remove(holder, name);
        }
    }
}
