//! The three reviews of access: of oneself, of any user, and of any user in a namespace.

use serde_json::{Value, json};
use trireme_machinery::{
    Object,
    field::{Error, ErrorList, Path},
    selector::{FieldSelector, LabelSelector, validate_field_requirements, validate_label_requirements},
};

use super::text;

fn at<'v>(value: &'v Value, pointer: &str) -> Option<&'v Value> {
    value.pointer(pointer)
}

fn items<'v>(value: &'v Value, name: &str) -> &'v [Value] {
    value.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The text at a JSON pointer; empty if it is absent.
fn text_at<'v>(value: &'v Value, pointer: &str) -> &'v str {
    at(value, pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The subject of a review.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReviewSubject {
    /// The user who asks: `SelfSubjectAccessReview`.
    Own,
    /// The user that it names: `SubjectAccessReview`.
    Any,
    /// The same, in one namespace: `LocalSubjectAccessReview`.
    InNamespace,
}

/// The two selectors that a review may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Selector {
    Fields,
    Labels,
}

const RESOURCE: &str = "/spec/resourceAttributes";
const PATH: &str = "/spec/nonResourceAttributes";

/// Validates a review (`ValidateSubjectAccessReview`, `ValidateSelfSubjectAccessReview`,
/// `ValidateLocalSubjectAccessReview`). `shown` prints metadata as errors show it.
pub(super) fn validate_subject_access_review(
    review: &Value,
    subject: ReviewSubject,
    shown: &dyn Fn(&Value) -> String,
) -> ErrorList {
    let mut errors = ErrorList::new();
    let (resource, path) = (at(review, RESOURCE), at(review, PATH));
    match (resource, path) {
        (Some(_), Some(path)) => {
            let why = "cannot be specified in combination with resourceAttributes";
            let at = Path::new("spec.nonResourceAttributes");
            errors.push(Error::invalid(&at, &path_shown(path), why));
        }
        (None, None) => {
            let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            errors.push(Error::invalid(&Path::new("spec.resourceAttributes"), &Value::Null, why));
        }
        _ => {}
    }
    let names_no_user = || text_at(review, "/spec/user").is_empty() && at(review, "/spec/groups").is_none();
    if subject != ReviewSubject::Own && names_no_user() {
        let why = "at least one of user or group must be specified";
        errors.push(Error::invalid_str(&Path::new("spec.user"), "", why));
    }
    for selector in [Selector::Fields, Selector::Labels] {
        errors.extend(resource.map(|resource| selector.validate(resource)).unwrap_or_default());
    }
    errors.extend(validate_metadata(review, subject, shown));
    if subject == ReviewSubject::InNamespace {
        let namespace = text_at(review, "/metadata/namespace");
        if let Some(given) = resource
            .map(|resource| text(resource, "namespace"))
            .filter(|it| *it != namespace)
        {
            let at = Path::new("spec.resourceAttributes.namespace");
            errors.push(Error::invalid_str(&at, given, "must match metadata.namespace"));
        }
        if let Some(path) = path {
            let at = Path::new("spec.nonResourceAttributes");
            let why = "disallowed on this kind of request";
            errors.push(Error::invalid(&at, &path_shown(path), why));
        }
    }
    errors
}

/// kube-apiserver shows its own form of these attributes, whose names are not those of the API.
fn path_shown(attributes: &Value) -> Value {
    json!({"Path": text(attributes, "path"), "Verb": text(attributes, "verb")})
}

fn validate_metadata(review: &Value, subject: ReviewSubject, shown: &dyn Fn(&Value) -> String) -> Option<Error> {
    let given = review.get("metadata")?;
    let mut rest = Object::clone(given.as_object()?);
    rest.remove("managedFields");
    let why = if subject == ReviewSubject::InNamespace {
        rest.remove("namespace");
        "must be empty except for namespace"
    } else {
        "must be empty"
    };
    (!rest.is_empty()).then(|| Error::invalid_shown(&Path::new("metadata"), shown(given), why))
}

