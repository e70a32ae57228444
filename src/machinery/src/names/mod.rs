//! Which names Kubernetes accepts, and what it says of those that it does not.
//!
//! Every check returns the errors as texts, none if the value is good. The texts and the order of the
//! errors are those of `k8s.io/apimachinery/pkg/util/validation`; callers wrap them in
//! [`crate::field::Error::invalid_str`]. Patterns are matched by hand, not by a regular expression engine:
//! names are checked on every write.

mod address;
mod object;
mod pattern;

pub use address::{canonical_cidr, canonical_ip, cidr, ip, is_legacy_ip, parse_cidr_sloppy, parse_ip_sloppy};
pub use object::{
    NameCheck, any_name, name_is_dns_label, name_is_dns_subdomain, name_is_dns1035_label, name_is_long_name,
    name_is_path_segment, path_segment_name, path_segment_prefix,
};

use pattern::{all, ends_alphanumeric, is_label, is_subdomain};

/// The longest DNS label.
pub const DNS1123_LABEL_MAX_LENGTH: usize = 63;
/// The longest DNS name.
pub const DNS1123_SUBDOMAIN_MAX_LENGTH: usize = 253;
/// The longest label value, and the longest name part of a label key.
pub const LABEL_MAX_LENGTH: usize = 63;

const LABEL_FORMAT: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN_FORMAT: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const KEY_FORMAT: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const KEY_RULE: &str =
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
const KEY_EXAMPLES: &[&str] = &["MyName", "my.name", "123-abc"];

/// A error text that ends in the pattern, as Kubernetes composes it.
fn regex_error(rule: &str, format: &str, examples: &[&str]) -> String {
    if examples.is_empty() {
        return format!("{rule} (regex used for validation is '{format}')");
    }
    let shown: Vec<String> = examples.iter().map(|e| format!("'{e}', ")).collect();
    format!(
        "{rule} (e.g. {}regex used for validation is '{format}')",
        shown.join(" or ")
    )
}

fn too_many_characters(max: usize) -> String {
    format!("must be no more than {max} characters")
}

fn too_many_bytes(max: usize) -> String {
    format!("must be no more than {max} bytes")
}

fn out_of_range(low: i64, high: i64) -> String {
    format!("must be between {low} and {high}, inclusive")
}

/// A lower case DNS label (RFC 1123): `my-name`.
pub fn dns1123_label(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > DNS1123_LABEL_MAX_LENGTH {
        errors.push(too_many_characters(DNS1123_LABEL_MAX_LENGTH));
    }
    if !is_label(value) {
        errors.push(if is_subdomain(value) {
            "must not contain dots".to_owned()
        } else {
            let rule = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', \
                        and must start and end with an alphanumeric character";
            regex_error(rule, LABEL_FORMAT, &["my-name", "123-abc"])
        });
    }
    errors
}

/// A lower case DNS name (RFC 1123): `example.com`.
pub fn dns1123_subdomain(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > DNS1123_SUBDOMAIN_MAX_LENGTH {
        errors.push(too_many_characters(DNS1123_SUBDOMAIN_MAX_LENGTH));
    }
    if !is_subdomain(value) {
        errors.push(subdomain_error());
    }
    errors
}

fn subdomain_error() -> String {
    let rule = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
                and must start and end with an alphanumeric character";
    regex_error(rule, SUBDOMAIN_FORMAT, &["example.com"])
}

/// A DNS name that may have underscores, as SRV names in search domains have.
pub fn dns1123_subdomain_with_underscore(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > DNS1123_SUBDOMAIN_MAX_LENGTH {
        errors.push(too_many_characters(DNS1123_SUBDOMAIN_MAX_LENGTH));
    }
    if !value.split('.').all(pattern::is_underscore_label) {
        let rule = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or \
                    '.', and must start and end with an alphanumeric character";
        let format = r"_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*";
        errors.push(regex_error(rule, format, &["example.com"]));
    }
    errors
}

/// A DNS label that begins with a letter (RFC 1035): `my-name`.
pub fn dns1035_label(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > DNS1123_LABEL_MAX_LENGTH {
        errors.push(too_many_characters(DNS1123_LABEL_MAX_LENGTH));
    }
    if !is_label(value) || !value.starts_with(|c: char| c.is_ascii_lowercase()) {
        let rule = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
                    alphabetic character, and end with an alphanumeric character";
        let format = "[a-z]([-a-z0-9]*[a-z0-9])?";
        errors.push(regex_error(rule, format, &["my-name", "abc-123"]));
    }
    errors
}

