//! `CertificateApproval`, `CertificateSigning` and `ClusterTrustBundleAttest`: who approves, signs and attests for a signer
//! is allowed to (`plugin/pkg/admission/certificates`).

use std::sync::Arc;

use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::Value;
use trireme_machinery::{
    ApiError, GroupKind,
    field::{Error, Path},
    go_text::quote,
};
use trireme_registry::{Admission, Attributes, Operation, WriteRequest, request::UserInfo};

use crate::{
    attributes::forbidden,
    permissions::{PermissionRequest, Permissions},
};

const GROUP: &str = "certificates.k8s.io";

/// The plugins differ in these.
struct Signed {
    resource: &'static str,
    /// `None` is the object itself and all of its parts.
    subresource: Option<&'static str>,
    operations: &'static [Operation],
    verb: &'static str,
    /// The words of the refusal.
    deed: &'static str,
    /// Reports whether the change, from the old object to the new, needs no permission.
    is_free: fn(Option<&Value>, &Value) -> bool,
}

/// One of the three plugins.
pub(crate) struct SignerPermission {
    signed: Signed,
    permissions: Arc<dyn Permissions>,
}

impl SignerPermission {
    /// `CertificateApproval`
    pub(crate) fn to_approve(permissions: Arc<dyn Permissions>) -> Self {
        let signed = Signed {
            resource: "certificatesigningrequests",
            subresource: Some("approval"),
            operations: &[Operation::Update],
            verb: "approve",
            deed: "approve requests with signerName",
            is_free: |_, _| false,
        };
        Self { signed, permissions }
    }

    /// `CertificateSigning`
    pub(crate) fn to_sign(permissions: Arc<dyn Permissions>) -> Self {
        let signed = Signed {
            resource: "certificatesigningrequests",
            subresource: Some("status"),
            operations: &[Operation::Update],
            verb: "sign",
            deed: "sign requests with signerName",
            is_free: |old, new| {
                let same = |pointer: &str| old.and_then(|old| old.pointer(pointer)) == new.pointer(pointer);
                same("/status/certificate") && same("/status/conditions")
            },
        };
        Self { signed, permissions }
    }

    /// `ClusterTrustBundleAttest`
    pub(crate) fn to_attest(permissions: Arc<dyn Permissions>) -> Self {
        let signed = Signed {
            resource: "clustertrustbundles",
            subresource: None,
            operations: &[Operation::Create, Operation::Update],
            verb: "attest",
            deed: "attest for signerName",
            is_free: |old, new| signer_name(new).is_empty() || old.is_some_and(|old| changes_owners_only(old, new)),
        };
        Self { signed, permissions }
    }

    async fn check(&self, attributes: &Attributes) -> Result<(), ApiError> {
        let old = attributes.old_object.as_deref();
        let Some(new) = &attributes.object else {
            return Ok(());
        };
        if (self.signed.is_free)(old, new) {
            return Ok(());
        }
        // Of a request the one that is stored counts; of a bundle the new one.
        let signer = signer_name(old.filter(|_| self.signed.subresource.is_some()).unwrap_or(new));
        let user = &attributes.context.user;
        if is_authorized_for_signer_name(&*self.permissions, user, self.signed.verb, signer).await {
            return Ok(());
        }
        let why = format!("user not permitted to {} {}", self.signed.deed, quote(signer));
        Err(forbidden(attributes, why))
    }
}

/// Allowed by the signer's name, or by all names of its domain (`IsAuthorizedForSignerName`).
async fn is_authorized_for_signer_name(
    permissions: &dyn Permissions,
    user: &UserInfo,
    verb: &str,
    signer: &str,
) -> bool {
    let access = |name| PermissionRequest {
        user,
        verb,
        group: GROUP,
        version: "*",
        resource: "signers",
        subresource: "",
        namespace: "",
        name,
    };
    if permissions.allow(access(signer)).await {
        return true;
    }
    let domain = signer.split('/').next().unwrap_or_default();
    permissions.allow(access(&format!("{domain}/*"))).await
}

/// Checks that whoever changes the status of a PodCertificateRequest may sign for its signer. kube-apiserver does so in the kind's
/// registry, after it has validated the status.
pub struct PodCertificateSigning {
    permissions: Arc<dyn Permissions>,
}

impl PodCertificateSigning {
    /// Asks these authorizers.
    pub fn new(permissions: Arc<dyn Permissions>) -> Self {
        Self { permissions }
    }

