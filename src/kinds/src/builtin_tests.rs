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
