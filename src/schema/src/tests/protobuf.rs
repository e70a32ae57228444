//! Objects that kube-apiserver 1.36.2 answered as JSON and as protobuf at one moment.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;
use trireme_machinery::{protobuf, schema};

use crate::{complete_type_table, type_name};

const SERVED_BY_DEFAULT: &str = include_str!("../../../../tests/reference/protobuf/pairs.jsonl");
const ALPHA_AND_BETA: &str = include_str!("../../../../tests/reference/protobuf/pairs-beta-alpha.jsonl");

/// Holds each pair of a file to the record and returns how many there are of a type.
fn check(pairs: &str) -> usize {
    let table = complete_type_table();
    let mut problems = Vec::new();
    let mut typed = 0;
    for line in pairs.lines() {
        let pair: Value = serde_json::from_str(line).expect("a pair is JSON");
        let recorded = STANDARD.decode(pair["protobuf"].as_str().expect("a pair has bytes"));
        let recorded = recorded.expect("the bytes are base64");
        let (json, path) = (&pair["json"], &pair["path"]);
        let (api_version, kind) = (json["apiVersion"].as_str(), json["kind"].as_str());
        let (api_version, kind) = (api_version.unwrap_or_default(), kind.unwrap_or_default());
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let Some(ty) = table.find(&type_name(group, version, kind)) else {
            continue;
        };
        typed += 1;
        match protobuf::encode_enveloped(table, ty, json) {
            Ok(encoded) if encoded == recorded => {}
            encoded => problems.push(format!("{path} {}: {json} gives {encoded:?}", pair["variant"])),
        }
        let envelope = protobuf::envelope(&recorded).expect("the record is an envelope");
        assert_eq!(
            (envelope.api_version.as_str(), envelope.kind.as_str()),
            (api_version, kind)
        );
        let mut decoded = protobuf::decode(table, ty, envelope.raw).expect("the record is a message");
        decoded["apiVersion"] = api_version.into();
        decoded["kind"] = kind.into();
        let decoded = schema::decode(table, ty, decoded)
            .expect("the record fits its type")
            .value;
        if decoded != *json {
            problems.push(format!(
                "{path} {}: the bytes give {decoded}, not {json}",
                pair["variant"]
            ));
        }
    }
    assert!(
        problems.is_empty(),
        "{} problems:\n{}",
        problems.len(),
        problems.join("\n")
    );
    typed
}

#[test]
fn every_recorded_pair_matches() {
    assert_eq!(check(SERVED_BY_DEFAULT), 248);
}

#[test]
fn every_recorded_pair_of_an_alpha_or_beta_kind_matches() {
    assert_eq!(check(ALPHA_AND_BETA), 60);
}
