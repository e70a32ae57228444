//! The certificate that a signer issues for a PodCertificateRequest.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    time::Duration,
};
use x509_parser::{certificate::X509Certificate, extensions::GeneralName, prelude::FromDer as _};

use super::{
    keys::{pkix_key, signing_request},
    pem::{PemBlock, blocks},
};
use crate::values::{integer_at, text_at};

const MAX_CHAIN_BYTES: usize = 100 * 1024;
const MIN_LIFETIME: SignedDuration = SignedDuration::from_hours(1);
const MAX_SKEW: SignedDuration = SignedDuration::from_mins(5);
/// The part of the lifetime at either end in which no renewal may begin.
const MARGIN: SignedDuration = SignedDuration::from_mins(10);
const CHAIN: &str = "/status/certificateChain";
const NOT_IN_RANGE: &str = "must be present and in the range [notbefore+10min, notafter-10min]";
const NOT_CONSISTENT: &str = "must be present and consistent with the issued certificate";

/// Validates a request that turns `Issued`: its chain, the times that are said of it, and that it is for the requested key. The first
/// error counts.
pub(super) fn validate_issued(request: &Value, now: Timestamp) -> ErrorList {
    let text = text_at(request, CHAIN);
    let path = Path::new("status.certificateChain");
    if text.len() > MAX_CHAIN_BYTES {
        return vec![Error::too_long(&path, MAX_CHAIN_BYTES)];
    }
    let invalid = |detail: &str| vec![Error::invalid_str(&path, text, detail)];
    let chain = blocks(text);
    let Some((first, others)) = chain.split_first() else {
        return invalid("issued certificate chain must contain at least one certificate");
    };
    if first.kind != "CERTIFICATE" {
        return invalid("issued certificate chain must consist entirely of CERTIFICATE PEM blocks");
    }
    let Ok(([], leaf)) = X509Certificate::from_der(&first.content) else {
        return invalid("leaf certificate does not parse as valid X.509");
    };
    let mut errors = ErrorList::new();
    validate_names(&leaf, &path, &mut errors);
    match is_for_requested_key(request, &leaf) {
        Err(error) => {
            errors.push(error);
            return errors;
        }
        Ok(false) => {
            errors.extend(invalid("leaf certificate was not issued to the requested public key"));
            return errors;
        }
        Ok(true) => {}
    }
    errors.extend(required_times(request));
    if errors.is_empty() {
        errors.extend(time_error(request, &leaf, now).or_else(|| chain_error(others, text, &path)));
    }
    errors
}

/// Checks the alternative names, of which Go reads stranger ones than it writes.
fn validate_names(leaf: &X509Certificate<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let names = leaf.subject_alternative_name().ok().flatten();
    let names = names.map_or(&[][..], |extension| extension.value.general_names.as_slice());
    let mut push = |shown: &str, detail: &str| errors.push(Error::invalid_str(path, shown, detail));
    for name in names {
        if let GeneralName::DNSName(name) = name {
            if name.is_empty() {
                push(name, "leaf certificate should not contain empty DNSName");
            }
            if name.contains("..") {
                push(name, "leaf certificate's DNSName should not contain '..'");
            }
            if name.starts_with('.') || name.ends_with('.') {
                push(name, "leaf certificate's DNSName should not start or end with '.'");
            }
        }
    }
    for name in names {
        if let GeneralName::RFC822Name(address) = name
            && !is_address(address)
        {
            push(address, "leaf certificate should not contain invalid EmailAddress");
        }
    }
}

fn is_address(address: &str) -> bool {
    let parts = address.rsplit_once('@');
    parts.is_some_and(|(local, domain)| {
        let is_odd =
            |text: &str| text.is_empty() || text.contains(|c: char| c.is_whitespace() || "<>(),;:\\".contains(c));
        !is_odd(local) && !is_odd(domain)
    })
}

/// Reports whether a certificate is for the key of the request.
fn is_for_requested_key(request: &Value, leaf: &X509Certificate<'_>) -> Result<bool, Error> {
    let bytes = |pointer| STANDARD.decode(text_at(request, pointer)).unwrap_or_default();
    let stub = bytes("/spec/stubPKCS10Request");
    if !stub.is_empty() {
        let request = signing_request(&stub).ok_or_else(|| {
            let detail = "must be a valid PKCS#10 CSR";
            Error::invalid_omitted(&Path::new("spec.stubPKCS10Request"), detail)
        })?;
        return Ok(request.certification_request_info.subject_pki.raw == leaf.public_key().raw);
    }
    let key = bytes("/spec/pkixPublicKey");
    let key = pkix_key(&key).ok_or_else(|| {
        let detail = "must be a valid PKIX-serialized public key";
        Error::invalid_omitted(&Path::new("spec.pkixPublicKey"), detail)
    })?;
    Ok(key.raw == leaf.public_key().raw)
}

