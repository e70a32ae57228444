//! PriorityLevelConfigurations (`pkg/registry/flowcontrol/prioritylevelconfiguration`).

use serde_json::{Value, json};
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    go_text::structs::{self, PrintedField, PrintedShape},
};
use trireme_registry::{ResetFields, Strategy, WriteContext, request::Subresource, strategy::MetadataChecks};

use super::validate_status_conditions;
use crate::{
    checks::number,
    columns::{self, column, documented},
    kind::Kind,
    values::{keep_field, keep_metadata, remove, text, text_at},
};

const SPEC: &str = "io.k8s.api.flowcontrol.v1.PriorityLevelConfigurationSpec";
const LIMITED: &str = "io.k8s.api.flowcontrol.v1.LimitedPriorityLevelConfiguration";
const QUEUING: &str = "io.k8s.api.flowcontrol.v1.QueuingConfiguration";
/// The annotation in which version 1beta3 kept zero shares; it is forbidden.
const PRESERVES_ZERO: &str = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares";
const MAX_QUEUES: i64 = 10_000_000;
/// The random bits that there are for dealing a hand of queues.
const MAX_ENTROPY_BITS: f64 = 60.0;

const INTERNAL_SPEC: &[PrintedField] = &[
    ("Type", "type", PrintedShape::Text),
    (
        "Limited",
        "limited",
        PrintedShape::Pointer(&[
            (
                "NominalConcurrencyShares",
                "nominalConcurrencyShares",
                PrintedShape::Number,
            ),
            (
                "LimitResponse",
                "limitResponse",
                PrintedShape::Struct(&[
                    ("Type", "type", PrintedShape::Text),
                    (
                        "Queuing",
                        "queuing",
                        PrintedShape::Pointer(&[
                            ("Queues", "queues", PrintedShape::Number),
                            ("HandSize", "handSize", PrintedShape::Number),
                            ("QueueLengthLimit", "queueLengthLimit", PrintedShape::Number),
                        ]),
                    ),
                ]),
            ),
            ("LendablePercent", "lendablePercent", PrintedShape::Plain),
            ("BorrowingLimitPercent", "borrowingLimitPercent", PrintedShape::Plain),
        ]),
    ),
    (
        "Exempt",
        "exempt",
        PrintedShape::Pointer(&[
            (
                "NominalConcurrencyShares",
                "nominalConcurrencyShares",
                PrintedShape::Plain,
            ),
            ("LendablePercent", "lendablePercent", PrintedShape::Plain),
        ]),
    ),
];

/// The kind's parts.
pub(crate) fn kind() -> Kind {
    let at = |pointer: &'static str| {
        move |object: &Value| object.pointer(pointer).cloned().unwrap_or_else(|| "<none>".into())
    };
    let queuing = |name: &str, field: &'static str, pointer: &'static str| {
        column(name, "string", documented(QUEUING, field), at(pointer))
    };
    Kind::new(
        "flowcontrol.apiserver.k8s.io",
        "prioritylevelconfigurations",
        PriorityLevels,
    )
    .columns(vec![
        columns::name(),
        column("Type", "string", documented(SPEC, "type"), |object| {
            Value::from(text_at(object, "/spec/type"))
        }),
        column(
            "NominalConcurrencyShares",
            "string",
            documented(LIMITED, "nominalConcurrencyShares"),
            at("/spec/limited/nominalConcurrencyShares"),
        ),
        queuing("Queues", "queues", "/spec/limited/limitResponse/queuing/queues"),
        queuing("HandSize", "handSize", "/spec/limited/limitResponse/queuing/handSize"),
        queuing(
            "QueueLengthLimit",
            "queueLengthLimit",
            "/spec/limited/limitResponse/queuing/queueLengthLimit",
        ),
        columns::age(),
    ])
}

struct PriorityLevels;

impl Strategy for PriorityLevels {
    fn reset_fields(&self, subresource: Subresource) -> ResetFields {
        ResetFields::of_bare_status(subresource)
    }

    fn default(&self, object: &mut Value) {
        // Nothing and no number are the same to queues.
        let Some(Value::Object(queuing)) = object.pointer_mut("/spec/limited/limitResponse/queuing") else {
            return;
        };
        for (field, number) in [("handSize", 8), ("queueLengthLimit", 50), ("queues", 64)] {
            if queuing.get(field).and_then(Value::as_i64) == Some(0) {
                queuing.insert(field.into(), number.into());
            }
        }
    }

    fn prepare_for_create(&self, _context: &WriteContext, object: &mut Value) {
        object["status"] = json!({});
    }

