//! From a request body to an object of the expected kind, or to the error that kube-apiserver would give.

use std::sync::Arc;

use serde_json::{Value, json};
use trireme_machinery::{
    ApiError, GroupVersion, GroupVersionKind,
    field::{Error, ErrorList, Path},
    go_text::kind_name,
    go_text::quote,
    json::{self, StrictError},
    managed, protobuf,
    schema::{self, TypeId, TypeTable},
    yaml,
};

use crate::{
    definition::ObjectSchema,
    known_kinds::KnownKinds,
    request::{Body, BodyFormat, FieldValidation},
};

/// Decodes bodies of one kind.
pub(crate) struct BodyDecoder<'a> {
    pub(crate) types: &'a TypeTable,
    pub(crate) type_id: TypeId,
    /// In place of the type, for custom resources.
    pub(crate) schema: Option<&'a dyn ObjectSchema>,
    pub(crate) kind: GroupVersionKind,
    /// Kinds that are taken for it.
    pub(crate) also: &'a [GroupVersionKind],
    pub(crate) known_kinds: Arc<KnownKinds>,
}

/// An object with what is to be said about its unknown and duplicate fields.
#[derive(Debug)]
pub(crate) struct DecodedBody {
    pub(crate) object: Value,
    pub(crate) warnings: Vec<String>,
}

/// An error of a later stage with these warnings about the body, if it has none: the client gets them either way.
pub(crate) fn warned(mut error: ApiError, warnings: &[String]) -> ApiError {
    if error.warnings.is_empty() {
        error.warnings = warnings.to_vec();
    }
    error
}

/// A document with its duplicate keys.
struct Parsed {
    value: Value,
    duplicates: Duplicates,
}

enum Duplicates {
    /// Their paths.
    Json(Vec<String>),
    /// The message of each.
    Yaml(Vec<String>),
    /// The paths of those in a custom resource, which are found by another decoder than unknown fields.
    Custom(Vec<String>),
}

impl Parsed {
    fn of_custom_resource(self) -> Self {
        let duplicates = match self.duplicates {
            Duplicates::Json(paths) => Duplicates::Custom(paths),
            other => other,
        };
        Self { duplicates, ..self }
    }
}

impl Duplicates {
    /// The warnings for these and for unknown fields, one each.
    fn warnings(self, document: &[u8], unknown: Vec<String>) -> Vec<String> {
        match self {
            Self::Json(duplicates) => texts(&json::strict_errors(document, duplicates, unknown)),
            Self::Yaml(said) => said.into_iter().chain(unknown.into_iter().map(unknown_field)).collect(),
            Self::Custom(duplicates) => {
                let duplicates = duplicates
                    .into_iter()
                    .map(|path| StrictError::Duplicate(path).to_string());
                duplicates.chain(unknown.into_iter().map(unknown_field)).collect()
            }
        }
    }

    /// The list in the one error of strict mode.
    fn errors(self, document: &[u8], unknown: Vec<String>) -> Vec<String> {
        let together = match self {
            Self::Yaml(said) if !said.is_empty() => {
                Self::Yaml(vec![format!("yaml: unmarshal errors:\n  {}", said.join("\n  "))])
            }
            other => other,
        };
        together.warnings(document, unknown)
    }
}

fn unknown_field(path: String) -> String {
    StrictError::Unknown(path).to_string()
}

