//! Which of kube-controller-manager's controllers run in this process.

use std::collections::BTreeSet;

use super::values::list;

/// The controllers that there are, each with the shorter name that kube-controller-manager takes as well.
const KNOWN: [(&str, &str); 4] = [
    ("namespace-controller", "namespace"),
    ("garbage-collector-controller", "garbagecollector"),
    ("serviceaccount-controller", "serviceaccount"),
    ("root-ca-certificate-publisher-controller", "root-ca-cert-publisher"),
];

/// The allowed values of `--controllers`, for the error's text.
pub(super) const ALLOWED: &str = "give a list of *, namespace-controller, garbage-collector-controller, \
    serviceaccount-controller and root-ca-certificate-publisher-controller, with a minus before what is not to run";

/// The controllers that run here, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Controllers(BTreeSet<&'static str>);

impl Controllers {
    /// Reads the list as kube-controller-manager does: a name wins over a name with a minus, both win over `*`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (mut star, mut named, mut left_out) = (false, BTreeSet::new(), BTreeSet::new());
        for part in list(text) {
            match part.strip_prefix('-') {
                _ if part == "*" => star = true,
                Some("*") => {}
                Some(name) => drop(left_out.insert(known(name)?)),
                None => drop(named.insert(known(part)?)),
            }
        }
        let runs = |name: &&str| named.contains(name) || (star && !left_out.contains(name));
        Some(Self(KNOWN.iter().map(|(name, _)| *name).filter(runs).collect()))
    }

    /// Returns true if this one runs here.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains(name)
    }
}

fn known(name: &str) -> Option<&'static str> {
    let mut all = KNOWN.iter();
    all.find(|(full, short)| *full == name || *short == name)
        .map(|(full, _)| *full)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Option<Vec<&'static str>> {
        Controllers::parse(text).map(|controllers| controllers.0.into_iter().collect())
    }

    #[test]
    fn lists_are_read_as_kube_controller_manager_reads_them() {
        assert_eq!(parsed("*").map(|all| all.len()), Some(KNOWN.len()));
        for none in ["", "-*", "-namespace", "-namespace,-garbagecollector"] {
            assert_eq!(parsed(none), Some(Vec::new()), "{none:?}");
        }
        assert_eq!(
            parsed("serviceaccount, garbage-collector-controller"),
            Some(vec!["garbage-collector-controller", "serviceaccount-controller"])
        );
        assert_eq!(
            parsed("*,-garbagecollector,-root-ca-cert-publisher"),
            Some(vec!["namespace-controller", "serviceaccount-controller"])
        );
        for unknown in ["deployment", "*,-nonsense", "namespace-", "all"] {
            assert_eq!(parsed(unknown), None, "{unknown:?}");
        }
    }
}
