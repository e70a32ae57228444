//! Recorded scenarios of webhooks and of custom resources, with what their webhooks are asked.

use trireme_tests::StoreChoice;

use super::{NODE_AND_RBAC, check, files};

/// Recorded files of webhooks, which a scripted receiver stands for.
pub(super) const WEBHOOKS: &[&str] = &["hooks/mutating-webhooks", "hooks/validating-webhooks"];

/// Recorded files of definitions of custom resources: their life, and versions that a scripted receiver converts.
pub(super) const CUSTOM_RESOURCES: &[&str] = &["hooks/crd-conversion", "hooks/crd-lifecycle"];

/// The share of the scenarios that must match in every step or be answered better, what the receiver got included, in per cent.
const LEAST_OF_WEBHOOKS_PERCENT: usize = 94;

/// The same of custom resources.
const LEAST_OF_CUSTOM_RESOURCES_PERCENT: usize = 91;

#[test]
fn custom_resources_are_defined_and_converted_as_by_kube_apiserver() {
    for store in [StoreChoice::Embedded, StoreChoice::Etcd] {
        check(
            store,
            &files(CUSTOM_RESOURCES),
            &[NODE_AND_RBAC],
            LEAST_OF_CUSTOM_RESOURCES_PERCENT,
        );
    }
}

#[test]
fn webhooks_are_asked_about_writes_as_by_kube_apiserver() {
    check(
        StoreChoice::Embedded,
        &files(WEBHOOKS),
        &[NODE_AND_RBAC],
        LEAST_OF_WEBHOOKS_PERCENT,
    );
}