fn texts(errors: &[StrictError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

impl BodyDecoder<'_> {
    /// Decodes a whole body.
    pub(crate) fn decode(&self, body: &Body, validation: FieldValidation) -> Result<DecodedBody, ApiError> {
        let parsed = match body.format {
            BodyFormat::Json => parse_json(&body.bytes).map(|parsed| match self.schema {
                Some(_) => parsed.of_custom_resource(),
                None => parsed,
            }),
            BodyFormat::Yaml => parse_yaml(&body.bytes),
            BodyFormat::Protobuf => return self.decode_protobuf(&body.bytes),
        };
        let parsed = parsed.map_err(|why| self.unrecognized(&why, &body.bytes))?;
        let Parsed { mut value, duplicates } = parsed;
        let (version, kind) = stated_kind(&value).map_err(|why| self.unrecognized(&why, &body.bytes))?;
        let given = self.given_kind(version, kind);
        if self.schema.is_some() && kind.is_empty() {
            return Err(self.without_kind(&given, &value, body, validation));
        }
        let given = self.taken_for(given);
        self.check_version(&given)?;
        self.check_kind(&given, &value)?;
        set_kind(&mut value, &self.kind);
        let forgets_managers = forgets_managers(&value);
        let checked = match self.schema {
            Some(schema) => schema.decode(value),
            None => schema::decode_with_empty(self.types, self.type_id, value),
        };
        let mut checked = checked.map_err(|error| self.unfit(&given, &error.to_string()))?;
        if forgets_managers {
            forget_managers(&mut checked.value);
        }
        match validation {
            FieldValidation::Ignore => Ok(DecodedBody {
                object: checked.value,
                warnings: Vec::new(),
            }),
            FieldValidation::Warn => Ok(DecodedBody {
                object: checked.value,
                warnings: duplicates.warnings(&body.bytes, checked.unknown),
            }),
            FieldValidation::Strict => {
                let errors = duplicates.errors(&body.bytes, checked.unknown);
                if errors.is_empty() {
                    return Ok(DecodedBody {
                        object: checked.value,
                        warnings: Vec::new(),
                    });
                }
                Err(self.unfit(&given, &format!("strict decoding error: {}", errors.join(", "))))
            }
        }
    }

    /// Decodes a body in protobuf, which knows neither duplicate nor unknown fields.
    fn decode_protobuf(&self, bytes: &[u8]) -> Result<DecodedBody, ApiError> {
        let envelope = protobuf::envelope(bytes).map_err(|error| self.unrecognized(&error.to_string(), bytes))?;
        let group_version = match envelope.api_version.as_str() {
            "" => None,
            given => GroupVersion::parse(given),
        };
        let kind = Some(envelope.kind.as_str()).filter(|kind| !kind.is_empty());
        let given = group_version
            .unwrap_or_else(|| self.kind.group_version())
            .with_kind(kind.unwrap_or(&self.kind.kind));
        let given = self.taken_for(given);
        self.check_version(&given)?;
        self.check_kind(&given, &Value::Null)?;
        let mut value = protobuf::decode(self.types, self.type_id, envelope.raw)
            .map_err(|error| self.unfit(&given, &error.to_string()))?;
        set_kind(&mut value, &self.kind);
        let checked =
            schema::decode(self.types, self.type_id, value).map_err(|error| self.unfit(&given, &error.to_string()))?;
        Ok(DecodedBody {
            object: checked.value,
            warnings: Vec::new(),
        })
    }

    /// The kind that a body is of that says this version and kind; what it leaves out is taken from the URL.
    fn given_kind(&self, version: Option<GroupVersion>, kind: &str) -> GroupVersionKind {
        let version = match version {
            Some(given) => given,
            // A custom resource that says its kind says its version, too.
            None if self.schema.is_some() && !kind.is_empty() => GroupVersion::new("", ""),
            None => self.kind.group_version(),
        };
        version.with_kind(if kind.is_empty() { &self.kind.kind } else { kind })
    }

    fn taken_for(&self, given: GroupVersionKind) -> GroupVersionKind {
        if self.also.contains(&given) {
            self.kind.clone()
        } else {
            given
        }
    }

    /// A kind that is known by this name in another version can be read, but not here.
    fn check_version(&self, given: &GroupVersionKind) -> Result<(), ApiError> {
        let is_other = if self.schema.is_some() {
            given.group_version() != self.kind.group_version()
        } else {
            *given != self.kind && given.kind == self.kind.kind && self.known_kinds.contains(given)
        };
        if !is_other {
            return Ok(());
        }
        Err(ApiError::bad_request(format!(
            "the API version in the data ({}) does not match the expected API version ({})",
            given.group_version(),
            self.kind.group_version()
        )))
    }

    fn check_kind(&self, given: &GroupVersionKind, value: &Value) -> Result<(), ApiError> {
        if self.schema.is_some() {
            return check_custom_kind(given, &self.kind, value);
        }
        check_kind(given, &self.kind, &self.known_kinds).map_err(|why| self.unfit(given, &why))
    }

    /// The error of a body that cannot be what it was sent as.
    pub(super) fn unfit(&self, given: &GroupVersionKind, why: &str) -> ApiError {
        ApiError::bad_request(format!(
            "{} in version {} cannot be handled as a {}: {why}",
            given.kind,
            quote(&given.version),
            self.kind.kind
        ))
    }

    /// The error of a custom resource that leaves out its kind, which no decoder fills in for objects without a Go type. The
    /// strict decoder shows the body as it was sent, the other one as JSON.
    fn without_kind(
        &self,
        given: &GroupVersionKind,
        value: &Value,
        body: &Body,
        validation: FieldValidation,
    ) -> ApiError {
        let sent = String::from_utf8_lossy(&body.bytes);
        match (validation, body.format) {
            (FieldValidation::Warn | FieldValidation::Strict, _) => {
                self.unrecognized(&missing_kind(&sent), &body.bytes)
            }
            (FieldValidation::Ignore, BodyFormat::Yaml) => {
                let shown = schema::patched_json(self.types, None, value, &Value::Null);
                self.unfit(given, &missing_kind(&shown))
            }
            (FieldValidation::Ignore, _) => self.unfit(given, &missing_kind(sent.trim())),
        }
    }

    fn unrecognized(&self, why: &str, body: &[u8]) -> ApiError {
        ApiError::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): {why} ({})",
            self.kind.kind,
            summary(body)
        ))
    }
}

