//! The media types that operations take and give, in the order of OpenAPI 2 documents.

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const JSON_STREAM: &str = "application/json;stream=watch";
const PROTOBUF_STREAM: &str = "application/vnd.kubernetes.protobuf;stream=watch";
const JSON_PATCH: &str = "application/json-patch+json";
const MERGE_PATCH: &str = "application/merge-patch+json";
const STRATEGIC_MERGE_PATCH: &str = "application/strategic-merge-patch+json";
const APPLY_PATCH: &str = "application/apply-patch+yaml";

pub(super) const ANY: &[&str] = &["*/*"];
/// Of single objects, and of lists that cannot be watched.
pub(super) const OBJECTS: &[&str] = &[JSON, YAML, PROTOBUF];
/// Of lists and watches.
pub(super) const STREAMS: &[&str] = &[JSON, YAML, PROTOBUF, JSON_STREAM, PROTOBUF_STREAM];
pub(super) const PATCHES: &[&str] = &[JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH, APPLY_PATCH];
/// Custom resources have no protobuf, and no merge keys.
pub(super) const CUSTOM_OBJECTS: &[&str] = &[JSON, YAML];
pub(super) const CUSTOM_STREAMS: &[&str] = &[JSON, YAML];
pub(super) const CUSTOM_PATCHES: &[&str] = &[JSON_PATCH, MERGE_PATCH, APPLY_PATCH];
pub(super) const LOG: &[&str] = &["text/plain", JSON, YAML, PROTOBUF];
pub(super) const JSON_ONLY: &[&str] = &[JSON];
pub(super) const JWK_SET: &[&str] = &["application/jwk-set+json"];