    fn validate(&self, _context: &WriteContext, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        let spec = object.get("spec").unwrap_or(&Value::Null);
        let name = text_at(object, "/metadata/name");
        let annotations = object.pointer("/metadata/annotations");
        if annotations.is_some_and(|annotations| annotations.get(PRESERVES_ZERO).is_some()) {
            let detail = format!("annotation '{PRESERVES_ZERO}' is forbidden");
            errors.push(Error::forbidden(&Path::new("metadata.annotations"), &detail));
        }
        validate_priority_level_configuration_spec(name, spec, &Path::new("spec"), &mut errors);
        validate_if_mandatory_priority_level_configuration_object(name, spec, &mut errors);
        errors.extend(validate_status_conditions(object));
        errors
    }

    fn prepare_for_update(&self, _context: &WriteContext, new: &mut Value, old: &Value) {
        keep_field(new, old, "status");
    }

    fn prepare_for_status_update(&self, _context: &WriteContext, new: &mut Value, old: &Value) {
        keep_field(new, old, "spec");
        keep_metadata(new, old);
    }

    fn validate_status_update(&self, _context: &WriteContext, new: &Value, _old: &Value) -> ErrorList {
        validate_status_conditions(new)
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn metadata_checks_of_update(&self, _context: &WriteContext) -> MetadataChecks {
        MetadataChecks::OfNew
    }
}

/// The levels that must be as they are (`ValidateIfMandatoryPriorityLevelConfigurationObject`).
fn validate_if_mandatory_priority_level_configuration_object(name: &str, spec: &Value, errors: &mut ErrorList) {
    let shown = |spec: &Value| structs::compact(Some(spec), PrintedShape::Struct(INTERNAL_SPEC));
    let (fixed, but) = match name {
        "exempt" => (json!({ "type": "Exempt" }), " except the 'spec.exempt' field"),
        "catch-all" => {
            let limited =
                json!({ "nominalConcurrencyShares": 5, "lendablePercent": 0, "limitResponse": { "type": "Reject" } });
            (json!({ "type": "Limited", "limited": limited }), "")
        }
        _ => return,
    };
    let mut compared = spec.clone();
    if name == "exempt" {
        remove(&mut compared, "exempt");
    }
    if shown(&compared) != shown(&fixed) {
        let detail = format!("spec of '{name}'{but} must equal the fixed value");
        errors.push(Error::invalid_shown(&Path::new("spec"), shown(spec), &detail));
    }
}

/// As upstream's `ValidatePriorityLevelConfigurationSpec`.
fn validate_priority_level_configuration_spec(name: &str, spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let level_type = text(spec, "type");
    if (name == "exempt") != (level_type == "Exempt") {
        let detail = "must be 'Exempt' if and only if `name` is 'exempt'";
        errors.push(Error::invalid_str(&path.child("type"), level_type, detail));
    }
    let (limited, exempt) = (spec.get("limited"), spec.get("exempt"));
    match level_type {
        "Exempt" => {
            if limited.is_some() {
                errors.push(Error::forbidden(
                    &path.child("limited"),
                    "must be nil if the type is not Limited",
                ));
            }
            if let Some(exempt) = exempt {
                validate_nominal_concurrency_shares(exempt, &path.child("exempt"), errors);
                validate_lendable_percent(exempt, &path.child("exempt"), errors);
            }
        }
        "Limited" => {
            if exempt.is_some() {
                errors.push(Error::forbidden(
                    &path.child("exempt"),
                    "must be nil if the type is Limited",
                ));
            }
            match limited {
                Some(limited) => validate_limited_priority_level_configuration(limited, &path.child("limited"), errors),
                None => {
                    errors.push(Error::required(
                        &path.child("limited"),
                        "must not be empty when type is Limited",
                    ));
                }
            }
        }
        other => errors.push(Error::not_supported(&path.child("type"), other, &["Exempt", "Limited"])),
    }
}

fn validate_nominal_concurrency_shares(level: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    if let Some(shares) = number(level, "nominalConcurrencyShares").filter(|shares| *shares < 0) {
        let at = path.child("nominalConcurrencyShares");
        errors.push(Error::invalid(&at, &shares.into(), "must be a non-negative integer"));
    }
}

fn validate_lendable_percent(level: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    if let Some(percent) = number(level, "lendablePercent").filter(|percent| !(0..=100).contains(percent)) {
        let at = path.child("lendablePercent");
        errors.push(Error::invalid(
            &at,
            &percent.into(),
            "must be between 0 and 100, inclusive",
        ));
    }
}

/// As upstream's `ValidateLimitedPriorityLevelConfiguration`.
fn validate_limited_priority_level_configuration(limited: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    validate_nominal_concurrency_shares(limited, path, errors);
    let at = path.child("limitResponse");
    let response = limited.get("limitResponse").unwrap_or(&Value::Null);
    let queuing = response.get("queuing");
    match (text(response, "type"), queuing) {
        ("Reject", Some(_)) => {
            let detail = "must be nil if limited.limitResponse.type is not Limited";
            errors.push(Error::forbidden(&at.child("queuing"), detail));
        }
        ("Reject", None) => {}
        ("Queue", None) => {
            let detail = "must not be empty if limited.limitResponse.type is Limited";
            errors.push(Error::required(&at.child("queuing"), detail));
        }
        ("Queue", Some(queuing)) => {
            validate_priority_level_queuing_configuration(queuing, &at.child("queuing"), errors)
        }
        (other, _) => errors.push(Error::not_supported(&at.child("type"), other, &["Queue", "Reject"])),
    }
    validate_lendable_percent(limited, path, errors);
    if let Some(percent) = number(limited, "borrowingLimitPercent").filter(|percent| *percent < 0) {
        let detail = "if specified, must be a non-negative integer";
        errors.push(Error::invalid(
            &path.child("borrowingLimitPercent"),
            &percent.into(),
            detail,
        ));
    }
}

/// As upstream's `ValidatePriorityLevelQueuingConfiguration`.
fn validate_priority_level_queuing_configuration(queuing: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let value = |field: &str| number(queuing, field).unwrap_or(0);
    let mut refuse = |field: &str, detail: &str| {
        errors.push(Error::invalid(&path.child(field), &value(field).into(), detail));
    };
    let (queues, hand) = (value("queues"), value("handSize"));
    if value("queueLengthLimit") <= 0 {
        refuse("queueLengthLimit", "must be positive");
    }
    if queues <= 0 {
        refuse("queues", "must be positive");
    } else if queues > MAX_QUEUES {
        refuse("queues", &format!("must not be greater than {MAX_QUEUES}"));
    }
    if hand <= 0 {
        refuse("handSize", "must be positive");
    } else if hand > queues {
        refuse("handSize", &format!("should not be greater than queues ({queues})"));
    } else if entropy_bits(queues, hand) > MAX_ENTROPY_BITS {
        refuse(
            "handSize",
            &format!(
                "required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {MAX_ENTROPY_BITS}"
            ),
        );
    }
}

/// The number of random bits it takes to deal so many queues of all.
fn entropy_bits(queues: i64, hand: i64) -> f64 {
    let float = |number: i64| i32::try_from(number).map_or(f64::INFINITY, f64::from);
    (float(queues).log2() * float(hand)).ceil()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Trial, named};

