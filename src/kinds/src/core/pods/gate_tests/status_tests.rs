//! Those of its status.

use super::*;

#[test]
fn the_health_of_devices_comes_with_its_features() {
    let asked = container(json!({ "resources": {
        "requests": { "example.com/gpu": "1" }, "limits": { "example.com/gpu": "1" },
    } }));
    let part = json!({ "resourceID": "g", "health": "Unhealthy", "message": "hot" });
    let health = json!([{ "name": "example.com/gpu", "resources": [part] }]);
    let statuses = || {
        (
            status(container_status(json!({}))),
            container_status(json!({ "allocatedResourcesStatus": health })),
        )
    };
    let field = "/status/containerStatuses/0/allocatedResourcesStatus";
    expect_gated_status(Feature::ResourceHealthStatus, &asked, statuses(), field);
    let message = format!("{field}/0/resources/0/message");
    expect_gated_status(Feature::ResourceHealthStatusMessage, &asked, statuses(), &message);
}

#[test]
fn digests_of_image_volumes_come_with_their_feature() {
    let feature = Feature::ImageVolumeWithDigest;
    let with = |reference: &str| {
        let mount = json!({ "name": "v", "mountPath": "/v", "volumeStatus": { "image": { "imageRef": reference } } });
        container_status(json!({ "volumeMounts": [mount] }))
    };
    let field = "/status/containerStatuses/0/volumeMounts/0/volumeStatus";
    let statuses = (status(container_status(json!({}))), with("sha256:1"));
    expect_gated_status(feature, &pod(json!({})), statuses, field);
    let (on, _) = states(feature);
    let old = on.create(pod(json!({}))).unwrap();
    let at = "status.containerStatuses[0].volumeMounts[0].volumeStatus.imageVolumeStatus.imageRef";
    on.expect_status_errors(
        &old,
        &[
            (
                status(with("")),
                &[&format!("{at}: Required value: imageRef must not be empty")],
            ),
            (
                status(with(&"a".repeat(257))),
                &[&format!("{at}: Too long: may not be more than 256 bytes")],
            ),
        ],
    );
}

#[test]
fn claims_of_extended_resources_come_with_their_feature() {
    let asked = container(json!({ "resources": {
        "requests": { "example.com/gpu": "1" }, "limits": { "example.com/gpu": "1" },
    } }));
    let mapping = json!({ "containerName": "c", "resourceName": "example.com/gpu", "requestName": "r" });
    let claim = json!({ "extendedResourceClaimStatus": { "requestMappings": [mapping], "resourceClaimName": "n" } });
    let statuses = (status(json!({})), claim);
    let field = "/status/extendedResourceClaimStatus";
    expect_gated_status(Feature::DraExtendedResource, &asked, statuses, field);
}

#[test]
fn claims_of_resources_of_nodes_come_with_their_feature() {
    let feature = Feature::DraNodeAllocatableResources;
    let asked = pod(json!({ "resourceClaims": [{ "name": "r", "resourceClaimName": "claim" }] }));
    let with = |claim: Value| json!({ "nodeAllocatableResourceClaimStatuses": [claim] });
    let claim = json!({ "resourceClaimName": "claim", "containers": ["c"], "resources": { "cpu": "1" } });
    let statuses = (status(json!({})), with(claim.clone()));
    let field = "/status/nodeAllocatableResourceClaimStatuses";
    expect_gated_status(feature, &asked, statuses, field);
    let (on, _) = states(feature);
    let made = on.create(asked).unwrap();
    let at = "status.nodeAllocatableResourceClaimStatuses[0]";
    on.expect_status_errors(
        &made,
        &[
            (
                status(with(
                    json!({ "resourceClaimName": "", "containers": [], "resources": {} }),
                )),
                &[
                    &format!("{at}.resourceClaimName: Required value: must not be empty"),
                    &format!("{at}.resourceClaimName: Invalid value: \"\": no mapping found in pod reference"),
                    &format!("{at}.containers: Required value: must not be empty"),
                    &format!("{at}.resources: Required value: must not be empty"),
                ],
            ),
            (
                status(with(merged(
                    &claim,
                    &json!({ "resources": { "cpu": "-1", "example.com/gpu": "1" } }),
                ))),
                &[
                    &format!("{at}.resources[cpu]: Invalid value: \"-1\": must be non-negative"),
                    &format!(
                        "{at}.resources[example.com/gpu]: Invalid value: \"example.com/gpu\": must be a node \
                         allocatable resource name"
                    ),
                ],
            ),
        ],
    );
    let old = on.status(&made, status(with(claim))).unwrap();
    assert_eq!(
        on.patch_part("resize", &old, &json!({})).unwrap_err(),
        ["spec: Forbidden: pods with node allocatable resource claims cannot be resized"]
    );
}

#[test]
fn bound_pods_are_not_nominated_while_the_feature_is_on() {
    let (on, off) = states(Feature::ClearingNominatedNodeNameAfterBinding);
    let old = on.create(pod(json!({ "nodeName": "n" }))).unwrap();
    let nominated = status(json!({ "nominatedNodeName": "m" }));
    assert_eq!(
        on.status(&old, nominated.clone()).unwrap_err(),
        ["status.nominatedNodeName: Forbidden: may not be set on pods that are already bound to a node"]
    );
    let with = off.status(&old, nominated.clone()).unwrap();
    on.status(&with, nominated).unwrap();
}
