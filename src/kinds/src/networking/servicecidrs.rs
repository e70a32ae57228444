//! ServiceCIDRs (`pkg/registry/networking/servicecidr`).

use serde_json::{Value, json};
use trireme_machinery::{
    Feature, Features,
    field::{Error, ErrorList, Path},
    go_text::structs::{self, PrintedField, PrintedShape},
    meta, names,
};
use trireme_registry::{ResetFields, Strategy, WriteContext, request::Subresource, strategy::MetadataChecks};

use crate::{
    checks::push_invalid,
    columns::{self, column, documented},
    kind::Kind,
    values::{items, keep_field, keep_metadata},
};

const SPEC: &str = "io.k8s.api.networking.v1.ServiceCIDRSpec";
const INTERNAL_SPEC: &[PrintedField] = &[("CIDRs", "cidrs", PrintedShape::Plain)];

/// The kind's parts.
pub(crate) fn kind(features: Features) -> Kind {
    let joined = |object: &Value| {
        let all: Vec<&str> = blocks(object).iter().filter_map(Value::as_str).collect();
        Value::from(all.join(","))
    };
    Kind::new("networking.k8s.io", "servicecidrs", ServiceCidrs { features }).columns(vec![
        columns::name(),
        column("CIDRs", "string", documented(SPEC, "cidrs"), joined),
        columns::age(),
    ])
}

fn blocks(object: &Value) -> &[Value] {
    object.get("spec").map_or(&[], |spec| items(spec, "cidrs"))
}

struct ServiceCidrs {
    features: Features,
}

impl ServiceCidrs {
    /// Reports whether writers of the spec leave the status as it is.
    fn wipes_status(&self) -> bool {
        self.features.has(Feature::ServiceCidrStatusFieldWiping)
    }
}

impl Strategy for ServiceCidrs {
    fn metadata_checks_of_update(&self, _context: &WriteContext) -> MetadataChecks {
        MetadataChecks::OfChange
    }

    fn reset_fields(&self, subresource: Subresource) -> ResetFields {
        if matches!(subresource, Subresource::Status) || self.wipes_status() {
            ResetFields::of_bare_status(subresource)
        } else {
            ResetFields(&[])
        }
    }

    fn prepare_for_create(&self, _context: &WriteContext, object: &mut Value) {
        if self.wipes_status() {
            object["status"] = json!({});
        }
    }

    fn validate(&self, _context: &WriteContext, object: &Value) -> ErrorList {
        let path = Path::new("spec.cidrs");
        let blocks = blocks(object);
        if blocks.is_empty() {
            return vec![Error::required(&path, "at least one CIDR required")];
        }
        if blocks.len() > 2 {
            let shown = structs::compact(object.get("spec"), PrintedShape::Struct(INTERNAL_SPEC));
            return vec![Error::invalid_shown(&path, shown, "may only hold up to 2 values")];
        }
        let mut errors = ErrorList::new();
        for (index, block) in blocks.iter().filter_map(Value::as_str).enumerate() {
            push_invalid(&path.index(index), block, names::canonical_cidr(block), &mut errors);
        }
        let families = || {
            blocks
                .iter()
                .filter_map(Value::as_str)
                .filter_map(names::parse_cidr_sloppy)
                .map(|(ip, _)| ip.is_ipv4())
        };
        if errors.is_empty() && families().count() == 2 && families().all(|v4| v4) == families().any(|v4| v4) {
            let detail = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
            errors.push(Error::invalid(&path, &blocks.to_vec().into(), detail));
        }
        errors
    }

    fn prepare_for_update(&self, _context: &WriteContext, new: &mut Value, old: &Value) {
        if self.wipes_status() {
            keep_field(new, old, "status");
        }
    }

    fn prepare_for_status_update(&self, _context: &WriteContext, new: &mut Value, old: &Value) {
        keep_field(new, old, "spec");
        keep_metadata(new, old);
    }

