//! `DeleteOptions`: from the body if there is one, else from the query.

#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use serde_json::Value;
use trireme_machinery::{
    ApiError, GroupVersion,
    field::{Error, ErrorList, Path},
    go_text::{kind_name, parse_int, quote},
    json,
    schema::TypeTable,
    yaml,
};
use trireme_registry::request::{BodyFormat, DeleteOptions, Propagation};

use crate::{
    body::protobuf as protobuf_body,
    options::{check, validate_dry_run},
    query::Query,
};

/// Go's error on looking for a kind in something that is no object.
const NOT_AN_OBJECT: &str =
    r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;
/// The scheme that `DeleteOptions` are registered in, as Go's messages name it.
const SCHEME: &str = "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27";

const IGNORE_READ_ERROR: &str = "ignoreStoreReadErrorWithClusterBreakingPotential";

const OPTIONS_TYPE: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";

/// The options as asked for, before they are checked.
#[derive(Debug, Default, PartialEq)]
struct RequestedDeletion {
    grace_period_seconds: Option<i64>,
    orphan_dependents: Option<bool>,
    propagation_policy: Option<String>,
    dry_run: Vec<String>,
    has_preconditions: bool,
    uid: Option<String>,
    resource_version: Option<String>,
    ignore_read_error: bool,
}

/// Options, and what they mean to the answer.
#[derive(Debug, Default)]
pub(crate) struct DeletionOptions {
    pub(crate) options: DeleteOptions,
    /// True if a deletion that is not done at once is answered with 202.
    pub(crate) accepted_if_pending: bool,
    /// `ignoreStoreReadErrorWithClusterBreakingPotential`: delete what cannot be read, and nothing else.
    pub(crate) ignores_read_error: bool,
}

/// Options from a body.
///
/// # Errors
/// 400 if it cannot be decoded, 422 if it makes no sense.
pub(crate) fn from_body(
    bytes: &[u8],
    format: BodyFormat,
    types: &TypeTable,
    unsafe_deletion: bool,
) -> Result<DeletionOptions, ApiError> {
    let value = decode(bytes, format, types)?;
    let empty = trireme_machinery::Object::new();
    let fields = match &value {
        Value::Object(fields) => fields,
        Value::Null => &empty,
        other => {
            let what = kind_name(other);
            let text = format!(
                "couldn't get version/kind; json parse error: json: cannot unmarshal {what} into Go value of type {NOT_AN_OBJECT}"
            );
            return Err(ApiError::bad_request(text));
        }
    };
    let fields = DecodedOptions(fields);
    let api_version = fields.text("apiVersion")?.unwrap_or_default();
    let kind = fields.text("kind")?.unwrap_or_default();
    if GroupVersion::parse(&api_version).is_none() {
        let text = format!("unexpected GroupVersion string: {api_version}");
        return Err(ApiError::bad_request(text));
    }
    // The kind has no version: clients may send it in that of any group, served or not.
    if !matches!(&*kind, "" | "DeleteOptions") {
        let text = format!(
            "no kind {} is registered for version {} in scheme {}",
            quote(&kind),
            quote(&api_version),
            quote(SCHEME)
        );
        return Err(ApiError::bad_request(text));
    }
    let preconditions = fields.object("preconditions")?;
    RequestedDeletion {
        grace_period_seconds: fields.integer("gracePeriodSeconds")?,
        orphan_dependents: fields.flag("orphanDependents")?,
        propagation_policy: fields.text("propagationPolicy")?,
        dry_run: fields.texts("dryRun")?,
        has_preconditions: preconditions.is_some(),
        uid: preconditions.as_ref().map_or(Ok(None), |fields| fields.text("uid"))?,
        resource_version: preconditions
            .as_ref()
            .map_or(Ok(None), |fields| fields.text("resourceVersion"))?,
        ignore_read_error: fields.flag(IGNORE_READ_ERROR)?.unwrap_or_default() && unsafe_deletion,
    }
    .checked()
}

fn decode(bytes: &[u8], format: BodyFormat, types: &TypeTable) -> Result<Value, ApiError> {
    match format {
        BodyFormat::Json => {
            let text = |error| ApiError::bad_request(format!("couldn't get version/kind; json parse error: {error}"));
            Ok(json::decode(bytes).map_err(text)?.value)
        }
        BodyFormat::Yaml => {
            let text = |error: yaml::YamlError| ApiError::bad_request(error.to_string());
            Ok(yaml::decode(bytes).map_err(text)?.value)
        }
        BodyFormat::Protobuf => protobuf_body::decode(bytes, types, OPTIONS_TYPE),
    }
}