/// The version that a document says it is of, if it says one, and its kind, which may be empty (`SimpleMetaFactory`).
pub(super) fn stated_kind(document: &Value) -> Result<(Option<GroupVersion>, &str), String> {
    let target = "struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }";
    if !document.is_object() && !document.is_null() {
        return Err(interpret_error(format!(
            "json: cannot unmarshal {} into Go value of type {target}",
            kind_name(document)
        )));
    }
    let text = |name: &str| match document.get(name) {
        None | Some(Value::Null) => Ok(""),
        Some(Value::String(text)) => Ok(text.as_str()),
        Some(other) => Err(interpret_error(format!(
            "json: cannot unmarshal {} into Go struct field .{name} of type string",
            kind_name(other)
        ))),
    };
    let (api_version, kind) = (text("apiVersion")?, text("kind")?);
    let group_version = match api_version {
        "" => None,
        given => Some(GroupVersion::parse(given).ok_or_else(|| format!("unexpected GroupVersion string: {given}"))?),
    };
    Ok((group_version, kind))
}

/// The text about a document without a kind (`NewMissingKindErr`).
pub(super) fn missing_kind(document: &str) -> String {
    format!("Object 'Kind' is missing in '{document}'")
}

/// Refuses a custom resource that says it is of another kind, as its validation does.
pub(super) fn check_custom_kind(
    given: &GroupVersionKind,
    wanted: &GroupVersionKind,
    value: &Value,
) -> Result<(), ApiError> {
    let (given_version, version) = (given.group_version().to_string(), wanted.group_version().to_string());
    let mut errors = ErrorList::new();
    for (field, is, must) in [
        ("kind", &*given.kind, &*wanted.kind),
        ("apiVersion", &given_version, &version),
    ] {
        if is != must {
            errors.push(Error::invalid_str(&Path::new(field), is, &format!("must be {must}")));
        }
    }
    if errors.is_empty() {
        return Ok(());
    }
    let name = json::at(value, "/metadata/name").and_then(Value::as_str);
    Err(ApiError::invalid(
        &given.group_kind(),
        name.unwrap_or_default(),
        &errors,
    ))
}

/// The place in the sources of Kubernetes where most kinds are registered, which messages name.
const COMMON_SCHEME: &str = "k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30";

