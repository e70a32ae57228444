//! Parameters that the operations of an OpenAPI 2 document share (`kube-openapi/pkg/builder`): they stand in the document once,
//! under their name and a hash of their contents, and operations refer to them.

use base64::{Engine as _, engine::general_purpose::URL_SAFE};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha224};
use trireme_machinery::Object;

/// Parameters that kube-apiserver repeats in each operation.
const NEVER_SHARED: [&str; 3] = ["dryRun", "fieldValidation", "name"];
/// The bodies that are not of one kind.
const SHARED_BODIES: [&str; 2] = [
    "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions",
    "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.Patch",
];

/// Replaces parameters in the paths by references, and returns what they refer to.
pub(super) fn take(paths: &mut Object) -> Object {
    let mut shared = Object::new();
    for item in paths.values_mut().filter_map(Value::as_object_mut) {
        for (name, part) in item {
            let parameters = match name.as_str() {
                "parameters" => Some(part),
                _ => part.get_mut("parameters"),
            };
            for parameter in parameters.and_then(Value::as_array_mut).into_iter().flatten() {
                share(parameter, &mut shared);
            }
        }
    }
    shared
}

fn share(parameter: &mut Value, shared: &mut Object) {
    let name = parameter["name"].as_str().unwrap_or_default();
    let is_own_body = match parameter.pointer("/schema/$ref").and_then(Value::as_str) {
        Some(body) => !SHARED_BODIES.contains(&body),
        None => false,
    };
    if is_own_body || NEVER_SHARED.contains(&name) {
        return;
    }
    let hash = Sha224::digest(parameter.to_string());
    let hash = hash
        .first_chunk::<6>()
        .map_or_else(String::new, |start| URL_SAFE.encode(start));
    let name = format!("{name}-{hash}");
    let reference = json!({"$ref": format!("#/parameters/{name}")});
    shared.insert(name, std::mem::replace(parameter, reference));
}