/// The options as the audit log has them: in the version that kube-apiserver has inside.
pub(crate) fn recorded(bytes: &[u8], format: BodyFormat, types: &TypeTable) -> Value {
    let mut value = decode(bytes, format, types).unwrap_or_default();
    if let Some(fields) = value.as_object_mut() {
        fields.insert("apiVersion".into(), "meta.k8s.io/__internal".into());
        fields.insert("kind".into(), "DeleteOptions".into());
    }
    value
}

/// Options from the query.
///
/// # Errors
/// 400 if one cannot be decoded, 422 if they make no sense.
pub(crate) fn from_query(query: &Query, unsafe_deletion: bool) -> Result<DeletionOptions, ApiError> {
    let grace_period_seconds = query.get("gracePeriodSeconds").map(parse_int);
    let precondition = |name| query.get(name).filter(|text| !text.is_empty()).map(str::to_owned);
    let (uid, resource_version) = (precondition("uid"), precondition("resourceVersion"));
    RequestedDeletion {
        grace_period_seconds: grace_period_seconds.transpose().map_err(ApiError::bad_request)?,
        orphan_dependents: query.get("orphanDependents").map(|_| query.flag("orphanDependents")),
        propagation_policy: query.get("propagationPolicy").map(str::to_owned),
        dry_run: query.all("dryRun").map(str::to_owned).collect(),
        has_preconditions: uid.is_some() || resource_version.is_some(),
        uid,
        resource_version,
        ignore_read_error: query.flag(IGNORE_READ_ERROR) && unsafe_deletion,
    }
    .checked()
}

impl DeletionOptions {
    /// Refuses what is for single objects only.
    ///
    /// # Errors
    /// 422 if the deletion is to ignore what it cannot read.
    pub(crate) fn check_for_collection(&self) -> Result<(), ApiError> {
        if !self.ignores_read_error {
            return Ok(());
        }
        let detail = "is not allowed with DELETECOLLECTION, try again after removing the option";
        let error = Error::invalid(&Path::new(IGNORE_READ_ERROR), &true.into(), detail);
        check("DeleteOptions", &vec![error])
    }
}

impl RequestedDeletion {
    fn checked(self) -> Result<DeletionOptions, ApiError> {
        let mut errors = ErrorList::new();
        let path = Path::new("propagationPolicy");
        let policy = self.propagation_policy.as_deref();
        if let (Some(_), Some(policy)) = (self.orphan_dependents, policy) {
            let why = "orphanDependents and deletionPropagation cannot be both set";
            errors.push(Error::invalid_str(&path, policy, why));
        }
        let propagation = match policy {
            None => self.orphan_dependents.map(|orphan| {
                if orphan {
                    Propagation::Orphan
                } else {
                    Propagation::Background
                }
            }),
            Some("Orphan") => Some(Propagation::Orphan),
            Some("Background") => Some(Propagation::Background),
            Some("Foreground") => Some(Propagation::Foreground),
            Some(other) => {
                let supported = ["Foreground", "Background", "Orphan", "nil"];
                errors.push(Error::not_supported(&path, other, &supported));
                None
            }
        };
        let dry_run: Vec<&str> = self.dry_run.iter().map(String::as_str).collect();
        errors.extend(validate_dry_run(&dry_run));
        self.validate_ignore_store_read_error(&mut errors);
        check("DeleteOptions", &errors)?;
        Ok(DeletionOptions {
            accepted_if_pending: self.orphan_dependents == Some(false),
            ignores_read_error: self.ignore_read_error,
            options: DeleteOptions {
                dry_run: !dry_run.is_empty(),
                grace_period_seconds: self.grace_period_seconds,
                propagation,
                uid: self.uid,
                resource_version: self.resource_version,
            },
        })
    }
}

impl RequestedDeletion {
    /// `ValidateIgnoreStoreReadError`: nothing that would have to be known of the object goes with it.
    fn validate_ignore_store_read_error(&self, errors: &mut ErrorList) {
        if !self.ignore_read_error {
            return;
        }
        let others = [
            (!self.dry_run.is_empty(), "dryRun"),
            (self.propagation_policy.is_some(), "propagationPolicy"),
            (self.orphan_dependents.is_some(), "orphanDependents"),
            (self.grace_period_seconds.is_some(), "gracePeriodSeconds"),
            (self.has_preconditions, "preconditions"),
        ];
        for (_, other) in others.into_iter().filter(|(is_given, _)| *is_given) {
            let detail = format!("cannot be set together with .{other}");
            errors.push(Error::invalid(&Path::new(IGNORE_READ_ERROR), &true.into(), &detail));
        }
    }
}