fn time_at(request: &Value, field: &str) -> Option<Timestamp> {
    text_at(request, &format!("/status/{field}")).parse().ok()
}

fn required_times(request: &Value) -> ErrorList {
    let status = Path::new("status");
    let needed = [
        ("notBefore", NOT_CONSISTENT),
        ("notAfter", NOT_CONSISTENT),
        ("beginRefreshAt", NOT_IN_RANGE),
    ];
    let missing = needed.iter().filter(|(field, _)| time_at(request, field).is_none());
    missing
        .map(|(field, detail)| Error::required(&status.child(field), detail))
        .collect()
}

/// The times that are said of a certificate.
struct IssuedTimes {
    not_before: Timestamp,
    not_after: Timestamp,
    refresh: Timestamp,
}

/// The first error in the times of a request that has them all.
fn time_error(request: &Value, leaf: &X509Certificate<'_>, now: Timestamp) -> Option<Error> {
    let said = |field: &str| time_at(request, field).unwrap_or(Timestamp::UNIX_EPOCH);
    let times = IssuedTimes {
        not_before: said("notBefore"),
        not_after: said("notAfter"),
        refresh: said("beginRefreshAt"),
    };
    let of_leaf = |seconds: i64| Timestamp::from_second(seconds).unwrap_or(Timestamp::UNIX_EPOCH);
    let begin = of_leaf(leaf.validity().not_before.timestamp());
    let end = of_leaf(leaf.validity().not_after.timestamp());
    let most = integer_at(request, "/spec/maxExpirationSeconds").unwrap_or(0);
    validity_error(&times, (begin, end), now)
        .or_else(|| lifetime_error(end.duration_since(begin), most))
        .or_else(|| refresh_error(&times))
}

fn invalid_time(field: &str, time: Timestamp, detail: &str) -> Option<Error> {
    let shown = time.strftime("%Y-%m-%d %H:%M:%S +0000 UTC").to_string();
    Some(Error::invalid_shown(&Path::new("status").child(field), shown, detail))
}

fn validity_error(times: &IssuedTimes, (begin, end): (Timestamp, Timestamp), now: Timestamp) -> Option<Error> {
    if times.not_before != begin {
        let detail = "must be set to the NotBefore time encoded in the leaf certificate";
        return invalid_time("notBefore", times.not_before, detail);
    }
    if times.not_before.duration_since(now).abs() >= MAX_SKEW {
        let detail = "must be set to within 5 minutes of kube-apiserver's current time";
        return invalid_time("notBefore", times.not_before, detail);
    }
    if times.not_after != end {
        let detail = "must be set to the NotAfter time encoded in the leaf certificate";
        return invalid_time("notAfter", times.not_after, detail);
    }
    None
}

fn refresh_error(times: &IssuedTimes) -> Option<Error> {
    if times.refresh.duration_since(times.not_before) < MARGIN {
        let detail = "must be at least 10 minutes after status.notBefore";
        return invalid_time("beginRefreshAt", times.refresh, detail);
    }
    if times.not_after.duration_since(times.refresh) < MARGIN {
        let detail = "must be at least 10 minutes before status.notAfter";
        return invalid_time("beginRefreshAt", times.refresh, detail);
    }
    None
}

fn lifetime_error(lifetime: SignedDuration, most: i64) -> Option<Error> {
    let detail = if lifetime < MIN_LIFETIME {
        "leaf certificate lifetime must be >= 1 hour".to_owned()
    } else if lifetime > SignedDuration::from_secs(most) {
        format!("leaf certificate lifetime must be <= spec.maxExpirationSeconds ({most})")
    } else {
        return None;
    };
    let nanos = i64::try_from(lifetime.as_nanos()).unwrap_or(i64::MAX);
    let path = Path::new("status.certificateChain");
    Some(Error::invalid_shown(
        &path,
        Duration::from_nanos(nanos).to_string(),
        &detail,
    ))
}

fn chain_error(others: &[PemBlock<'_>], text: &str, path: &Path<'_>) -> Option<Error> {
    others.iter().find_map(|block| {
        let detail = if block.kind != "CERTIFICATE" {
            // Upstream's spelling.
            "issued certificate chain must consist entirely of CERTFICATE PEM blocks"
        } else if !matches!(X509Certificate::from_der(&block.content), Ok(([], _))) {
            "intermediate certificate does not parse as valid X.509"
        } else {
            return None;
        };
        Some(Error::invalid_str(path, text, detail))
    })
}
