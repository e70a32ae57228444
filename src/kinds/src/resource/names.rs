//! Names of drivers' things: pools, attributes, shares.

use trireme_machinery::{
    field::{Error, ErrorList, Path},
    go_text::quote,
    names,
};

use crate::{checks::push_invalid, pod_template::validate_csi_driver_name};

/// The longest domain of a qualified name, in bytes.
pub(super) const MAX_DOMAIN_BYTES: usize = 63;
/// The longest identifier of a qualified name, in bytes.
pub(super) const MAX_ID_BYTES: usize = 32;
const MAX_POOL_BYTES: usize = 253;

/// The name of a pool: subdomains joined by slashes (`validatePoolName`).
pub(super) fn validate_pool_name(name: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if name.is_empty() {
        errors.push(Error::required(path, ""));
        return;
    }
    if name.len() > MAX_POOL_BYTES {
        errors.push(Error::too_long(path, MAX_POOL_BYTES));
    }
    for part in name.split('/') {
        push_invalid(path, part, names::dns1123_subdomain(part), errors);
    }
}

/// An identifier, after its domain and a slash if it has one (`ValidateQualifiedName`).
pub(super) fn validate_qualified_name(name: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let mut parts = name.split('/');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(id), None, _) => validate_c_identifier(id, path, errors),
        (Some(domain), Some(id), None) => {
            if domain.is_empty() {
                errors.push(Error::invalid_str(path, "", "the domain must not be empty"));
            } else {
                validate_csi_driver_name(domain, path, errors);
            }
            if id.is_empty() {
                errors.push(Error::invalid_str(path, "", "the name must not be empty"));
            } else {
                validate_c_identifier(id, path, errors);
            }
        }
        // Upstream takes names with more slashes.
        _ => {}
    }
}

/// An identifier with its domain (`validateFullyQualifiedName`).
pub(super) fn validate_fully_qualified_name(name: &str, path: &Path<'_>, errors: &mut ErrorList) {
    validate_qualified_name(name, path, errors);
    if !name.contains('/') {
        let detail = "a fully qualified name must be a domain and a name separated by a slash";
        errors.push(Error::invalid_str(path, name, detail));
    }
}

/// As upstream's `validateCIdentifier`.
fn validate_c_identifier(id: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if id.len() > MAX_ID_BYTES {
        errors.push(Error::too_long(path, MAX_ID_BYTES));
    }
    push_invalid(path, id, names::c_identifier(id), errors);
}

/// The uid of a share (`validateUID`).
pub(super) fn validate_uid(uid: &str, path: &Path<'_>, errors: &mut ErrorList) {
    const FORM: &str = "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal characters";
    if let Err(why) = check_uuid(uid) {
        errors.push(Error::invalid_str(path, uid, &format!("error validating uid: {why}")));
    } else if uid.len() != 36 || uid.bytes().any(|byte| byte.is_ascii_uppercase()) {
        errors.push(Error::invalid_str(path, uid, FORM));
    }
}

/// As `Validate` of `github.com/google/uuid`, which takes other forms than the normalized one, too.
fn check_uuid(text: &str) -> Result<(), String> {
    const FORMAT: &str = "invalid UUID format";
    let bytes = text.as_bytes();
    let digits = match bytes.len() {
        36 => bytes,
        32 if bytes.iter().all(u8::is_ascii_hexdigit) => return Ok(()),
        32 => return Err(FORMAT.to_owned()),
        38 => match bytes {
            [b'{', inner @ .., b'}'] => inner,
            _ => return Err("invalid bracketed UUID format".to_owned()),
        },
        45 => match bytes.split_at_checked(9) {
            Some((prefix, rest)) if prefix.eq_ignore_ascii_case(b"urn:uuid:") => rest,
            _ => {
                let prefix: String = text.chars().take(9).collect();
                return Err(format!("invalid urn prefix: {}", quote(&prefix)));
            }
        },
        length => return Err(format!("invalid UUID length: {length}")),
    };
    let fits = |(at, byte): (usize, &u8)| match at {
        8 | 13 | 18 | 23 => *byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    match digits.iter().enumerate().all(fits) {
        true => Ok(()),
        false => Err(FORMAT.to_owned()),
    }
}
