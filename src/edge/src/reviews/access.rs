//! `SelfSubjectAccessReview`, `SubjectAccessReview` and `LocalSubjectAccessReview`: may a user do something
//! (`kubectl auth can-i`)?

use serde_json::{Value, json};
use trireme_auth::{Attributes, AuthorizationRequest, Decision, RequestSelectors};
use trireme_machinery::{
    ApiError, GroupKind,
    schema::{self, TypeTable},
};
use trireme_registry::request::UserInfo;

use super::{
    Reviewers,
    accessreviews::{self, ReviewSubject},
    selectors::ReviewedSelectors,
    text, texts,
};

const METADATA: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// Refuses a review that asks nothing, or names no user.
///
/// # Errors
/// 422 with all that is wrong with it.
pub(super) fn check(subject: ReviewSubject, review: &Value, types: &TypeTable) -> Result<(), ApiError> {
    let shown = |metadata: &Value| match types.find(METADATA) {
        Some(id) => schema::ordered_json(types, id, metadata),
        None => metadata.to_string(),
    };
    let errors = accessreviews::validate_subject_access_review(review, subject, &shown);
    if errors.is_empty() {
        return Ok(());
    }
    // kube-apiserver looks for the kind where it is not.
    let kind = GroupKind {
        group: "authorization.k8s.io".into(),
        kind: "".into(),
    };
    Err(ApiError::invalid(&kind, "", &errors))
}

/// Asks the authorizer. The answer is what was sent, with the decision as its status.
pub(super) async fn review(
    reviewers: &Reviewers,
    asking: &UserInfo,
    subject: ReviewSubject,
    mut review: Value,
) -> Value {
    let spec = review.get("spec").unwrap_or(&Value::Null);
    let named = named(spec);
    let selectors = spec.get("resourceAttributes").map(ReviewedSelectors::of);
    let selectors = selectors.unwrap_or_default();
    let attributes = Attributes {
        selectors: selectors.requested(),
        user: if subject == ReviewSubject::Own { asking } else { &named },
        ..attributes(spec, &named)
    };
    let decision = reviewers.authorizer.authorize(attributes).await;
    let ignored = accessreviews::ignored_selectors(&review).join("; ");
    review["status"] = status(decision, &ignored);
    review
}

/// The user that a review names.
fn named(spec: &Value) -> UserInfo {
    let extra = spec.get("extra").and_then(Value::as_object);
    let extra = extra.into_iter().flatten();
    UserInfo {
        name: text(spec, "user").to_owned(),
        uid: text(spec, "uid").to_owned(),
        groups: texts(spec, "groups"),
        extra: extra
            .map(|(key, _)| (key.clone(), texts(&spec["extra"], key)))
            .collect(),
    }
}

fn attributes<'a>(spec: &'a Value, user: &'a UserInfo) -> Attributes<'a> {
    match (spec.get("resourceAttributes"), spec.get("nonResourceAttributes")) {
        (Some(wanted), _) => Attributes {
            user,
            verb: text(wanted, "verb"),
            wanted: AuthorizationRequest::Resource {
                group: text(wanted, "group"),
                version: match text(wanted, "version") {
                    "" => "*",
                    version => version,
                },
                resource: text(wanted, "resource"),
                subresource: text(wanted, "subresource"),
                namespace: text(wanted, "namespace"),
                name: text(wanted, "name"),
            },
            selectors: RequestSelectors::default(),
        },
        (None, wanted) => {
            let wanted = wanted.unwrap_or(&Value::Null);
            Attributes {
                user,
                verb: text(wanted, "verb"),
                wanted: AuthorizationRequest::Path(text(wanted, "path")),
                selectors: RequestSelectors::default(),
            }
        }
    }
}

fn status(decision: Decision, ignored: &str) -> Value {
    let mut status = json!({"allowed": matches!(decision, Decision::Allow(_))});
    if matches!(decision, Decision::Deny(_) | Decision::Failed { denies: true, .. }) {
        status["denied"] = json!(true);
    }
    let (why, failed) = match decision {
        Decision::Allow(why) | Decision::Deny(why) | Decision::NoOpinion(why) => (why, String::new()),
        Decision::Failed { error, reason, .. } => (reason, error),
    };
    if !why.is_empty() {
        status["reason"] = json!(why);
    }
    if let Some(error) = [failed.as_str(), ignored].into_iter().find(|error| !error.is_empty()) {
        status["evaluationError"] = json!(error);
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_says_no_more_than_it_does() {
        let check = |decision, ignored, expected: Value| assert_eq!(status(decision, ignored), expected);
        check(Decision::Allow(String::new()), "", json!({"allowed": true}));
        check(
            Decision::Allow("because".into()),
            "ignored",
            json!({"allowed": true, "reason": "because", "evaluationError": "ignored"}),
        );
        check(
            Decision::Deny("never".into()),
            "",
            json!({"allowed": false, "denied": true, "reason": "never"}),
        );
        check(Decision::NoOpinion(String::new()), "", json!({"allowed": false}));
        check(
            Decision::Failed {
                error: "away".into(),
                reason: "shrug".into(),
                denies: false,
            },
            "",
            json!({"allowed": false, "reason": "shrug", "evaluationError": "away"}),
        );
        check(
            Decision::Failed {
                error: "both".into(),
                reason: String::new(),
                denies: true,
            },
            "",
            json!({"allowed": false, "denied": true, "evaluationError": "both"}),
        );
    }

    #[test]
    fn the_user_and_the_wish_are_those_of_the_review() {
        let spec = json!({
            "user": "u", "uid": "1", "groups": ["g", "h"], "extra": {"k": ["a", "b"], "none": []},
            "resourceAttributes": {"verb": "get", "group": "apps", "resource": "deployments", "subresource": "scale"},
        });
        let user = named(&spec);
        assert_eq!((user.name.as_str(), user.uid.as_str()), ("u", "1"));
        assert_eq!(user.groups, ["g", "h"]);
        assert_eq!(user.extra["k"], ["a", "b"]);
        assert!(user.extra["none"].is_empty());
        let Attributes { verb, wanted, .. } = attributes(&spec, &user);
        let AuthorizationRequest::Resource {
            group,
            version,
            resource,
            subresource,
            namespace,
            name,
        } = wanted
        else {
            panic!("{wanted:?}");
        };
        assert_eq!([verb, group, version, resource], ["get", "apps", "*", "deployments"]);
        assert_eq!([subresource, namespace, name], ["scale", "", ""]);
    }
}
