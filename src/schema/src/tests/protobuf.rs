//! Objects that kube-apiserver 1.36.2 answered as JSON and as protobuf at one moment.

use std::collections::BTreeSet;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;
use trireme_machinery::{
    protobuf::{self, framing},
    schema::{self, TypeId},
};

use crate::{complete_type_table, type_name};

const SERVED_BY_DEFAULT: &str = include_str!("../../../../tests/reference/protobuf/pairs.jsonl");
const ALPHA_AND_BETA: &str = include_str!("../../../../tests/reference/protobuf/pairs-beta-alpha.jsonl");

/// The outcome of a file. Sets hold `VERSION KIND`.
#[derive(Default)]
struct Comparison {
    /// Answers whose type is known.
    typed: usize,
    /// Kinds without a type.
    untyped: BTreeSet<String>,
    /// Kinds with an answer whose JSON encodes to other bytes.
    other_bytes: BTreeSet<String>,
    /// Kinds with an answer whose bytes decode to other JSON.
    other_json: BTreeSet<String>,
}

/// Compares the answers of a file with what their other form gives. Requests, streams and lengths are passed over.
fn compare(pairs: &str) -> Comparison {
    let mut comparison = Comparison::default();
    for line in pairs.lines() {
        let pair: Value = serde_json::from_str(line).expect("a pair is JSON");
        let Some(recorded) = pair["protobuf"].as_str().filter(|_| pair.get("do").is_none()) else {
            continue;
        };
        let recorded = STANDARD.decode(recorded).expect("the bytes are base64");
        compare_pair(&pair["json"], &recorded, &mut comparison);
    }
    comparison
}

fn compare_pair(json: &Value, recorded: &[u8], comparison: &mut Comparison) {
    let table = complete_type_table();
    let text = |field: &str| json[field].as_str().unwrap_or_default().to_owned();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let name = format!("{api_version} {kind}");
    let Some(ty) = type_of(&api_version, &kind) else {
        comparison.untyped.insert(name);
        return;
    };
    comparison.typed += 1;
    let encoded = protobuf::encode_enveloped(table, ty, json).unwrap_or_else(|error| panic!("{name}: {error}"));
    if encoded != recorded {
        comparison.other_bytes.insert(name.clone());
    }
    let envelope = protobuf::envelope(recorded).expect("the record is an envelope");
    assert_eq!((&envelope.api_version, &envelope.kind), (&api_version, &kind));
    let mut decoded = protobuf::decode(table, ty, envelope.raw).expect("the record is a message");
    if json.get("apiVersion").is_some() {
        decoded["apiVersion"] = api_version.into();
    }
    decoded["kind"] = kind.into();
    let decoded = schema::decode(table, ty, decoded).expect("the record fits its type");
    if decoded.value != *json {
        comparison.other_json.insert(name);
    }
}

fn type_of(api_version: &str, kind: &str) -> Option<TypeId> {
    let table = complete_type_table();
    // Discovery of the core group names no version.
    let api_version = if api_version.is_empty() { "v1" } else { api_version };
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let machinery = || table.find(&format!("io.k8s.apimachinery.pkg.apis.meta.{version}.{kind}"));
    table.find(&type_name(group, version, kind)).or_else(machinery)
}

fn names<'n>(names: impl IntoIterator<Item = &'n str>) -> BTreeSet<String> {
    names.into_iter().map(str::to_owned).collect()
}

#[test]
fn recorded_pairs_match() {
    let comparison = compare(SERVED_BY_DEFAULT);
    assert_eq!((comparison.typed, comparison.untyped), (222, names([])));
    // JSON of any form that was sent with spaces, which kube-apiserver keeps in protobuf and JSON does not show; and
    // the same for a `caBundle` that is empty but not absent.
    let other_bytes = [
        "admissionregistration.k8s.io/v1 MutatingWebhookConfiguration",
        "admissionregistration.k8s.io/v1 MutatingWebhookConfigurationList",
        "apps/v1 ControllerRevision",
        "apps/v1 ControllerRevisionList",
        "resource.k8s.io/v1 DeviceClass",
        "resource.k8s.io/v1 DeviceClassList",
        "resource.k8s.io/v1 ResourceClaim",
        "resource.k8s.io/v1 ResourceClaimList",
    ];
    assert_eq!(comparison.other_bytes, names(other_bytes));
    // Protobuf has no place for the types of `volumeClaimTemplates` and of a list's items, and none for a list that is
    // empty but not absent.
    let other_json = [
        "apps/v1 StatefulSet",
        "apps/v1 StatefulSetList",
        "meta.k8s.io/v1 PartialObjectMetadataList",
        "v1 ConfigMapList",
    ];
    assert_eq!(comparison.other_json, names(other_json));
}

#[test]
fn recorded_pairs_of_alpha_and_beta_kinds_match() {
    let comparison = compare(ALPHA_AND_BETA);
    assert_eq!(comparison.typed, 60);
    assert_eq!(comparison.untyped, BTreeSet::new());
    // Parameters that were sent with spaces.
    let versions = ["v1", "v1beta1", "v1beta2"];
    let kinds = ["", "List", "Template", "TemplateList"];
    let spaced = versions
        .iter()
        .flat_map(|version| kinds.map(|kind| format!("resource.k8s.io/{version} ResourceClaim{kind}")));
    assert_eq!(comparison.other_bytes, spaced.collect());
    assert_eq!(comparison.other_json, BTreeSet::new());
}

/// The events of the recorded watches are made of the messages of their objects.
#[test]
fn recorded_frames_match() {
    let mut compared = 0;
    for line in SERVED_BY_DEFAULT.lines() {
        let pair: Value = serde_json::from_str(line).expect("a pair is JSON");
        let frames = pair["frames"].as_array().into_iter().flatten();
        for (frame, event) in frames.zip(pair["json"].as_array().into_iter().flatten()) {
            let frame = STANDARD
                .decode(frame.as_str().unwrap_or_default())
                .expect("the bytes are base64");
            assert_eq!(framed(event), frame, "{event}");
            compared += 1;
        }
    }
    assert_eq!(compared, 20);
}

/// The frame of an event without its length, whose parts are where they are said to be.
fn framed(event: &Value) -> Vec<u8> {
    let (object, table) = (&event["object"], complete_type_table());
    let (api_version, kind) = (object["apiVersion"].as_str(), object["kind"].as_str());
    let (api_version, kind) = (api_version.unwrap_or_default(), kind.unwrap_or_default());
    let ty = type_of(api_version, kind).unwrap_or_else(|| panic!("{api_version} {kind} has no type"));
    let message = protobuf::encode(table, ty, object).expect("the object has a message");
    let event_type = event["type"].as_str().unwrap_or_default();
    let frame = framing::event_frame(event_type, api_version, kind, &message);
    let metadata = framing::metadata_field(&message).expect("metadata come first");
    let partial = type_of("meta.k8s.io/v1", "PartialObjectMetadata").expect("it has a type");
    let metadata_alone = protobuf::encode(table, partial, object).expect("all have metadata");
    assert_eq!(message.get(metadata), Some(&*metadata_alone));
    assert_eq!(frame.bytes.get(frame.message), Some(&*message));
    let enveloped = framing::enveloped(api_version, kind, &message);
    assert_eq!(frame.bytes.get(frame.object..), Some(&*enveloped));
    let (length, bytes) = frame.bytes.split_at(framing::FRAME_LENGTH_BYTES);
    assert_eq!(length, u32::try_from(bytes.len()).expect("it is short").to_be_bytes());
    bytes.to_vec()
}