/// Reports whether an object that says it is of kind `given` can be had as one of kind `wanted`.
pub(crate) fn check_kind(
    given: &GroupVersionKind,
    wanted: &GroupVersionKind,
    known: &KnownKinds,
) -> Result<(), String> {
    if given == wanted {
        return Ok(());
    }
    let scheme = match &*wanted.group {
        "apiextensions.k8s.io" => "k8s.io/apiextensions-apiserver/pkg/apiserver/apiserver.go:55",
        "apiregistration.k8s.io" => "k8s.io/kube-aggregator/pkg/apiserver/scheme/scheme.go:28",
        _ => COMMON_SCHEME,
    };
    // The servers of these two groups know no other kinds.
    let is_known = known.contains(given) && (scheme == COMMON_SCHEME || given.group == wanted.group);
    if is_known && given.kind != wanted.kind {
        let package = wanted.group.split('.').next().filter(|group| !group.is_empty());
        return Err(format!(
            "converting ({}.{}) to ({}.{}): unknown conversion",
            given.version,
            given.kind,
            package.unwrap_or("core"),
            wanted.kind
        ));
    }
    Err(format!(
        "no kind {} is registered for version {} in scheme {}",
        quote(&given.kind),
        quote(&given.group_version().to_string()),
        quote(scheme)
    ))
}

fn interpret_error(why: String) -> String {
    format!("couldn't get version/kind; json parse error: {why}")
}

fn parse_json(bytes: &[u8]) -> Result<Parsed, String> {
    let decoded = json::decode(bytes).map_err(|error| interpret_error(error.to_string()))?;
    Ok(Parsed {
        value: decoded.value,
        duplicates: Duplicates::Json(decoded.duplicates),
    })
}

fn parse_yaml(bytes: &[u8]) -> Result<Parsed, String> {
    let decoded = yaml::decode(bytes).map_err(|error| error.to_string())?;
    Ok(Parsed {
        value: decoded.value,
        duplicates: Duplicates::Yaml(decoded.duplicates),
    })
}

/// True if the client gave a list of managers without one: the form in which objects are kept has no empty lists, but
/// this one means something.
pub(crate) fn forgets_managers(value: &Value) -> bool {
    managed::is_reset(json::at(value, "/metadata/managedFields"))
}

/// Puts an empty list of managers back.
pub(crate) fn forget_managers(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("managedFields".into(), Value::Array(Vec::new()));
    }
}

/// Decodes an apply, whose value keeps to nothing but YAML yet.
pub(crate) fn decode_apply(bytes: &[u8], validation: FieldValidation) -> Result<DecodedBody, ApiError> {
    let Parsed { mut value, duplicates } = parse_yaml(bytes)
        .map_err(|why| ApiError::bad_request(format!("error decoding YAML: error converting YAML to JSON: {why}")))?;
    if value.is_null() {
        value = json!({});
    }
    if !value.is_object() {
        return Err(ApiError::bad_request(format!(
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {} into Go value \
             of type map[string]interface {{}}",
            kind_name(&value)
        )));
    }
    let warnings = match validation {
        FieldValidation::Ignore => Vec::new(),
        FieldValidation::Warn => duplicates.warnings(bytes, Vec::new()),
        FieldValidation::Strict => {
            let errors = duplicates.errors(bytes, Vec::new());
            if !errors.is_empty() {
                return Err(ApiError::bad_request(format!(
                    "error strict decoding YAML: error converting YAML to JSON: {}",
                    errors.join(", ")
                )));
            }
            Vec::new()
        }
    };
    Ok(DecodedBody {
        object: value,
        warnings,
    })
}

/// Writes the kind's names into an object that left them out.
pub(crate) fn set_kind(value: &mut Value, kind: &GroupVersionKind) {
    if value.is_null() {
        *value = Value::Object(trireme_machinery::Object::new());
    }
    if let Some(fields) = value.as_object_mut() {
        fields.insert("apiVersion".into(), kind.group_version().to_string().into());
        fields.insert("kind".into(), Value::from(&*kind.kind));
    }
}

/// The beginning of a body as error texts show it: JSON as it is, anything else in hex.
fn summary(body: &[u8]) -> String {
    const SHOWN_BYTES: usize = 30;
    let (shown, dots) = match body.get(..SHOWN_BYTES) {
        Some(head) if body.len() > SHOWN_BYTES => (head, " ..."),
        _ => (body, ""),
    };
    let text = match shown.first() {
        None => return "<empty>".to_owned(),
        Some(b'{') => String::from_utf8_lossy(shown).into_owned(),
        Some(_) => shown.iter().map(|byte| format!("{byte:02x}")).collect(),
    };
    text + dots
}
