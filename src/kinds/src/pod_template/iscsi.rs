//! Validation of iSCSI volumes, of pods and of persistent volumes.

use serde_json::Value;
use trireme_machinery::field::{Error, ErrorList, Path};

use super::{
    check::{is_true, require},
    sources::validate_lun,
};
use crate::values::text;

const MAX_NAME: usize = 64;
const MALFORMED: &str = "must be valid format";
const OF_NO_SORT: &str = "must be valid format starting with iqn, eui, or naa";

/// The warning about a volume whose name and portal are too long together for an initiator of its own.
pub(crate) const ISCSI_NAME_TOO_LONG: &str = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.";

/// Returns true if a volume's name and portal are too long together for an initiator of its own.
pub(crate) fn is_iscsi_name_too_long(volume: &str, portal: &str) -> bool {
    volume.len() + 1 + portal.len() > MAX_NAME
}

/// The source by itself. Persistent volumes say less of names that begin otherwise (`validateISCSIVolumeSource`).
pub(crate) fn validate_iscsi_volume_source(source: &Value, of_pod: bool, path: &Path<'_>, errors: &mut ErrorList) {
    require(source, path, "targetPortal", errors);
    if require(source, path, "iqn", errors) {
        let name = text(source, "iqn");
        let error = if has_prefix(name) {
            (!is_well_formed(name)).then_some(MALFORMED)
        } else {
            Some(if of_pod { OF_NO_SORT } else { MALFORMED })
        };
        errors.extend(error.map(|error| Error::invalid_str(&path.child("iqn"), name, error)));
    }
    validate_lun(source, path, errors);
    let authenticates = ["chapAuthDiscovery", "chapAuthSession"]
        .iter()
        .any(|field| is_true(source, field));
    match source.get("secretRef") {
        None if authenticates => errors.push(Error::required(&path.child("secretRef"), "")),
        Some(secret) if !of_pod => {
            require(secret, &path.child("secretRef"), "name", errors);
        }
        _ => {}
    }
    if let Some(name) = source.get("initiatorName").and_then(Value::as_str) {
        let path = path.child("initiatorname");
        if !has_prefix(name) {
            let error = if of_pod { OF_NO_SORT } else { MALFORMED };
            errors.push(Error::invalid_str(&path, name, error));
        } else if !is_well_formed(name) {
            errors.push(Error::invalid_str(&path, name, MALFORMED));
        }
    }
}

fn has_prefix(name: &str) -> bool {
    ["iqn", "eui", "naa"].iter().any(|prefix| name.starts_with(prefix))
}

fn is_well_formed(name: &str) -> bool {
    // The character after `eui` and `naa` is not looked at.
    let is_id = |length: usize| {
        let mut id = name.chars().skip(4);
        name.chars().count() == 4 + length && id.all(|c| c.is_ascii_alphanumeric())
    };
    match name.get(..3) {
        Some("eui") => is_id(16),
        Some("naa") => is_id(32),
        _ => is_qualified(name),
    }
}

/// `iqn.2001-04.com.example:storage`
fn is_qualified(name: &str) -> bool {
    let Some((date, rest)) = name.strip_prefix("iqn.").and_then(|rest| rest.split_once('.')) else {
        return false;
    };
    let is_date = date.len() == 7
        && date
            .char_indices()
            .all(|(at, c)| if at == 4 { c == '-' } else { c.is_ascii_digit() });
    let Some((authority, target)) = rest.split_once(':') else {
        return false;
    };
    is_date
        && !authority.is_empty()
        && authority
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-'))
        && !target.is_empty()
        && !target.contains(|c: char| ",;*&$|".contains(c) || c.is_ascii_whitespace())
}