    #[test]
    fn conditions_have_types_and_annotations_of_conversion_are_forbidden() {
        let trial = Trial::new("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations", kind());
        let limited = json!({ "type": "Limited", "limited": { "limitResponse": { "type": "Reject" } } });
        let level = trial.create(named("l", limited.clone())).expect("a valid level");
        let status = json!({ "conditions": [{ "type": "A" }, { "type": "A" }, { "type": "" }] });
        trial.expect_status_errors(
            &level,
            &[(
                status,
                &[
                    "status.conditions[1].type: Duplicate value: \"A\"",
                    "status.conditions[2].type: Required value",
                ],
            )],
        );
        let mut marked = named("l", limited);
        marked["metadata"]["annotations"] = json!({ PRESERVES_ZERO: "" });
        let error = format!("metadata.annotations: Forbidden: annotation '{PRESERVES_ZERO}' is forbidden");
        trial.expect_errors(&[(marked, &[&error])]);
    }

    #[test]
    fn errors() {
        let queue = |queues: i64, hand: i64| {
            let queuing = json!({ "queues": queues, "handSize": hand });
            let limited = json!({ "limitResponse": { "type": "Queue", "queuing": queuing } });
            named("l", json!({ "type": "Limited", "limited": limited }))
        };
        Trial::new("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations", kind()).expect_errors(&[
            (queue(64, 8), &[]),
            (queue(4, 8), &["spec.limited.limitResponse.queuing.handSize: Invalid value: 8: should not be greater than queues (4)"]),
            (queue(1024, 8), &[
                "spec.limited.limitResponse.queuing.handSize: Invalid value: 8: required entropy bits of deckSize 1024 and handSize 8 should not be greater than 60",
            ]),
            (named("l", json!({ "type": "Limited" })), &["spec.limited: Required value: must not be empty when type is Limited"]),
            (named("exempt", json!({ "type": "Exempt", "exempt": { "nominalConcurrencyShares": 3 } })), &[]),
            (named("l", json!({ "type": "Exempt" })), &[
                "spec.type: Invalid value: \"Exempt\": must be 'Exempt' if and only if `name` is 'exempt'",
            ]),
        ]);
    }
}