/// A DNS name with a leading wildcard: `*.example.com`.
pub fn wildcard_dns1123_subdomain(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > DNS1123_SUBDOMAIN_MAX_LENGTH {
        errors.push(too_many_characters(DNS1123_SUBDOMAIN_MAX_LENGTH));
    }
    if !value.strip_prefix("*.").is_some_and(is_subdomain) {
        let rule = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which \
                    must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric \
                    character";
        errors.push(regex_error(
            rule,
            &format!(r"\*\.{SUBDOMAIN_FORMAT}"),
            &["*.example.com"],
        ));
    }
    errors
}

/// A DNS name of two or more labels; a trailing dot is allowed.
pub fn fully_qualified_domain_name(value: &str) -> Vec<String> {
    let name = value.strip_suffix('.').unwrap_or(value);
    let errors = dns1123_subdomain(name);
    if !errors.is_empty() {
        return vec![errors.join(",")];
    }
    if !name.contains('.') {
        return vec!["should be a domain with at least two segments separated by dots".to_owned()];
    }
    name.split('.')
        .map(dns1123_label)
        .filter(|errors| !errors.is_empty())
        .map(|errors| errors.join(","))
        .collect()
}

/// A label or annotation key, a condition type, a resource name: `name` or `example.com/name`.
pub fn qualified_name(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    let name = match value.split_once('/') {
        None => value,
        Some((_, rest)) if rest.contains('/') => {
            let error = regex_error(&format!("a valid label key {KEY_RULE}"), KEY_FORMAT, KEY_EXAMPLES);
            return vec![format!(
                "{error} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
        Some(("", name)) => {
            errors.push("prefix part must be non-empty".to_owned());
            name
        }
        Some((prefix, name)) => {
            if prefix.len() > DNS1123_SUBDOMAIN_MAX_LENGTH {
                errors.push(format!("prefix part {}", too_many_bytes(DNS1123_SUBDOMAIN_MAX_LENGTH)));
            }
            if !is_subdomain(prefix) {
                errors.push(format!("prefix part {}", subdomain_error()));
            }
            name
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > LABEL_MAX_LENGTH {
        errors.push(format!("name part {}", too_many_bytes(LABEL_MAX_LENGTH)));
    }
    if !pattern::is_key(name) {
        errors.push(regex_error(&format!("name part {KEY_RULE}"), KEY_FORMAT, KEY_EXAMPLES));
    }
    errors
}

/// A key that must have a domain: `example.com/name`.
pub fn domain_prefixed_key(value: &str) -> Vec<String> {
    let errors = qualified_name(value);
    if !errors.is_empty() {
        return errors;
    }
    match value.split_once('/') {
        None => vec![r#"must be a domain-prefixed key (such as "acme.io/foo")"#.to_owned()],
        Some((domain, _)) => fully_qualified_domain_name(domain),
    }
}

/// A path under a domain: `example.com/some/path`.
pub fn domain_prefixed_path(value: &str) -> Vec<String> {
    match value.split_once('/') {
        Some((domain, path)) if !domain.is_empty() && !path.is_empty() => {
            let mut errors = dns1123_subdomain(domain);
            errors.extend(http_path(path));
            errors
        }
        _ => vec![r#"must be a domain-prefixed path (such as "acme.io/foo")"#.to_owned()],
    }
}

/// The characters of a URL path.
pub fn http_path(value: &str) -> Vec<String> {
    if !value.is_empty()
        && all(value, |b| {
            b.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&b)
        })
    {
        return Vec::new();
    }
    vec![regex_error("Invalid path", r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+", &[])]
}

/// A label's value; empty is good.
pub fn label_value(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > LABEL_MAX_LENGTH {
        errors.push(too_many_bytes(LABEL_MAX_LENGTH));
    }
    if !value.is_empty() && !pattern::is_key(value) {
        let rule = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', \
                    and must start and end with an alphanumeric character";
        let examples = ["MyValue", "my_value", "12345"];
        errors.push(regex_error(rule, &format!("({KEY_FORMAT})?"), &examples));
    }
    errors
}

/// A key of a ConfigMap or Secret, which may become a file's name.
pub fn config_map_key(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > DNS1123_SUBDOMAIN_MAX_LENGTH {
        errors.push(too_many_characters(DNS1123_SUBDOMAIN_MAX_LENGTH));
    }
    if value.is_empty() || !all(value, |b| b.is_ascii_alphanumeric() || b"-._".contains(&b)) {
        let rule = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'";
        let examples = ["key.name", "KEY_NAME", "key-name"];
        errors.push(regex_error(rule, "[-._a-zA-Z0-9]+", &examples));
    }
    errors.extend(directory_prefix(value));
    errors
}

fn directory_prefix(value: &str) -> Option<String> {
    match value {
        "." | ".." => Some(format!("must not be '{value}'")),
        _ if value.starts_with("..") => Some("must not start with '..'".to_owned()),
        _ => None,
    }
}

/// The name of an environment variable in a container.
pub fn env_var_name(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.is_empty() {
        errors.push("environment variable name must be non-empty".to_owned());
    }
    if !all(value, |b| (b == b' ' || b.is_ascii_graphic()) && b != b'=') {
        let rule = "a valid environment variable name must consist only of printable ASCII characters other than '='";
        errors.push(rule.to_owned());
    }
    errors
}

/// The name of an environment variable as shells know it.
pub fn strict_env_var_name(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    let good = |b: u8| b.is_ascii_alphanumeric() || b"-._".contains(&b);
    if value.is_empty() || value.starts_with(|c: char| c.is_ascii_digit()) || !all(value, good) {
        let rule = "a valid environment variable name must consist of alphabetic characters, digits, '_', '-', or \
                    '.', and must not start with a digit";
        let examples = ["my.env-name", "MY_ENV.NAME", "MyEnvName1"];
        errors.push(regex_error(rule, "[-._a-zA-Z][-._a-zA-Z0-9]*", &examples));
    }
    errors.extend(directory_prefix(value));
    errors
}

/// An identifier of the C language.
pub fn c_identifier(value: &str) -> Vec<String> {
    let good = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    if !value.is_empty() && !value.starts_with(|c: char| c.is_ascii_digit()) && all(value, good) {
        return Vec::new();
    }
    let rule = "a valid C identifier must start with alphabetic character or '_', followed by a string of \
                alphanumeric characters or '_'";
    vec![regex_error(
        rule,
        "[A-Za-z_][A-Za-z0-9_]*",
        &["my_name", "MY_NAME", "MyName"],
    )]
}

/// The reason of a condition: `ReasonA,ReasonB`.
pub fn condition_reason(value: &str) -> Vec<String> {
    let good = |b: u8| b.is_ascii_alphanumeric() || b"_,:".contains(&b);
    let ends = value.ends_with('_') || ends_alphanumeric(value);
    if value.starts_with(|c: char| c.is_ascii_alphabetic()) && ends && all(value, good) {
        return Vec::new();
    }
    let rule = "a condition reason must start with alphabetic character, optionally followed by a string of \
                alphanumeric characters or '_,:', and must end with an alphanumeric character or '_'";
    let examples = ["my_name", "MY_NAME", "MyName", "ReasonA,ReasonB", "ReasonA:ReasonB"];
    vec![regex_error(rule, "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?", &examples)]
}

/// The name of an HTTP header.
pub fn http_header_name(value: &str) -> Vec<String> {
    if !value.is_empty() && all(value, |b| b.is_ascii_alphanumeric() || b == b'-') {
        return Vec::new();
    }
    let rule = "a valid HTTP header must consist of alphanumeric characters or '-'";
    vec![regex_error(rule, "[-A-Za-z0-9]+", &["X-Header-Name"])]
}

/// A percentage: `50%`.
pub fn percent(value: &str) -> Vec<String> {
    let digits = value.strip_suffix('%').unwrap_or_default();
    if !digits.is_empty() && all(digits, |b| b.is_ascii_digit()) {
        return Vec::new();
    }
    let rule = "a valid percent string must be a numeric string followed by an ending '%'";
    vec![regex_error(rule, "[0-9]+%", &["1%", "93%"])]
}

/// The name of a port (an IANA service name).
pub fn port_name(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > 15 {
        errors.push(too_many_characters(15));
    }
    if value.is_empty() || !all(value, |b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-') {
        errors.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !value.bytes().any(|b| b.is_ascii_lowercase()) {
        errors.push("must contain at least one letter (a-z)".to_owned());
    }
    if value.contains("--") {
        errors.push("must not contain consecutive hyphens".to_owned());
    }
    if value.starts_with('-') || value.ends_with('-') {
        errors.push("must not begin or end with a hyphen".to_owned());
    }
    errors
}

/// The number of a port.
pub fn port_number(value: i64) -> Vec<String> {
    in_range(value, 1, 65535)
}

/// A Unix user or group id.
pub fn user_or_group_id(value: i64) -> Vec<String> {
    in_range(value, 0, i64::from(i32::MAX))
}

/// A number from `low` to `high`.
pub fn in_range(value: i64, low: i64, high: i64) -> Vec<String> {
    if (low..=high).contains(&value) {
        Vec::new()
    } else {
        vec![out_of_range(low, high)]
    }
}

#[cfg(test)]
mod tests;