/// The fields of the decoded object.
struct DecodedOptions<'a>(&'a trireme_machinery::Object);

impl<'a> DecodedOptions<'a> {
    fn get(&self, name: &str) -> Option<&'a Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    fn text(&self, name: &str) -> Result<Option<String>, ApiError> {
        self.get(name)
            .map(|value| {
                value
                    .as_str()
                    .map(str::to_owned)
                    .ok_or_else(|| mismatch(name, value, "string"))
            })
            .transpose()
    }

    fn integer(&self, name: &str) -> Result<Option<i64>, ApiError> {
        self.get(name)
            .map(|value| value.as_i64().ok_or_else(|| mismatch(name, value, "int64")))
            .transpose()
    }

    fn flag(&self, name: &str) -> Result<Option<bool>, ApiError> {
        self.get(name)
            .map(|value| value.as_bool().ok_or_else(|| mismatch(name, value, "bool")))
            .transpose()
    }

    fn texts(&self, name: &str) -> Result<Vec<String>, ApiError> {
        let Some(value) = self.get(name) else {
            return Ok(Vec::new());
        };
        let items = value.as_array().ok_or_else(|| mismatch(name, value, "[]string"))?;
        items
            .iter()
            .map(|item| {
                item.as_str()
                    .map(str::to_owned)
                    .ok_or_else(|| mismatch(name, item, "string"))
            })
            .collect()
    }

    fn object(&self, name: &str) -> Result<Option<DecodedOptions<'a>>, ApiError> {
        self.get(name)
            .map(|value| {
                value
                    .as_object()
                    .map(DecodedOptions)
                    .ok_or_else(|| mismatch(name, value, "v1.Preconditions"))
            })
            .transpose()
    }
}

