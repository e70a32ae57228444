//! YAML: what is decoded is JSON and prints as YAML that decodes to the same; so does any JSON.

use serde_json::Value;
use trireme_machinery::{
    json::{self, MAX_DUPLICATES},
    yaml::{self, MAX_ALIASED_BYTES},
};

/// Checks the input as a YAML document, and as a JSON document that is to be shown in YAML.
pub fn check(data: &[u8]) {
    if let Ok(decoded) = yaml::decode(data) {
        assert!(decoded.duplicates.len() <= MAX_DUPLICATES);
        let printed = json::encode(&decoded.value);
        // A byte of input makes at most a value, and keys may be numbers that print longer than they are written.
        assert!(printed.len() <= data.len() * 32 + MAX_ALIASED_BYTES, "no blow-up");
        survives(&decoded.value);
    }
    if let Ok(decoded) = json::decode(data) {
        survives(&decoded.value);
    }
}

/// Through JSON, YAML and back.
fn survives(value: &Value) {
    let as_json = json::encode(value);
    let value = json::decode(&as_json).expect("what is printed can be read").value;
    let as_yaml = yaml::encode(&value);
    match yaml::decode(as_yaml.as_bytes()) {
        Ok(again) => {
            assert_eq!(again.duplicates, [""; 0], "a printed map has each key once: {as_yaml}");
            assert_eq!(json::encode(&again.value), as_json, "{as_yaml}");
        }
        Err(error) => panic!("printed what cannot be read: {error}: {as_yaml}"),
    }
}
