//! The one error type that a client can come to see, with the texts of `k8s.io/apimachinery/pkg/api/errors`.
//!
//! It knows no HTTP: the edge maps each [`Reason`] to a status code in one table.

use std::fmt;

use serde_json::Value;

use crate::{
    field::ErrorList,
    go_text::quote,
    gvk::{GroupKind, GroupResource},
};

/// The reason that a request failed: the closed set of `Status.reason`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// No or bad credentials.
    Unauthorized,
    /// The user may not do this, or policy is against it.
    Forbidden,
    /// The object, resource or path does not exist.
    NotFound,
    /// The name is taken.
    AlreadyExists,
    /// The object changed meanwhile, or a precondition failed.
    Conflict,
    /// The wanted revision or continue token is no longer available.
    Expired,
    /// The object or the options break a rule.
    Invalid,
    /// The request could not be decoded or makes no sense.
    BadRequest,
    /// The verb is not supported on this resource.
    MethodNotAllowed,
    /// No acceptable representation.
    NotAcceptable,
    /// The body's media type is not supported.
    UnsupportedMediaType,
    /// The body is too large.
    RequestEntityTooLarge,
    /// Overload, or a disruption budget: try again later.
    TooManyRequests,
    /// The request did not finish in time, or its outcome is unknown.
    Timeout,
    /// The client did not send its request in time. Clients read the reason `Timeout`.
    RequestTimeout,
    /// The server is not able to serve this now, try again.
    ServerTimeout,
    /// The store or a backend is away.
    ServiceUnavailable,
    /// Not built (yet).
    NotImplemented,
    /// A stored value cannot be read.
    StorageReadError,
    /// A bug or a store that failed.
    InternalError,
}

/// One cause within a `Status`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusCause {
    /// Machine-readable, such as `FieldValueRequired`.
    pub reason: String,
    /// For people.
    pub message: String,
    /// The field's path; empty if the cause is of no field.
    pub field: String,
}

/// `Status.details`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ErrorDetails {
    /// The object's name.
    pub name: String,
    /// The group of the resource.
    pub group: String,
    /// The resource, or for invalid objects the kind.
    pub kind: String,
    /// The object's uid.
    pub uid: String,
    /// Single causes.
    pub causes: Vec<StatusCause>,
    /// After how many seconds to try again; 0 is not said.
    pub retry_after_seconds: u32,
}

/// A failed request, as the client will read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiError {
    /// The reason; decides the status code.
    pub reason: Reason,
    /// `Status.message`.
    pub message: String,
    /// `Status.details`, if there is anything to say. Boxed to keep results small.
    pub details: Option<Box<ErrorDetails>>,
    /// `Status.metadata.continue`: where an expired list may be resumed.
    pub continue_token: Option<String>,
    /// `Status.code` and `Status.reason` of an admission webhook that has its own.
    pub webhook_status: Option<Box<WebhookStatus>>,
    /// `Warning` texts for the client, beside the error.
    pub warnings: Vec<String>,
}

/// Code and reason as a webhook gave them: any number, any text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookStatus {
    /// `Status.code`, which is the code of the answer, too.
    pub code: u16,
    /// `Status.reason`; empty if there is none.
    pub reason: String,
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ApiError {}

fn resource_details(resource: &GroupResource, name: &str) -> ErrorDetails {
    ErrorDetails {
        name: name.to_owned(),
        group: resource.group.to_string(),
        kind: resource.resource.to_string(),
        ..ErrorDetails::default()
    }
}

