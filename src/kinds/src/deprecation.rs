//! The warnings of kinds in versions that are on their way out (`k8s.io/apiserver/pkg/endpoints/deprecation`).

use trireme_machinery::GroupVersion;
use trireme_registry::Deprecation;
use trireme_schema::{Release, lifecycle};

/// The release whose behaviour is served.
const SERVED: Release = Release { major: 1, minor: 36 };

/// The deprecation of a kind by its type's name, once it has begun.
pub(crate) fn of(version: &GroupVersion, kind: &str, type_name: &str) -> Option<Deprecation> {
    let life = lifecycle(type_name).filter(|life| life.is_deprecated_in(SERVED))?;
    let deprecated = life.deprecated?;
    let mut warning = format!(
        "{version} {kind} is deprecated in v{}.{}+",
        deprecated.major, deprecated.minor
    );
    let removed = life
        .removed
        .map(|removed| format!("{}.{}", removed.major, removed.minor));
    if let Some(removed) = &removed {
        warning.push_str(&format!(", unavailable in v{removed}+"));
    }
    if let Some((version, kind)) = life.replacement.and_then(|kind| kind.rsplit_once('/')) {
        warning.push_str(&format!("; use {version} {kind}"));
    }
    Some(Deprecation {
        warning: warning.into(),
        removed_release: removed.unwrap_or_default().into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warning(group: &str, version: &str, kind: &str) -> Option<String> {
        let type_name = trireme_schema::type_name(group, version, kind);
        let found = of(&GroupVersion::new(group, version), kind, &type_name)?;
        Some(format!("{} ({})", found.warning, found.removed_release))
    }

    #[test]
    fn what_is_deprecated_says_until_when_and_what_to_use() {
        assert_eq!(
            warning("networking.k8s.io", "v1beta1", "IPAddress").as_deref(),
            Some("networking.k8s.io/v1beta1 IPAddress is deprecated in v1.34+, unavailable in v1.37+ (1.37)")
        );
        assert_eq!(
            warning("storage.k8s.io", "v1beta1", "VolumeAttributesClass").as_deref(),
            Some(
                "storage.k8s.io/v1beta1 VolumeAttributesClass is deprecated in v1.34+, unavailable in v1.37+; use storage.k8s.io/v1 VolumeAttributesClass (1.37)"
            )
        );
        assert_eq!(warning("networking.k8s.io", "v1", "IPAddress"), None);
        // Its deprecation begins with the next release.
        assert_eq!(
            warning("admissionregistration.k8s.io", "v1beta1", "MutatingAdmissionPolicy"),
            None
        );
    }
}
