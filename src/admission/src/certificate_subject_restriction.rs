//! `CertificateSubjectRestriction`: no request for a client certificate of `system:masters` is admitted
//! (`plugin/pkg/admission/certificates/subjectrestriction`).

use base64::Engine as _;
use futures_util::{FutureExt as _, future::BoxFuture};
use trireme_machinery::ApiError;
use trireme_registry::{Admission, Attributes, Operation, WriteRequest};
use x509_parser::{certification_request::X509CertificationRequest, pem::parse_x509_pem, prelude::FromDer as _};

use crate::attributes::{forbidden, is_write_of};

const SIGNER: &str = "kubernetes.io/kube-apiserver-client";
const MASTERS: &str = "system:masters";

/// The plugin.
pub(crate) struct CertificateSubjectRestriction;

fn check(attributes: &Attributes) -> Result<(), ApiError> {
    let text = |pointer: &str| attributes.object.as_ref()?.pointer(pointer)?.as_str();
    if text("/spec/signerName") != Some(SIGNER) {
        return Ok(());
    }
    let Some(is_for_masters) = text("/spec/request").and_then(is_for_masters) else {
        return Err(forbidden(attributes, "failed to parse CSR: it is no PKCS #10 request"));
    };
    if is_for_masters {
        let why = format!("use of {SIGNER} signer with {MASTERS} group is not allowed");
        return Err(forbidden(attributes, why));
    }
    Ok(())
}

/// Reports whether a request names the group among its organizations; `None` if it cannot be read.
pub(crate) fn is_for_masters(request: &str) -> Option<bool> {
    let pem = base64::engine::general_purpose::STANDARD.decode(request).ok()?;
    let (_, pem) = parse_x509_pem(&pem).ok()?;
    let (_, request) = X509CertificationRequest::from_der(&pem.contents).ok()?;
    let mut organizations = request.certification_request_info.subject.iter_organization();
    Some(organizations.any(|name| name.as_str() == Ok(MASTERS)))
}

impl Admission for CertificateSubjectRestriction {
    fn handles(&self, request: &WriteRequest) -> bool {
        is_write_of(
            request,
            "certificates.k8s.io",
            "certificatesigningrequests",
            &[Operation::Create],
        )
    }

    fn validate<'a>(&'a self, attributes: &'a Attributes) -> BoxFuture<'a, Result<(), ApiError>> {
        std::future::ready(check(attributes)).boxed()
    }
}