    async fn check(&self, attributes: &Attributes) -> Result<(), ApiError> {
        let (Some(new), Some(old)) = (attributes.object.as_ref(), attributes.old_object.as_deref()) else {
            return Ok(());
        };
        let (user, signer) = (&attributes.context.user, signer_name(old));
        if new.get("status") == old.get("status")
            || is_authorized_for_signer_name(&*self.permissions, user, "sign", signer).await
        {
            return Ok(());
        }
        let (user, signer) = (quote(&user.name), quote(signer));
        let detail = format!("User {user} is not permitted to \"sign\" for signer {signer}");
        let kind = GroupKind {
            group: attributes.kind.group.clone(),
            kind: attributes.kind.kind.clone(),
        };
        let errors = vec![Error::forbidden(&Path::new("spec.signerName"), &detail)];
        Err(ApiError::invalid(&kind, &attributes.name, &errors))
    }
}

impl Admission for PodCertificateSigning {
    fn handles(&self, request: &WriteRequest) -> bool {
        &*request.resource.group == GROUP
            && &*request.resource.resource == "podcertificaterequests"
            && request.subresource.name() == "status"
            && request.operation == Operation::Update
    }

    fn validate<'a>(&'a self, attributes: &'a Attributes) -> BoxFuture<'a, Result<(), ApiError>> {
        self.check(attributes).boxed()
    }
}

fn signer_name(object: &Value) -> &str {
    let name = object.pointer("/spec/signerName").and_then(Value::as_str);
    name.unwrap_or_default()
}

/// Reports whether a change is one of the garbage collector: of owners and finalizers.
fn changes_owners_only(old: &Value, new: &Value) -> bool {
    let rest = |object: &Value| {
        let mut object = object.clone();
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            for field in ["ownerReferences", "finalizers", "managedFields"] {
                metadata.remove(field);
            }
        }
        object
    };
    rest(old) == rest(new)
}

impl Admission for SignerPermission {
    fn handles(&self, request: &WriteRequest) -> bool {
        let signed = &self.signed;
        &*request.resource.group == GROUP
            && &*request.resource.resource == signed.resource
            && signed.operations.contains(&request.operation)
            && signed.subresource.is_none_or(|part| request.subresource.name() == part)
    }

    fn validate<'a>(&'a self, attributes: &'a Attributes) -> BoxFuture<'a, Result<(), ApiError>> {
        self.check(attributes).boxed()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use trireme_cel::{AuthorizerCheck, CheckDecision};

    use super::*;

    /// Allows one verb on one name.
    struct Only(&'static str, &'static str);

    impl Permissions for Only {
        fn require<'a>(&'a self, request: PermissionRequest<'a>) -> BoxFuture<'a, Result<(), String>> {
            let is_signers = (request.group, request.resource) == (GROUP, "signers");
            let allowed = is_signers && (request.verb, request.name) == (self.0, self.1);
            std::future::ready(allowed.then_some(()).ok_or_else(String::new)).boxed()
        }

        fn decide<'a>(&'a self, _: &'a UserInfo, _: &'a AuthorizerCheck) -> BoxFuture<'a, CheckDecision> {
            std::future::ready(CheckDecision::default()).boxed()
        }
    }

    #[test]
    fn a_signer_is_allowed_by_its_name_or_its_domain() {
        let may = |only: Only, signer: &str| {
            is_authorized_for_signer_name(&only, &UserInfo::default(), "attest", signer).now_or_never()
        };
        assert_eq!(may(Only("attest", "a.com/s"), "a.com/s"), Some(true));
        assert_eq!(may(Only("attest", "a.com/*"), "a.com/s"), Some(true));
        assert_eq!(may(Only("attest", "a.com/*"), "b.com/s"), Some(false));
        assert_eq!(may(Only("sign", "a.com/s"), "a.com/s"), Some(false));
    }

    #[test]
    fn a_bundle_without_a_signer_or_with_other_owners_only_is_free() {
        let plugin = SignerPermission::to_attest(Arc::new(Only("", "")));
        let bundle = |signer: &str, owner: &str| json!({ "metadata": { "ownerReferences": [{ "uid": owner }] }, "spec": { "signerName": signer } });
        let is_free = |old: Option<&Value>, new: &Value| (plugin.signed.is_free)(old, new);
        assert!(is_free(None, &bundle("", "1")));
        assert!(!is_free(None, &bundle("a.com/s", "1")));
        assert!(is_free(Some(&bundle("a.com/s", "1")), &bundle("a.com/s", "2")));
        assert!(!is_free(Some(&bundle("b.com/s", "1")), &bundle("a.com/s", "1")));
    }
}
