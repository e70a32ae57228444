//! `SelfSubjectRulesReview`: what may I do (`kubectl auth can-i --list`)?

use serde_json::{Value, json};
use trireme_auth::Rules;
use trireme_machinery::{ApiError, Object};
use trireme_registry::request::UserInfo;

use super::{Reviewers, text};

/// Refuses a review of no namespace.
///
/// # Errors
/// 400
pub(super) fn check(review: &Value) -> Result<(), ApiError> {
    if namespace(review).is_empty() {
        return Err(ApiError::bad_request("no namespace on request"));
    }
    Ok(())
}

/// Lists what the user may do in a namespace. Nothing of what was sent is in the answer.
pub(super) async fn review(reviewers: &Reviewers, user: &UserInfo, review: &Value) -> Value {
    let rules = reviewers.rules.rules(user, namespace(review)).await;
    json!({"metadata": {}, "spec": {}, "status": status(&rules)})
}

fn namespace(review: &Value) -> &str {
    review.get("spec").map_or("", |spec| text(spec, "namespace"))
}

fn status(rules: &Rules) -> Value {
    let on_objects = rules.resources.iter().map(|rule| {
        let lists = [
            ("apiGroups", &rule.groups),
            ("resources", &rule.resources),
            ("resourceNames", &rule.names),
        ];
        entry(&rule.verbs, &lists)
    });
    let on_paths = rules
        .paths
        .iter()
        .map(|rule| entry(&rule.verbs, &[("nonResourceURLs", &rule.paths)]));
    let mut status = json!({
        "resourceRules": on_objects.collect::<Value>(),
        "nonResourceRules": on_paths.collect::<Value>(),
        "incomplete": rules.is_incomplete,
    });
    if let Some(why) = &rules.error {
        status["evaluationError"] = json!(why);
    }
    status
}

fn entry(verbs: &[String], lists: &[(&str, &Vec<String>)]) -> Value {
    let mut entry = Object::new();
    entry.insert("verbs".into(), json!(verbs));
    for (name, texts) in lists.iter().filter(|(_, texts)| !texts.is_empty()) {
        entry.insert((*name).to_owned(), json!(texts));
    }
    entry.into()
}

#[cfg(test)]
mod tests {
    use trireme_auth::{PathRule, ResourceRule};

    use super::*;

    #[test]
    fn unlimited_rules_are_left_out_and_missing_ones_are_reported() {
        let text = |text: &str| vec![text.to_owned()];
        let rules = Rules {
            resources: vec![ResourceRule {
                verbs: text("get"),
                groups: text(""),
                resources: text("pods"),
                names: Vec::new(),
            }],
            paths: vec![PathRule {
                verbs: text("get"),
                paths: text("/api/*"),
            }],
            is_incomplete: true,
            error: Some("one did not say".to_owned()),
        };
        assert_eq!(
            status(&rules),
            json!({
                "resourceRules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}],
                "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/api/*"]}],
                "incomplete": true,
                "evaluationError": "one did not say",
            })
        );
        let nothing = json!({"resourceRules": [], "nonResourceRules": [], "incomplete": false});
        assert_eq!(status(&Rules::default()), nothing);
    }
}
