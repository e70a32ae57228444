//! Names of objects: each kind picks one of these checks.

use super::{DNS1123_SUBDOMAIN_MAX_LENGTH, dns1035_label, dns1123_label, dns1123_subdomain, too_many_bytes};

/// A check of an object's name. The flag says that the value is a `generateName`, which only begins a name.
pub type NameCheck = fn(&str, bool) -> Vec<String>;

/// The rule for the prefix of a generated name: a trailing dash is fine, since more follows.
fn completed(name: &str, prefix: bool) -> std::borrow::Cow<'_, str> {
    match name.strip_suffix('-') {
        Some(stem) if prefix && !stem.is_empty() => {
            let mut masked = stem.to_owned();
            masked.pop();
            masked.push('a');
            masked.into()
        }
        _ => name.into(),
    }
}

/// Most kinds: a DNS name.
pub fn name_is_dns_subdomain(name: &str, prefix: bool) -> Vec<String> {
    dns1123_subdomain(&completed(name, prefix))
}

/// Kinds whose names are validated declaratively (`k8s-long-name`): a DNS name, whose length is given in bytes.
pub fn name_is_long_name(name: &str, prefix: bool) -> Vec<String> {
    let name = completed(name, prefix);
    if name.len() > DNS1123_SUBDOMAIN_MAX_LENGTH {
        return vec![too_many_bytes(DNS1123_SUBDOMAIN_MAX_LENGTH)];
    }
    dns1123_subdomain(&name)
}

/// Kinds that become a DNS label, such as Namespace.
pub fn name_is_dns_label(name: &str, prefix: bool) -> Vec<String> {
    dns1123_label(&completed(name, prefix))
}

/// Kinds that become a DNS label which begins with a letter.
pub fn name_is_dns1035_label(name: &str, prefix: bool) -> Vec<String> {
    dns1035_label(&completed(name, prefix))
}

/// Kinds whose names need only fit into a path, such as Role.
pub fn name_is_path_segment(name: &str, prefix: bool) -> Vec<String> {
    if prefix {
        path_segment_prefix(name)
    } else {
        path_segment_name(name)
    }
}

/// Kinds that ask nothing of names but what is asked of all, once everything else is right, such as CertificateSigningRequest.
pub fn any_name(_name: &str, _prefix: bool) -> Vec<String> {
    Vec::new()
}

/// Returns true if the name can be one segment of a URL's path.
pub fn path_segment_name(name: &str) -> Vec<String> {
    if name == "." || name == ".." {
        return vec![format!("may not be '{name}'")];
    }
    path_segment_prefix(name)
}

/// Returns true if the name can begin one segment of a URL's path.
pub fn path_segment_prefix(name: &str) -> Vec<String> {
    ["/", "%"]
        .into_iter()
        .filter(|illegal| name.contains(illegal))
        .map(|illegal| format!("may not contain '{illegal}'"))
        .collect()
}
