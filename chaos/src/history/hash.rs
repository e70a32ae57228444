//! The hash by which the same state is recognised in an answer, in an event and in etcd.

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::Hash;

/// Fields that only one of the places shows, or that the server writes beside the payload.
const NOT_AT_THE_TOP: [&str; 2] = ["apiVersion", "kind"];
const NOT_IN_METADATA: [&str; 3] = ["resourceVersion", "managedFields", "selfLink"];

/// The hash of an object without what differs between an answer, an item of a list and the value in etcd.
pub fn payload_hash(object: &Value) -> Hash {
    let mut digest = Sha256::new();
    let Value::Object(fields) = object else {
        feed(object, &mut digest);
        return first_eight(digest);
    };
    let mut names: Vec<_> = fields
        .keys()
        .filter(|name| !NOT_AT_THE_TOP.contains(&name.as_str()))
        .collect();
    names.sort_unstable();
    for name in names {
        digest.update(name);
        match &fields[name] {
            Value::Object(metadata) if name == "metadata" => {
                let kept = metadata.iter();
                let kept = kept.filter(|(name, _)| !NOT_IN_METADATA.contains(&name.as_str()));
                feed_fields(kept.collect(), &mut digest);
            }
            value => feed(value, &mut digest),
        }
    }
    first_eight(digest)
}

/// Feeds the names in order, whatever order the map keeps.
fn feed_fields(mut fields: Vec<(&String, &Value)>, digest: &mut Sha256) {
    fields.sort_unstable_by_key(|(name, _)| *name);
    digest.update("{");
    for (name, value) in fields {
        digest.update(name);
        digest.update([0]);
        feed(value, digest);
    }
    digest.update("}");
}

fn feed(value: &Value, digest: &mut Sha256) {
    match value {
        Value::Object(fields) => feed_fields(fields.iter().collect(), digest),
        Value::Array(items) => {
            digest.update("[");
            items.iter().for_each(|item| feed(item, digest));
            digest.update("]");
        }
        scalar => {
            digest.update(scalar.to_string());
            digest.update([0]);
        }
    }
}

fn first_eight(digest: Sha256) -> Hash {
    let bytes = digest.finalize();
    bytes.iter().take(8).fold(0, |hash, byte| hash << 8 | Hash::from(*byte))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_answer_and_the_value_in_etcd_have_one_hash() {
        let stored = json!({"metadata": {"name": "a", "uid": "1", "managedFields": []}, "data": {"x": "1", "y": "2"}});
        let answer = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"y": "2", "x": "1"},
            "metadata": {"uid": "1", "resourceVersion": "7", "name": "a"}});
        assert_eq!(payload_hash(&stored), payload_hash(&answer));
    }

    #[test]
    fn every_other_difference_shows() {
        let cases = [
            json!({"metadata": {"name": "a"}, "data": {"x": "1"}}),
            json!({"metadata": {"name": "a"}, "data": {"x": 1}}),
            json!({"metadata": {"name": "a"}, "data": {"x": ["1"]}}),
            json!({"metadata": {"name": "a", "labels": {"x": "1"}}, "data": {}}),
            json!({"metadata": {"name": "b"}, "data": {"x": "1"}}),
            json!({"metadata": {"name": "a"}, "data": {"kind": "1"}}),
        ];
        let hashes: std::collections::HashSet<_> = cases.iter().map(payload_hash).collect();
        assert_eq!(hashes.len(), cases.len());
    }
}
