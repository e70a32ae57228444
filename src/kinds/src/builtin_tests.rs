//! Facts that differ between the kinds, as one table each.

use crate::{builtin::resources, testing::settings};

#[test]
fn finalizers_of_these_kinds_need_no_domain() {
    let (_dir, settings) = settings();
    let mut plain: Vec<String> = resources(&settings)
        .iter()
        .filter(|info| !info.strategy.wants_standard_finalizers())
        .map(|info| info.resource.to_string())
        .collect();
    plain.sort();
    assert_eq!(
        plain,
        [
            "apiservices.apiregistration.k8s.io",
            "leases.coordination.k8s.io",
            "mutatingadmissionpolicies.admissionregistration.k8s.io",
            "mutatingadmissionpolicybindings.admissionregistration.k8s.io",
            "mutatingwebhookconfigurations.admissionregistration.k8s.io",
            "runtimeclasses.node.k8s.io",
            "validatingadmissionpolicies.admissionregistration.k8s.io",
            "validatingadmissionpolicybindings.admissionregistration.k8s.io",
            "validatingwebhookconfigurations.admissionregistration.k8s.io",
        ]
    );
}

#[test]
fn tables_of_subresources_are_made_where_kube_apiserver_makes_them() {
    let (_dir, settings) = settings();
    let all = resources(&settings);
    let mut without: Vec<String> = Vec::new();
    for info in &all {
        let bare = info.subresources.iter().filter(|subresource| !subresource.has_tables);
        without.extend(bare.map(|subresource| format!("{}/{}", info.resource, subresource.name)));
    }
    without.sort();
    assert_eq!(
        without,
        [
            "apiservices.apiregistration.k8s.io/status",
            "certificatesigningrequests.certificates.k8s.io/approval",
            "customresourcedefinitions.apiextensions.k8s.io/status",
            "namespaces/finalize",
            "pods/ephemeralcontainers",
            "pods/resize",
            "resourceclaims.resource.k8s.io/status",
        ]
    );
}

#[test]
fn events_are_named_by_the_group_that_was_asked() {
    let (_dir, settings) = settings();
    let all = resources(&settings);
    let events = all.iter().find(|info| *info.resource.resource == *"events");
    let events = events.expect("there are events");
    let named: Vec<String> = (0..events.versions.len())
        .map(|version| events.resource_in(version).to_string())
        .collect();
    assert_eq!(named, ["events", "events.events.k8s.io"]);
}