impl ApiError {
    /// An error with a message alone.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            details: None,
            continue_token: None,
            webhook_status: None,
            warnings: Vec::new(),
        }
    }

    /// Adds details.
    #[must_use]
    pub fn with_details(mut self, details: ErrorDetails) -> Self {
        self.details = Some(Box::new(details));
        self
    }

    /// Adds one cause.
    #[must_use]
    pub fn with_cause(mut self, reason: &str, message: impl Into<String>, field: &str) -> Self {
        let cause = StatusCause {
            reason: reason.to_owned(),
            message: message.into(),
            field: field.to_owned(),
        };
        self.details.get_or_insert_default().causes.push(cause);
        self
    }

    /// Asks the client to try again after so many seconds.
    #[must_use]
    pub fn with_retry_after(mut self, seconds: u32) -> Self {
        self.details.get_or_insert_default().retry_after_seconds = seconds;
        self
    }

    /// `pods "x" not found`
    pub fn not_found(resource: &GroupResource, name: &str) -> Self {
        Self::new(Reason::NotFound, format!("{resource} {} not found", quote(name)))
            .with_details(resource_details(resource, name))
    }

    /// `pods "x" already exists`
    pub fn already_exists(resource: &GroupResource, name: &str) -> Self {
        Self::new(
            Reason::AlreadyExists,
            format!("{resource} {} already exists", quote(name)),
        )
        .with_details(resource_details(resource, name))
    }

    /// `Operation cannot be fulfilled on pods "x": …`
    pub fn conflict(resource: &GroupResource, name: &str, why: impl fmt::Display) -> Self {
        let message = format!("Operation cannot be fulfilled on {resource} {}: {why}", quote(name));
        Self::new(Reason::Conflict, message).with_details(resource_details(resource, name))
    }

    /// The conflict of a stale `resourceVersion`.
    pub fn modified(resource: &GroupResource, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(resource, name, why)
    }

    /// `pods "x" is forbidden: …`
    pub fn forbidden(resource: &GroupResource, name: &str, why: impl fmt::Display) -> Self {
        let message = if name.is_empty() {
            format!("{resource} is forbidden: {why}")
        } else {
            format!("{resource} {} is forbidden: {why}", quote(name))
        };
        Self::new(Reason::Forbidden, message).with_details(resource_details(resource, name))
    }

    /// `Pod "x" is invalid: …`, with one cause an error.
    pub fn invalid(kind: &GroupKind, name: &str, errors: &ErrorList) -> Self {
        let mut texts: Vec<String> = Vec::with_capacity(errors.len());
        for error in errors {
            let text = error.to_string();
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        let all = if texts.len() == 1 {
            texts.concat()
        } else {
            format!("[{}]", texts.join(", "))
        };
        let causes = errors
            .iter()
            .map(|e| StatusCause {
                reason: e.kind.reason().into(),
                message: e.body.clone(),
                field: e.field.clone(),
            })
            .collect();
        Self::new(Reason::Invalid, format!("{kind} {} is invalid: {all}", quote(name))).with_details(ErrorDetails {
            name: name.to_owned(),
            group: kind.group.to_string(),
            kind: kind.kind.to_string(),
            causes,
            ..ErrorDetails::default()
        })
    }

    /// A request that cannot be understood.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(Reason::BadRequest, message)
    }

    /// A bug, or a store that failed: `Internal error occurred: …`
    pub fn internal(why: impl fmt::Display) -> Self {
        let why = why.to_string();
        Self::new(Reason::InternalError, format!("Internal error occurred: {why}")).with_cause("", why, "")
    }

    /// An error for which kube-apiserver has no reason: a code of 500 and a text.
    pub fn unspecified(message: impl Into<String>) -> Self {
        let mut error = Self::new(Reason::InternalError, message);
        error.webhook_status = Some(Box::new(WebhookStatus {
            code: 500,
            reason: String::new(),
        }));
        error
    }

    /// The verb is not there for this resource.
    pub fn method_not_allowed() -> Self {
        Self::new(
            Reason::MethodNotAllowed,
            "the server does not allow this method on the requested resource",
        )
        .with_details(ErrorDetails::default())
    }

    /// `Status.details` as JSON, without empty fields.
    pub fn details_json(&self) -> Option<Value> {
        let details = self.details.as_deref()?;
        let mut out = crate::Object::new();
        let texts = [
            ("name", &details.name),
            ("group", &details.group),
            ("kind", &details.kind),
            ("uid", &details.uid),
        ];
        for (key, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
            out.insert(key.into(), Value::from(text.as_str()));
        }
        if !details.causes.is_empty() {
            out.insert("causes".into(), details.causes.iter().map(cause_json).collect());
        }
        if details.retry_after_seconds > 0 {
            out.insert("retryAfterSeconds".into(), details.retry_after_seconds.into());
        }
        Some(Value::Object(out))
    }
}

fn cause_json(cause: &StatusCause) -> Value {
    let parts = [
        ("reason", &cause.reason),
        ("message", &cause.message),
        ("field", &cause.field),
    ];
    let fields = parts.into_iter().filter(|(_, text)| !text.is_empty());
    Value::Object(
        fields
            .map(|(key, text)| (key.to_owned(), Value::from(text.as_str())))
            .collect(),
    )
}
