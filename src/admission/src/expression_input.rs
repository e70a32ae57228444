//! The values of a request that the expressions of policies and webhooks see.

use std::{borrow::Cow, sync::OnceLock};

use serde_json::Value;
use trireme_cel::{Activation, AuthorizerCheck, authority};
use trireme_machinery::ApiError;
use trireme_registry::{Attributes, request::Subresource};

use crate::{
    admission_request::admission_request,
    authority::{RequestAuthority, request_resource},
    matching::MatchedKind,
};

static NULL: Value = Value::Null;

/// The objects of a write in the kind that rules match.
pub(crate) struct VersionedObjects<'a> {
    pub(crate) object: Cow<'a, Value>,
    pub(crate) old_object: Cow<'a, Value>,
}

impl<'a> VersionedObjects<'a> {
    /// Converts the objects; what is in that kind already is not copied.
    ///
    /// # Errors
    /// If they cannot be converted.
    pub(crate) async fn of(attributes: &'a Attributes, matched: &MatchedKind) -> Result<Self, ApiError> {
        Ok(Self {
            object: in_kind(attributes, attributes.object.as_ref(), matched).await?,
            old_object: in_kind(attributes, attributes.old_object.as_deref(), matched).await?,
        })
    }
}

async fn in_kind<'a>(
    attributes: &'a Attributes,
    object: Option<&'a Value>,
    matched: &MatchedKind,
) -> Result<Cow<'a, Value>, ApiError> {
    let Some(object) = object else {
        return Ok(Cow::Borrowed(&NULL));
    };
    let version = matched.resource.group_version();
    if attributes.is_written_in(&version) && !matches!(attributes.subresource, Subresource::Scale) {
        return Ok(Cow::Borrowed(object));
    }
    attributes.object_in(&version, object).await.map(Cow::Owned)
}

/// The values of one request in one kind.
pub(crate) struct ExpressionInput<'a> {
    pub(crate) attributes: &'a Attributes,
    pub(crate) matched: &'a MatchedKind,
    pub(crate) object: &'a Value,
    pub(crate) old_object: &'a Value,
    /// The namespace of the request; null outside of namespaces.
    pub(crate) namespace: &'a Value,
    pub(crate) authority: &'a RequestAuthority<'a>,
    request: OnceLock<Value>,
}

impl<'a> ExpressionInput<'a> {
    pub(crate) fn new(
        attributes: &'a Attributes,
        matched: &'a MatchedKind,
        (object, old_object): (&'a Value, &'a Value),
        namespace: &'a Value,
        authority: &'a RequestAuthority<'a>,
    ) -> Self {
        Self {
            attributes,
            matched,
            object,
            old_object,
            namespace,
            authority,
            request: OnceLock::new(),
        }
    }

    /// The variables of expressions; `request` is made if they speak of it.
    pub(crate) fn activation<'v>(&'v self, params: &'v Value, needs_request: bool) -> Activation<'v> {
        self.with_namespace(self.namespace, params, needs_request)
    }

    /// The same without the namespace, which match conditions do not see.
    pub(crate) fn activation_of_conditions<'v>(&'v self, params: &'v Value, needs_request: bool) -> Activation<'v> {
        self.with_namespace(&NULL, params, needs_request)
    }

    fn with_namespace<'v>(&'v self, namespace: &'v Value, params: &'v Value, needs_request: bool) -> Activation<'v> {
        let mut activation = Activation::new()
            .with_json("object", self.object)
            .with_json("oldObject", self.old_object)
            .with_json("params", params)
            .with_json("namespaceObject", namespace)
            .with_value("authorizer", authority(self.authority, AuthorizerCheck::default()))
            .with_value(
                "authorizer.requestResource",
                authority(self.authority, request_resource(self.attributes)),
            );
        if needs_request {
            let request = self
                .request
                .get_or_init(|| Value::Object(admission_request(self.attributes, self.matched)));
            activation = activation.with_json("request", request);
        }
        activation
    }
}
