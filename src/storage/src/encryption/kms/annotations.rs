//! The annotations that a plugin gives to an encrypted seed (`validateAnnotations` and `IsFullyQualifiedDomainName`).

use std::collections::BTreeMap;

const ANNOTATIONS_BYTES: usize = 32 * 1024;
const SUBDOMAIN_BYTES: usize = 253;
const LABEL_BYTES: usize = 63;

const NOT_A_SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
                               start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
                               '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

/// Checks the names and the size of all annotations together; each error is told once.
pub(super) fn validate_annotations(annotations: &BTreeMap<String, Vec<u8>>) -> Result<(), String> {
    let mut errors: Vec<String> = Vec::new();
    let mut note = |error: String| {
        if !errors.contains(&error) {
            errors.push(error);
        }
    };
    annotations
        .keys()
        .filter_map(|name| name_error(name))
        .for_each(&mut note);
    let bytes = annotations.iter().fold(0_usize, |sum, (name, value)| {
        sum.saturating_add(name.len()).saturating_add(value.len())
    });
    if bytes > ANNOTATIONS_BYTES {
        note(format!(
            "total size of annotations is {bytes}, which exceeds the max size of {ANNOTATIONS_BYTES}"
        ));
    }
    match errors.len() {
        0 => Ok(()),
        1 => Err(errors.concat()),
        _ => Err(format!("[{}]", errors.join(", "))),
    }
}

/// The first reason that a name is no fully qualified domain name.
fn name_error(name: &str) -> Option<String> {
    if name.is_empty() {
        return Some("annotations: Required value".to_owned());
    }
    let name = name.strip_suffix('.').unwrap_or(name);
    let invalid = |value: &str, why: &str| Some(format!("annotations: Invalid value: {value:?}: {why}"));
    let mut errors = Vec::new();
    if name.len() > SUBDOMAIN_BYTES {
        errors.push(too_long(SUBDOMAIN_BYTES));
    }
    if !name.split('.').all(is_label) {
        errors.push(NOT_A_SUBDOMAIN.to_owned());
    }
    if !errors.is_empty() {
        return invalid(name, &errors.join(","));
    }
    if !name.contains('.') {
        return invalid(name, "should be a domain with at least two segments separated by dots");
    }
    let long = name.split('.').find(|label| label.len() > LABEL_BYTES)?;
    invalid(long, &too_long(LABEL_BYTES))
}

/// Returns true for a label of whatever length.
fn is_label(label: &str) -> bool {
    let is_alphanumeric = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = label.as_bytes();
    let ends = [bytes.first(), bytes.last()];
    ends.iter().all(|end| end.is_some_and(is_alphanumeric))
        && bytes.iter().all(|byte| is_alphanumeric(byte) || *byte == b'-')
}

fn too_long(most: usize) -> String {
    format!("must be no more than {most} characters")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(names: &[&str]) -> String {
        let named = names.iter().map(|name| ((*name).to_owned(), Vec::new()));
        validate_annotations(&named.collect()).expect_err("a name is invalid")
    }

    #[test]
    fn names_are_fully_qualified() {
        let good = ["a.b", "a.b.", "version.encryption.example.com", "1.x-y"];
        let good = good.into_iter().map(|name| (name.to_owned(), Vec::new()));
        assert_eq!(validate_annotations(&good.collect()), Ok(()));
        assert_eq!(error(&[""]), "annotations: Required value");
        let invalid = |value: &str, why: &str| format!("annotations: Invalid value: \"{value}\": {why}");
        for (name, shown) in [
            ("A.b", "A.b"),
            ("a..b", "a..b"),
            (".", ""),
            ("-a.b.", "-a.b"),
            ("a/b.c", "a/b.c"),
        ] {
            assert_eq!(error(&[name]), invalid(shown, NOT_A_SUBDOMAIN));
        }
        let two = "should be a domain with at least two segments separated by dots";
        assert_eq!(error(&["bare"]), invalid("bare", two));
        let long = "a".repeat(64);
        let label = invalid(&long, "must be no more than 63 characters");
        assert_eq!(error(&[&format!("x.{long}")]), label);
        let name = format!("{}a", "a.".repeat(127));
        assert_eq!(error(&[&name]), invalid(&name, "must be no more than 253 characters"));
        let name = format!("{name}A");
        let both = format!("must be no more than 253 characters,{NOT_A_SUBDOMAIN}");
        assert_eq!(error(&[&name]), invalid(&name, &both));
    }

    #[test]
    fn an_error_is_told_once() {
        let bare = error(&["bare"]);
        assert_eq!(error(&["bare", "bare."]), bare);
        assert_eq!(error(&["", "bare"]), format!("[annotations: Required value, {bare}]"));
    }
}
