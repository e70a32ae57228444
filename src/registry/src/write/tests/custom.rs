//! Custom resources: what is read of them may differ from what was written, as their schemas have defaults and drop fields.

use std::sync::Arc;

use serde_json::{Value, json};
use trireme_actors::{testkit::run, topology::Topology};
use trireme_machinery::{
    GroupVersion,
    managed::MergeSchema,
    schema::{DecodeError, Decoded},
};

use super::support::{Bench, Rules, answered, creation, dry_run, patching, refused, replacement, thing, things};
use crate::{
    definition::{Conversion, ObjectSchema, ResourceDefinition, ServedVersion},
    request::{PatchKind, PatchRequest, Subresource, UpdateRequest},
};

/// The default of the status counts when an object is read: its creation has dropped the status.
struct WithStatus;

impl ObjectSchema for WithStatus {
    fn decode(&self, object: Value) -> Result<Decoded, DecodeError> {
        Ok(Decoded {
            value: object,
            unknown: Vec::new(),
        })
    }

    fn decode_merged(&self, object: Value) -> Result<Decoded, DecodeError> {
        self.decode(object)
    }

    fn apply_defaults(&self, _: &mut Value) {}

    fn restore(&self, object: &mut Value) -> bool {
        let is_missing = object.get("status").is_none();
        if is_missing {
            object["status"] = json!({"phase": "Waiting"});
        }
        is_missing
    }

    fn is_settled(&self, json: &[u8]) -> bool {
        let object: Value = serde_json::from_slice(json).expect("it is JSON");
        object.get("status").is_some()
    }

    fn merge_schema(&self) -> &MergeSchema {
        &MergeSchema::Deduced
    }

    fn fingerprint(&self) -> &'static str {
        "with status"
    }
}

/// The stored version lacks a field of the other.
struct Older;

impl Conversion for Older {
    fn to_stored(&self, object: &mut Value) {
        object.as_object_mut().map(|fields| fields.remove("old"));
    }

    fn to_served(&self, _: &mut Value) {}
}

/// Things as a custom resource that is stored in version 1 and served in 1beta1, too.
fn custom_things() -> ResourceDefinition {
    let mut definition = things(Rules::default(), None);
    definition.is_custom = true;
    let stored = definition.versions.pop().expect("it has a version");
    let stored = ServedVersion {
        schema: Some(Arc::new(WithStatus)),
        ..stored
    };
    let older = ServedVersion {
        group_version: GroupVersion::new("example.com", "v1beta1"),
        conversion: Some(Arc::new(Older)),
        ..stored.clone()
    };
    definition.versions = vec![stored, older];
    definition
}

#[test]
fn a_status_has_its_defaults_whoever_reads_the_object_first() {
    run(Topology::trireme(), |kit| async move {
        let (bench, _) = Bench::start_with(&kit, custom_things()).await;
        for number in 0..40 {
            let name = format!("t{number}");
            let made = bench.made(&name, json!({}), json!({})).await;
            let made: Value = serde_json::from_slice(&made.bytes).expect("it is JSON");
            assert_eq!(made["status"]["phase"], "Waiting", "{name}");
            assert_eq!(bench.now(&name).await, Some(made));
        }
    });
}

#[test]
fn a_dry_run_answers_what_would_be_read() {
    run(Topology::trireme(), |kit| async move {
        let (bench, _) = Bench::start_with(&kit, custom_things()).await;
        let status = json!({"phase": "Waiting"});
        let old = |name: &str| {
            let mut object = thing(name, json!({}), json!({"old": 1, "share": 150.0}));
            object["apiVersion"] = "example.com/v1beta1".into();
            object
        };
        for (version, object) in [(0, thing("a", json!({}), json!({}))), (1, old("a"))] {
            let mut request = creation(object.clone(), dry_run());
            request.target.version = version;
            let made = answered(&bench.registry.create(request).await.expect("it is sound"));
            assert_eq!((&made["status"], made.get("old")), (&status, None));
            assert_eq!(made["apiVersion"], object["apiVersion"]);
        }
        bench.made("a", json!({}), json!({})).await;
        let mut request = UpdateRequest {
            options: dry_run(),
            ..replacement("a", old("a"))
        };
        request.target.version = 1;
        let changed = answered(&bench.registry.update(request).await.expect("it is sound"));
        assert_eq!((&changed["status"], changed.get("old")), (&status, None));
        assert_eq!(changed["apiVersion"], "example.com/v1beta1");
        assert_eq!(changed["share"], json!(150), "numbers are those that are stored");
    });
}

#[test]
fn a_patch_of_a_status_may_say_any_kind() {
    run(Topology::trireme(), |kit| async move {
        let (bench, _) = Bench::start_with(&kit, custom_things()).await;
        bench.made("a", json!({}), json!({})).await;
        for wrong in [json!({"kind": "Other"}), json!({"apiVersion": "x"})] {
            let patch = |subresource| PatchRequest {
                subresource,
                options: dry_run(),
                ..patching("a", PatchKind::Merge, &wrong)
            };
            let patched = bench.registry.patch(patch(Subresource::Status)).await;
            let patched = answered(&patched.expect("nobody asks"));
            let kind = (&patched["kind"], &patched["apiVersion"]);
            assert_eq!(kind, (&json!("Thing"), &json!("example.com/v1")), "{wrong}");
            let (reason, _) = refused(bench.registry.patch(patch(Subresource::None)).await);
            assert_eq!(reason, trireme_machinery::Reason::Invalid, "{wrong}");
        }
    });
}
