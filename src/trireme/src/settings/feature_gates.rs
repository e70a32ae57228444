//! `--feature-gates`: features that can be switched on and off, with kube-apiserver's names.

use super::values::list;

/// The text that an error gives.
pub(super) const ALLOWED: &str = "give AllowUnsafeMalformedObjectDeletion=true or =false";

/// The features that can be switched.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct FeatureGates {
    /// `AllowUnsafeMalformedObjectDeletion`: stored values that cannot be read may be deleted on purpose.
    pub(crate) unsafe_malformed_object_deletion: bool,
}

impl FeatureGates {
    /// Reads `NAME=true,NAME=false`; the last word on a feature counts.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut gates = Self::default();
        for gate in list(text) {
            let (name, value) = gate.split_once('=')?;
            match name.trim() {
                "AllowUnsafeMalformedObjectDeletion" => {
                    gates.unsafe_malformed_object_deletion = value.trim().parse().ok()?;
                }
                _ => return None,
            }
        }
        Some(gates)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_features_are_switched_and_unknown_ones_refused() {
        let unsafe_deletion = |text| FeatureGates::parse(text).map(|gates| gates.unsafe_malformed_object_deletion);
        assert_eq!(unsafe_deletion(""), Some(false));
        assert_eq!(unsafe_deletion("AllowUnsafeMalformedObjectDeletion=true"), Some(true));
        assert_eq!(unsafe_deletion("AllowUnsafeMalformedObjectDeletion=false"), Some(false));
        assert_eq!(unsafe_deletion("AllowUnsafeMalformedObjectDeletion"), None);
        assert_eq!(unsafe_deletion("AllowUnsafeMalformedObjectDeletion=yes"), None);
        assert_eq!(unsafe_deletion("GenericWorkload=true"), None);
    }
}