    fn validate_update(&self, context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        let path = Path::new("spec.cidrs");
        let (new_blocks, old_blocks) = (blocks(new), blocks(old));
        if old_blocks.len() == new_blocks.len() {
            for (index, (new, old)) in new_blocks.iter().zip(old_blocks).enumerate() {
                errors.extend(meta::validate_immutable_field(Some(new), Some(old), &path.index(index)));
            }
        } else if old_blocks.len() == 1 && new_blocks.len() == 2 {
            // A cluster may become dual-stack: the first block stays.
            let (new_first, old_first) = (new_blocks.first(), old_blocks.first());
            errors.extend(meta::validate_immutable_field(new_first, old_first, &path.index(0)));
            errors.extend(self.validate(context, new));
        } else {
            let shown = new_blocks.to_vec().into();
            errors.push(Error::invalid(&path, &shown, "field is immutable"));
        }
        errors
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Trial, named};

    fn trial() -> Trial {
        Trial::new("networking.k8s.io", "servicecidrs", kind(Features::default()))
    }

    #[test]
    fn writers_of_the_spec_set_the_status_where_it_is_not_wiped() {
        let features = Features::without(&[Feature::ServiceCidrStatusFieldWiping]);
        let off = Trial::new("networking.k8s.io", "servicecidrs", kind(features));
        let status = |word: &str| json!({ "conditions": [{ "type": "Ready", "status": word }] });
        let mut body = named("c", json!({ "cidrs": ["10.0.0.0/24"] }));
        body["status"] = status("True");
        let created = off.create(body).expect("a valid range");
        assert_eq!(created["status"]["conditions"][0]["status"], "True");
        let patch = json!({ "status": status("False") });
        let patched = off.patch(&created, &patch).expect("a valid range");
        assert_eq!(patched["status"]["conditions"][0]["status"], "False");
        let fields = |features| ServiceCidrs { features }.reset_fields(Subresource::None).0;
        assert_eq!(fields(features), &[] as &[&str]);
        assert_eq!(fields(Features::default()), ["status"]);
    }

    #[test]
    fn the_status_alone_says_whether_a_range_is_ready() {
        let trial = trial();
        let ready = json!({ "conditions": [{ "type": "Ready", "status": "True" }] });
        let mut body = named("c", json!({ "cidrs": ["10.0.0.0/24"] }));
        body["status"] = ready.clone();
        let created = trial.create(body.clone()).expect("a valid range");
        assert_eq!(created["status"], json!({}));
        let patched = trial
            .patch(&created, &json!({ "status": ready }))
            .expect("a valid range");
        assert_eq!(patched["status"], json!({}));
        body["metadata"]["labels"] = json!({ "a": "b" });
        body["spec"]["cidrs"] = json!(["10.1.0.0/24"]);
        let written = trial.status_body(&created, body).expect("a valid status");
        assert_eq!(written["status"]["conditions"][0]["status"], "True");
        assert_eq!(written["metadata"].get("labels"), None);
        assert_eq!(written["spec"], created["spec"]);
    }

    #[test]
    fn at_most_one_block_of_each_family() {
        let cidrs = |blocks: &[&str]| named("c", json!({ "cidrs": blocks }));
        let both_v4 = "spec.cidrs: Invalid value: [\"10.0.0.0/24\",\"10.1.0.0/24\"]: may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
        let trial = trial();
        trial.expect_errors(&[
            (cidrs(&["10.0.0.0/24"]), &[]),
            (cidrs(&["10.0.0.0/24", "fd00::/112"]), &[]),
            (cidrs(&["10.0.0.0/24", "10.1.0.0/24"]), &[both_v4]),
            (
                cidrs(&["a", "b", "c"]),
                &["spec.cidrs: Invalid value: {\"CIDRs\":[\"a\",\"b\",\"c\"]}: may only hold up to 2 values"],
            ),
        ]);
        let old = trial.create(cidrs(&["10.0.0.0/24"])).expect("a valid range");
        trial.expect_patch_errors(
            &old,
            &[
                (json!({ "spec": { "cidrs": ["10.0.0.0/24", "fd00::/112"] } }), &[]),
                (
                    json!({ "spec": { "cidrs": ["10.1.0.0/24"] } }),
                    &["spec.cidrs[0]: Invalid value: \"10.1.0.0/24\": field is immutable"],
                ),
            ],
        );
    }
}
