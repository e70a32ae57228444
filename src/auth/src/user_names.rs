//! The names of users that stand for objects.

use trireme_machinery::names;

/// The namespace and name in `system:serviceaccount:<namespace>:<name>`.
pub(crate) fn service_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix("system:serviceaccount:")?.split_once(':')?;
    let is_valid = names::dns1123_label(namespace).is_empty() && names::dns1123_subdomain(name).is_empty();
    is_valid.then_some((namespace, name))
}

/// The name in `system:node:<name>`.
pub(crate) fn node_name(user: &str) -> Option<&str> {
    let name = user.strip_prefix("system:node:")?;
    names::dns1123_subdomain(name).is_empty().then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_whole_or_none() {
        assert_eq!(service_account("system:serviceaccount:n:a.b"), Some(("n", "a.b")));
        assert_eq!(node_name("system:node:n1.example"), Some("n1.example"));
        for name in [
            "system:serviceaccount:n",
            "system:serviceaccount:n:a:b",
            "system:serviceaccount::a",
            "n:a",
        ] {
            assert_eq!(service_account(name), None, "{name}");
        }
        for name in ["system:node:", "system:node:A", "node:a"] {
            assert_eq!(node_name(name), None, "{name}");
        }
    }
}