/// The evaluation error about selectors that could not be understood, wholly or in part: access was judged without that.
pub(super) fn ignored_selectors(review: &Value) -> Vec<String> {
    let Some(resource) = at(review, RESOURCE) else {
        return Vec::new();
    };
    let said = [Selector::Fields, Selector::Labels].into_iter().filter_map(|selector| {
        let (ignored, all) = selector.ignored(resource)?;
        let partially = if ignored < all { "partially " } else { "" };
        let name = selector.name();
        Some(format!(
            "spec.resourceAttributes.{name} {partially}ignored due to parse error"
        ))
    });
    said.collect()
}

impl Selector {
    fn name(self) -> &'static str {
        match self {
            Self::Fields => "fieldSelector",
            Self::Labels => "labelSelector",
        }
    }

    fn validate(self, resource: &Value) -> ErrorList {
        let Some(selector) = resource.get(self.name()) else {
            return ErrorList::new();
        };
        let whole = format!("spec.resourceAttributes.{}", self.name());
        let path = Path::new(&whole);
        let (raw, requirements) = (text(selector, "rawSelector"), items(selector, "requirements"));
        let mut errors = ErrorList::new();
        match (raw.is_empty(), requirements.is_empty()) {
            (false, false) => {
                let why = "may not specified at the same time as requirements";
                errors.push(Error::invalid_str(&path.child("rawSelector"), raw, why));
            }
            (true, true) => {
                let why = format!("when {whole} is specified, requirements or rawSelector is required");
                errors.push(Error::required(&path.child("requirements"), &why));
            }
            _ => {}
        }
        errors.extend(match self {
            Self::Fields => validate_field_requirements(requirements, &path.child("requirements")),
            Self::Labels => validate_label_requirements(requirements, &path.child("requirements")),
        });
        errors
    }

    /// Counts the requirements that are not understood, and all; `None` if all are.
    fn ignored(self, resource: &Value) -> Option<(usize, usize)> {
        let selector = resource.get(self.name())?;
        let raw = text(selector, "rawSelector");
        let requirements = items(selector, "requirements");
        if !raw.is_empty() {
            let is_understood = match self {
                Self::Fields => FieldSelector::parse(raw).is_ok(),
                Self::Labels => LabelSelector::parse(raw).is_ok(),
            };
            return (!is_understood).then_some((1, 1));
        }
        let unknown = requirements.iter().filter(|requirement| !self.understands(requirement));
        Some((unknown.count(), requirements.len())).filter(|(ignored, _)| *ignored > 0)
    }

    /// Fields can be compared with one value and no more.
    fn understands(self, requirement: &Value) -> bool {
        match (self, text(requirement, "operator")) {
            (Self::Fields, "In" | "NotIn") => items(requirement, "values").len() == 1,
            (Self::Labels, "In" | "NotIn" | "Exists" | "DoesNotExist") => true,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(subject: ReviewSubject, review: Value, expected: &[&str]) {
        let texts: Vec<String> = validate_subject_access_review(&review, subject, &Value::to_string)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(texts, expected);
    }

    #[test]
    fn a_review_has_one_question_and_one_user() {
        check(ReviewSubject::Own, json!({"spec": {"resourceAttributes": {}}}), &[]);
        check(
            ReviewSubject::Own,
            json!({"metadata": {"name": "x"}, "spec": {}}),
            &[
                r#"spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified"#,
                r#"metadata: Invalid value: {"name":"x"}: must be empty"#,
            ],
        );
        check(
            ReviewSubject::Any,
            json!({"spec": {"resourceAttributes": {}, "nonResourceAttributes": {"path": "/a", "verb": "get"}}}),
            &[
                r#"spec.nonResourceAttributes: Invalid value: {"Path":"/a","Verb":"get"}: cannot be specified in combination with resourceAttributes"#,
                r#"spec.user: Invalid value: "": at least one of user or group must be specified"#,
            ],
        );
        let groups_only = json!({"spec": {"groups": ["g"], "nonResourceAttributes": {}}});
        check(ReviewSubject::Any, groups_only, &[]);
    }

    #[test]
    fn a_local_review_stays_in_its_namespace() {
        let of = |namespace: &str| {
            json!({
                "metadata": {"namespace": "n"},
                "spec": {"user": "u", "resourceAttributes": {"namespace": namespace}},
            })
        };
        check(ReviewSubject::InNamespace, of("n"), &[]);
        check(
            ReviewSubject::InNamespace,
            of("m"),
            &[r#"spec.resourceAttributes.namespace: Invalid value: "m": must match metadata.namespace"#],
        );
        check(
            ReviewSubject::InNamespace,
            json!({
                "metadata": {"namespace": "n", "generateName": "x"},
                "spec": {"user": "u", "nonResourceAttributes": {"path": "/", "verb": "get"}},
            }),
            &[
                r#"metadata: Invalid value: {"generateName":"x","namespace":"n"}: must be empty except for namespace"#,
                r#"spec.nonResourceAttributes: Invalid value: {"Path":"/","Verb":"get"}: disallowed on this kind of request"#,
            ],
        );
    }

    #[test]
    fn selectors_say_what_they_require_once() {
        let with = |fields: Value, labels: Value| json!({"spec": {"resourceAttributes": {"fieldSelector": fields, "labelSelector": labels}}});
        check(
            ReviewSubject::Own,
            with(
                json!({}),
                json!({"rawSelector": "a", "requirements": [{"key": "a", "operator": "Later"}]}),
            ),
            &[
                r#"spec.resourceAttributes.fieldSelector.requirements: Required value: when spec.resourceAttributes.fieldSelector is specified, requirements or rawSelector is required"#,
                r#"spec.resourceAttributes.labelSelector.rawSelector: Invalid value: "a": may not specified at the same time as requirements"#,
            ],
        );
        check(
            ReviewSubject::Own,
            with(
                json!({"requirements": [{"operator": "In"}, {"key": "!", "operator": "Exists", "values": ["a"]}]}),
                json!({"requirements": [{"key": "a", "operator": "In", "values": ["!"]}]}),
            ),
            &[
                r#"spec.resourceAttributes.fieldSelector.requirements[0].key: Required value: must be specified"#,
                r#"spec.resourceAttributes.fieldSelector.requirements[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'"#,
                r#"spec.resourceAttributes.fieldSelector.requirements[1].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'"#,
                r#"spec.resourceAttributes.labelSelector.requirements[0].values[0]: Invalid value: "!": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"#,
            ],
        );
    }

    #[test]
    fn unparsed_selectors_are_ignored_and_reported() {
        let ignored = |fields: Value, labels: Value| {
            let selectors = json!({"fieldSelector": fields, "labelSelector": labels});
            ignored_selectors(&json!({"spec": {"resourceAttributes": selectors}})).join("; ")
        };
        let good = json!({"rawSelector": "a=b"});
        assert_eq!(ignored(good.clone(), good.clone()), "");
        assert_eq!(
            ignored(json!({"rawSelector": "a in (b)"}), json!({"rawSelector": "a in ("})),
            "spec.resourceAttributes.fieldSelector ignored due to parse error; \
             spec.resourceAttributes.labelSelector ignored due to parse error"
        );
        let one = json!({"key": "a", "operator": "In", "values": ["b"]});
        let two = json!({"key": "a", "operator": "In", "values": ["b", "c"]});
        assert_eq!(
            ignored(json!({"requirements": [one, two]}), good.clone()),
            "spec.resourceAttributes.fieldSelector partially ignored due to parse error"
        );
        let newer = json!({"requirements": [{"key": "a", "operator": "Later"}]});
        assert_eq!(
            ignored(good, newer),
            "spec.resourceAttributes.labelSelector ignored due to parse error"
        );
    }
}
