//! Brings a role or a binding to what the bootstrap policy wants of it, without taking anything away
//! (`k8s.io/component-helpers/auth/rbac/reconciliation`).

use serde_json::{Value, json};
use trireme_machinery::policy_rule::{PolicyRule, missing_rules};

use super::policy::{AUTO_UPDATE, PolicyObject};

/// The write that an object needs.
#[derive(Debug, PartialEq)]
pub(super) enum Repair {
    /// It is as it should be, or protected.
    None,
    /// It becomes this.
    Replace(Value),
    /// A binding's role cannot change: it is deleted and made anew.
    Recreate,
}

/// Compares an object with the policy.
pub(super) fn repair(existing: &Value, wanted: &PolicyObject) -> Repair {
    if existing["metadata"]["annotations"][AUTO_UPDATE] == "false" {
        return Repair::None;
    }
    let expected = &wanted.object;
    if wanted.kind.is_binding() && existing["roleRef"] != expected["roleRef"] {
        return Repair::Recreate;
    }
    let mut merged = existing.clone();
    for field in ["labels", "annotations"] {
        add_missing_entries(&mut merged["metadata"], field, &expected["metadata"][field]);
    }
    if wanted.kind.is_binding() {
        append(
            &mut merged,
            "subjects",
            &missing(&existing["subjects"], &expected["subjects"]),
        );
    } else {
        let rules = missing_rules(&PolicyRule::all_of(existing), &PolicyRule::all_of(expected));
        let rules: Vec<Value> = rules.iter().map(PolicyRule::to_value).collect();
        append(&mut merged, "rules", &rules);
        merge_aggregation(&mut merged, existing, expected);
    }
    if merged == *existing {
        Repair::None
    } else {
        Repair::Replace(merged)
    }
}

/// An administrator's own value of a label wins.
fn add_missing_entries(metadata: &mut Value, field: &str, wanted: &Value) {
    for (key, value) in wanted.as_object().into_iter().flatten() {
        if metadata[field].get(key).is_none() {
            if !metadata[field].is_object() {
                metadata[field] = json!({});
            }
            metadata[field][key] = value.clone();
        }
    }
}

fn merge_aggregation(merged: &mut Value, existing: &Value, expected: &Value) {
    let selectors = |role: &Value| role["aggregationRule"]["clusterRoleSelectors"].clone();
    let Some(fields) = merged.as_object_mut() else { return };
    if expected.get("aggregationRule").is_none() {
        fields.remove("aggregationRule");
        return;
    }
    let missing = missing(&selectors(existing), &selectors(expected));
    if missing.is_empty() {
        return;
    }
    let rule = fields.entry("aggregationRule").or_insert_with(|| json!({}));
    if !rule.is_object() {
        *rule = json!({});
    }
    append(rule, "clusterRoleSelectors", &missing);
}

fn missing(existing: &Value, wanted: &Value) -> Vec<Value> {
    let there = existing.as_array().map_or(&[][..], Vec::as_slice);
    let wanted = wanted.as_array().into_iter().flatten();
    wanted.filter(|item| !there.contains(item)).cloned().collect()
}

fn append(object: &mut Value, field: &str, items: &[Value]) {
    if items.is_empty() {
        return;
    }
    match &mut object[field] {
        Value::Array(list) => list.extend(items.iter().cloned()),
        other => *other = items.to_vec().into(),
    }
}

#[cfg(test)]
mod tests {
    use trireme_machinery::Features;

    use super::*;
    use crate::rbac::policy;

    fn wanted(name: &str) -> PolicyObject {
        let objects = policy::objects(Features::default()).into_iter();
        let mut found = objects.filter(|object| object.name == name);
        found.next().expect("it is in the policy")
    }

    fn replaced(existing: &Value, name: &str) -> Value {
        match repair(existing, &wanted(name)) {
            Repair::Replace(object) => object,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_as_it_should_be_stays_and_so_does_what_an_administrator_added() {
        for object in policy::objects(Features::default()) {
            assert_eq!(repair(&object.object, &object), Repair::None, "{}", object.name);
        }
        let mut role = wanted("system:node-proxier").object;
        role["rules"].as_array_mut().expect("rules").push(json!({
            "verbs": ["get"], "apiGroups": [""], "resources": ["secrets"],
        }));
        role["metadata"]["labels"]["kubernetes.io/bootstrapping"] = "mine".into();
        assert_eq!(repair(&role, &wanted("system:node-proxier")), Repair::None);
    }

    #[test]
    fn missing_rules_come_back_one_by_one_unless_the_object_is_protected() {
        let mut role = wanted("system:public-info-viewer").object;
        role["rules"] = json!([{"verbs": ["get"], "nonResourceURLs": ["/healthz"]}]);
        let rules = replaced(&role, "system:public-info-viewer")["rules"].clone();
        assert_eq!(rules.as_array().map(Vec::len), Some(5), "one rule a path: {rules}");
        assert_eq!(rules[0]["nonResourceURLs"], json!(["/healthz"]));
        role["metadata"]["annotations"][AUTO_UPDATE] = "no".into();
        let kept = replaced(&role, "system:public-info-viewer");
        assert_eq!(kept["metadata"]["annotations"][AUTO_UPDATE], "no");
        role["metadata"]["annotations"][AUTO_UPDATE] = "false".into();
        assert_eq!(repair(&role, &wanted("system:public-info-viewer")), Repair::None);
    }

    #[test]
    fn aggregation_is_added_or_taken_away() {
        let mut view = wanted("view").object;
        view["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {"mine": "true"}}]});
        let selectors = replaced(&view, "view")["aggregationRule"]["clusterRoleSelectors"].clone();
        assert_eq!(selectors.as_array().map(Vec::len), Some(2));
        view.as_object_mut().expect("an object").remove("aggregationRule");
        assert_eq!(
            replaced(&view, "view")["aggregationRule"],
            wanted("view").object["aggregationRule"]
        );
        let mut plain = wanted("system:discovery").object;
        plain["aggregationRule"] = json!({"clusterRoleSelectors": [{}]});
        assert_eq!(replaced(&plain, "system:discovery").get("aggregationRule"), None);
    }

    #[test]
    fn a_binding_gets_its_subjects_back_and_is_made_anew_for_its_role() {
        let wanted_binding = policy::objects(Features::default())
            .into_iter()
            .find(|object| object.name == "system:discovery" && object.kind.is_binding())
            .expect("it is in the policy");
        let mut binding = wanted_binding.object.clone();
        let mine = json!({"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "me"});
        binding["subjects"] = json!([mine]);
        let Repair::Replace(merged) = repair(&binding, &wanted_binding) else {
            panic!("the subject is missing")
        };
        assert_eq!(merged["subjects"][0], mine);
        assert_eq!(merged["subjects"][1], wanted_binding.object["subjects"][0]);
        binding["roleRef"]["name"] = "other".into();
        assert_eq!(repair(&binding, &wanted_binding), Repair::Recreate);
    }
}