fn mismatch(name: &str, value: &Value, wanted: &str) -> ApiError {
    let what = match value {
        Value::Number(number) if !number.is_i64() => format!("number {number}"),
        other => kind_name(other).to_owned(),
    };
    ApiError::bad_request(format!(
        "json: cannot unmarshal {what} into Go struct field DeleteOptions.{name} of type {wanted}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(text: &str) -> Result<DeletionOptions, String> {
        from_body(text.as_bytes(), BodyFormat::Json, &TypeTable::default(), true).map_err(|error| error.message)
    }

    #[test]
    fn bodies_are_read() {
        let deletion = body(
            r#"{"apiVersion":"apps/v1","kind":"DeleteOptions","gracePeriodSeconds":5,"propagationPolicy":"Foreground","dryRun":["All"],"preconditions":{"uid":"u","resourceVersion":"7"}}"#,
        );
        let options = deletion.map(|deletion| deletion.options).expect("it is in order");
        assert_eq!(options.grace_period_seconds, Some(5));
        assert_eq!(options.propagation, Some(Propagation::Foreground));
        assert!(options.dry_run);
        assert_eq!(
            (options.uid.as_deref(), options.resource_version.as_deref()),
            (Some("u"), Some("7"))
        );
    }

    #[test]
    fn the_options_may_be_in_the_version_of_any_group() {
        for version in ["v1", "meta.k8s.io/v1", "apps/v1", "gone.example.com/v1beta7"] {
            let text = format!(r#"{{"apiVersion":"{version}","kind":"DeleteOptions"}}"#);
            assert!(body(&text).is_ok(), "{version}");
            let text = format!(r#"{{"apiVersion":"{version}"}}"#);
            assert!(body(&text).is_ok(), "{version}, without a kind");
        }
    }

    #[test]
    fn bodies_in_protobuf_are_read() {
        let mut body = b"k8s\0\x0a\x13\x0a\x02v1\x12\x0dDeleteOptions".to_vec();
        body.extend(b"\x12\x13\x08\x05\x12\x03\x0a\x01u\x22\x0aForeground");
        let read = |body: &[u8]| {
            from_body(body, BodyFormat::Protobuf, trireme_schema::type_table(), false).map_err(|error| error.message)
        };
        let options = read(&body).map(|deletion| deletion.options).expect("it is in order");
        assert_eq!(options.grace_period_seconds, Some(5));
        assert_eq!(options.uid.as_deref(), Some("u"));
        assert_eq!(options.propagation, Some(Propagation::Foreground));
        body.truncate(body.len() - 1);
        assert_eq!(read(&body).err().as_deref(), Some("unexpected EOF"));
    }

    #[test]
    fn bad_bodies_are_refused_in_gos_words() {
        for (text, message) in [
            (
                "{",
                "couldn't get version/kind; json parse error: unexpected end of JSON input",
            ),
            (
                "[]",
                r#"couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#,
            ),
            (
                r#"{"apiVersion":"v1","kind":"Pod"}"#,
                r#"no kind "Pod" is registered for version "v1" in scheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27""#,
            ),
            (
                r#"{"apiVersion":"v1","kind":"DeleteOptions","gracePeriodSeconds":"x"}"#,
                "json: cannot unmarshal string into Go struct field DeleteOptions.gracePeriodSeconds of type int64",
            ),
            (
                r#"{"apiVersion":"a/b/c","kind":"DeleteOptions"}"#,
                "unexpected GroupVersion string: a/b/c",
            ),
            (
                r#"{"dryRun":["x"]}"#,
                r#"DeleteOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["x"]: supported values: "All""#,
            ),
            (
                r#"{"propagationPolicy":""}"#,
                r#"DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Unsupported value: "": supported values: "Foreground", "Background", "Orphan", "nil""#,
            ),
        ] {
            assert_eq!(body(text).err().as_deref(), Some(message), "{text}");
        }
    }

    #[test]
    fn queries_are_read() {
        let query = |raw| {
            let query = Query::parse(Some(raw)).expect("is in order");
            from_query(&query, false).map_err(|error| error.message)
        };
        let deletion = query("orphanDependents=false&gracePeriodSeconds=-3&dryRun=All").expect("it is in order");
        assert!(deletion.accepted_if_pending && deletion.options.dry_run);
        assert_eq!(deletion.options.propagation, Some(Propagation::Background));
        assert_eq!(deletion.options.grace_period_seconds, Some(-3));
        for (raw, reason) in [
            ("gracePeriodSeconds=x", "parsing \"x\": invalid syntax"),
            (
                "gracePeriodSeconds=9223372036854775808",
                "parsing \"9223372036854775808\": value out of range",
            ),
        ] {
            assert_eq!(query(raw).err(), Some(format!("strconv.ParseInt: {reason}")), "{raw}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_deleted_without_conditions_and_where_that_is_enabled() {
        let query = |raw, enabled| {
            let query = Query::parse(Some(raw)).expect("is in order");
            from_query(&query, enabled)
                .map(|deletion| deletion.ignores_read_error)
                .map_err(|error| error.message)
        };
        let option = "ignoreStoreReadErrorWithClusterBreakingPotential=true";
        assert_eq!(query(option, true), Ok(true));
        assert_eq!(query(option, false), Ok(false));
        assert_eq!(query("", true), Ok(false));
        let with_others = format!("{option}&gracePeriodSeconds=0&uid=u");
        assert_eq!(query(&with_others, false), Ok(false), "the option does not exist then");
        let message = "DeleteOptions.meta.k8s.io \"\" is invalid: \
            [ignoreStoreReadErrorWithClusterBreakingPotential: Invalid value: true: cannot be set together with \
            .gracePeriodSeconds, ignoreStoreReadErrorWithClusterBreakingPotential: Invalid value: true: cannot be set \
            together with .preconditions]";
        assert_eq!(query(&with_others, true), Err(message.to_owned()));
        let in_body = r#"{"ignoreStoreReadErrorWithClusterBreakingPotential":true}"#;
        assert!(body(in_body).is_ok_and(|deletion| deletion.ignores_read_error));
        let with_policy = r#"{"ignoreStoreReadErrorWithClusterBreakingPotential":true,"propagationPolicy":"Orphan","dryRun":["All"]}"#;
        let message = "DeleteOptions.meta.k8s.io \"\" is invalid: \
            [ignoreStoreReadErrorWithClusterBreakingPotential: Invalid value: true: cannot be set together with \
            .dryRun, ignoreStoreReadErrorWithClusterBreakingPotential: Invalid value: true: cannot be set together with \
            .propagationPolicy]";
        assert_eq!(body(with_policy).err().as_deref(), Some(message));
    }

    #[test]
    fn preconditions_may_stand_in_the_query() {
        let preconditions = |raw| {
            let query = Query::parse(Some(raw)).expect("is in order");
            let options = from_query(&query, false).expect("it is in order").options;
            (options.uid, options.resource_version)
        };
        let both = (Some("u".to_owned()), Some("7".to_owned()));
        assert_eq!(preconditions("uid=u&resourceVersion=7"), both);
        assert_eq!(preconditions("uid=&resourceVersion="), (None, None));
    }
}
