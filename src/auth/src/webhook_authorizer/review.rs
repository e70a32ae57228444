//! The `SubjectAccessReview` that a webhook gets, and its answer (`plugin/pkg/authorizer/webhook`).

use serde_json::{Map, Value, json};
use trireme_machinery::selector::{FieldSelector, LabelSelector, Operator};

use crate::authorizer::{Attributes, AuthorizationRequest, RequestSelectors};

/// The versions of `SubjectAccessReview` that a webhook may speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessReviewVersion {
    /// `authorization.k8s.io/v1`
    V1,
    /// `authorization.k8s.io/v1beta1`
    V1Beta1,
}

impl AccessReviewVersion {
    /// Reads the name of a version.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "v1" => Some(Self::V1),
            "v1beta1" => Some(Self::V1Beta1),
            _ => None,
        }
    }

    /// The review of a spec of `v1`.
    pub(super) fn review(self, spec: &Value) -> Value {
        let (version, spec) = match self {
            Self::V1 => ("authorization.k8s.io/v1", spec.clone()),
            Self::V1Beta1 => ("authorization.k8s.io/v1beta1", in_v1beta1(spec)),
        };
        json!({
            "kind": "SubjectAccessReview",
            "apiVersion": version,
            "metadata": {},
            "spec": spec,
            "status": {"allowed": false},
        })
    }
}

/// Groups have another name in the old version.
fn in_v1beta1(spec: &Value) -> Value {
    let mut spec = spec.clone();
    if let Some(fields) = spec.as_object_mut()
        && let Some(groups) = fields.remove("groups")
    {
        fields.insert("group".to_owned(), groups);
    }
    spec
}

/// The spec of a review in `v1`. What is empty is left out.
pub(super) fn spec(attributes: &Attributes<'_>) -> Value {
    let user = attributes.user;
    let mut spec = Map::new();
    match attributes.wanted {
        AuthorizationRequest::Resource {
            group,
            version,
            resource,
            subresource,
            namespace,
            name,
        } => {
            let mut wanted = texts(&[
                ("namespace", namespace),
                ("verb", attributes.verb),
                ("group", group),
                ("version", version),
                ("resource", resource),
                ("subresource", subresource),
                ("name", name),
            ]);
            add_selectors(&mut wanted, attributes.selectors);
            spec.insert("resourceAttributes".to_owned(), wanted.into());
        }
        AuthorizationRequest::Path(path) => {
            let wanted = texts(&[("path", path), ("verb", attributes.verb)]);
            spec.insert("nonResourceAttributes".to_owned(), wanted.into());
        }
    }
    spec.extend(texts(&[("user", &user.name)]));
    if !user.groups.is_empty() {
        spec.insert("groups".to_owned(), json!(user.groups));
    }
    if !user.extra.is_empty() {
        spec.insert("extra".to_owned(), json!(user.extra));
    }
    spec.extend(texts(&[("uid", &user.uid)]));
    spec.into()
}

fn texts(fields: &[(&str, &str)]) -> Map<String, Value> {
    let given = fields.iter().filter(|(_, value)| !value.is_empty());
    given.map(|(name, value)| ((*name).to_owned(), json!(value))).collect()
}

fn add_selectors(wanted: &mut Map<String, Value>, selectors: RequestSelectors<'_>) {
    let fields = selectors.fields.map(field_requirements).unwrap_or_default();
    let labels = selectors.labels.map(label_requirements).unwrap_or_default();
    for (name, requirements) in [("fieldSelector", fields), ("labelSelector", labels)] {
        if !requirements.is_empty() {
            wanted.insert(name.to_owned(), json!({"requirements": requirements}));
        }
    }
}

fn field_requirements(selector: &FieldSelector) -> Vec<Value> {
    let requirement = |(field, value, negated): (&String, &String, bool)| {
        let operator = if negated { "NotIn" } else { "In" };
        json!({"key": field, "operator": operator, "values": [value]})
    };
    let terms = selector.terms().iter();
    terms
        .map(|term| requirement((&term.field, &term.value, term.negated)))
        .collect()
}

/// Operators that a review does not know are left out: without them more is asked for.
fn label_requirements(selector: &LabelSelector) -> Vec<Value> {
    let requirements = selector.requirements().iter().filter_map(|requirement| {
        let operator = match requirement.operator() {
            Operator::Equals | Operator::DoubleEquals | Operator::In => "In",
            Operator::NotEquals | Operator::NotIn => "NotIn",
            Operator::Exists => "Exists",
            Operator::DoesNotExist => "DoesNotExist",
            Operator::GreaterThan | Operator::LessThan => return None,
        };
        let mut shown = json!({"key": requirement.key(), "operator": operator});
        if !requirement.values().is_empty() {
            shown["values"] = json!(requirement.values());
        }
        Some(shown)
    });
    requirements.collect()
}

/// The status of an answered review.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AccessReviewStatus {
    pub(crate) is_allowed: bool,
    pub(crate) is_denied: bool,
    pub(crate) reason: String,
}

impl AccessReviewStatus {
    /// Reads an answer.
    pub(crate) fn read(answer: &Value) -> Self {
        let status = &answer["status"];
        let flag = |name: &str| status[name].as_bool().unwrap_or_default();
        Self {
            is_allowed: flag("allowed"),
            is_denied: flag("denied"),
            reason: status["reason"].as_str().unwrap_or_default().to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use trireme_registry::request::UserInfo;

    use super::*;

    fn user() -> UserInfo {
        UserInfo {
            name: "u".into(),
            groups: vec!["g".into()],
            ..UserInfo::default()
        }
    }

    #[test]
    fn a_review_says_what_is_asked_for_and_of_which_objects() {
        let user = user();
        let fields = FieldSelector::parse("spec.nodeName=n1,status.phase!=Running").expect("a selector");
        let labels = LabelSelector::parse("a in (b,c),!d,e>3").expect("a selector");
        let spec = spec(&Attributes {
            user: &user,
            verb: "list",
            wanted: AuthorizationRequest::Resource {
                group: "",
                version: "v1",
                resource: "pods",
                subresource: "",
                namespace: "n",
                name: "",
            },
            selectors: RequestSelectors {
                fields: Some(&fields),
                labels: Some(&labels),
            },
        });
        let expected = json!({
            "resourceAttributes": {
                "namespace": "n", "verb": "list", "version": "v1", "resource": "pods",
                "fieldSelector": {"requirements": [
                    {"key": "spec.nodeName", "operator": "In", "values": ["n1"]},
                    {"key": "status.phase", "operator": "NotIn", "values": ["Running"]},
                ]},
                "labelSelector": {"requirements": [
                    {"key": "a", "operator": "In", "values": ["b", "c"]},
                    {"key": "d", "operator": "DoesNotExist"},
                ]},
            },
            "user": "u",
            "groups": ["g"],
        });
        assert_eq!(spec, expected);
    }

    #[test]
    fn the_old_version_names_groups_otherwise() {
        let user = user();
        let spec = spec(&Attributes {
            user: &user,
            verb: "get",
            wanted: AuthorizationRequest::Path("/x"),
            selectors: RequestSelectors::default(),
        });
        let review = AccessReviewVersion::V1Beta1.review(&spec);
        assert_eq!(review["apiVersion"], "authorization.k8s.io/v1beta1");
        let expected = json!({"nonResourceAttributes": {"path": "/x", "verb": "get"}, "user": "u", "group": ["g"]});
        assert_eq!(review["spec"], expected);
        assert_eq!(AccessReviewVersion::V1.review(&spec)["spec"]["groups"], json!(["g"]));
    }
}
