//! Requests of nodes against graphs of a few objects.

use serde_json::{Value, json};
use trireme_machinery::{Feature, Features, selector::FieldSelector};
use trireme_registry::{Fold as _, request::UserInfo};

use super::{
    NodeRequest,
    graph::{GraphFold, POD_CERTIFICATE_REQUESTS, SOURCES},
};
use crate::authorizer::{Attributes, AuthorizationRequest, Decision, RequestSelectors};

#[derive(Default)]
struct Cluster(GraphFold, Features);

fn source(plural: &str) -> usize {
    let found = SOURCES.iter().position(|(_, source)| *source == plural);
    let gated = (plural == POD_CERTIFICATE_REQUESTS.2).then_some(SOURCES.len());
    found.or(gated).expect("one of the five")
}

impl Cluster {
    fn put(&mut self, plural: &str, object: &Value) {
        let text = |field: &str| object["metadata"][field].as_str();
        let name = text("name").unwrap_or_default();
        let key = text("namespace").map_or(name.to_owned(), |namespace| format!("{namespace}/{name}"));
        self.0.put_object(source(plural), &key.as_str().into(), object);
    }

    fn remove(&mut self, plural: &str, key: &str) {
        self.0.remove(source(plural), &key.into());
    }

    /// Asks for node `a`: `verb resource[/subresource] [namespace/]name[?field selector]`.
    fn ask(&self, asked: &str) -> Result<(), String> {
        let user = UserInfo {
            name: "system:node:a".into(),
            groups: vec!["system:nodes".into()],
            ..UserInfo::default()
        };
        let mut words = asked.split(' ');
        let [verb, resource, object] = [(); 3].map(|()| words.next().unwrap_or_default());
        let (object, fields) = object.split_once('?').unwrap_or((object, ""));
        let fields = FieldSelector::parse(fields).expect("a selector");
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let (resource, group) = resource.split_once('.').unwrap_or((resource, ""));
        let (namespace, name) = object.split_once('/').unwrap_or(("", object));
        let attributes = Attributes {
            user: &user,
            verb,
            wanted: AuthorizationRequest::Resource {
                group,
                version: "v1",
                resource,
                subresource,
                namespace,
                name,
            },
            selectors: RequestSelectors {
                fields: Some(&fields),
                labels: None,
            },
        };
        let request = NodeRequest::of(user.node_name().expect("a node"), &attributes).expect("for objects");
        match request.decide(self.1, &self.0.value()) {
            Decision::Allow(_) => Ok(()),
            Decision::NoOpinion(why) => Err(why),
            other => panic!("{other:?}"),
        }
    }

    fn check(&self, allowed: &[&str], refused: &[&str]) {
        for asked in allowed {
            assert_eq!(self.ask(asked), Ok(()), "{asked}");
        }
        for asked in refused {
            assert!(self.ask(asked).is_err(), "{asked} is allowed");
        }
    }
}

fn pod(name: &str, node: &str, spec: Value) -> Value {
    let mut pod = json!({"metadata": {"namespace": "n", "name": name}, "spec": spec});
    pod["spec"]["nodeName"] = node.into();
    pod
}

#[test]
fn a_pod_gives_its_node_what_it_refers_to_until_it_is_gone() {
    let mut cluster = Cluster::default();
    let spec = json!({
        "serviceAccountName": "account",
        "imagePullSecrets": [{"name": "pull"}],
        "initContainers": [{"env": [{"valueFrom": {"secretKeyRef": {"name": "key"}}}]}],
        "containers": [{"envFrom": [{"secretRef": {"name": "all"}}, {"configMapRef": {"name": "env"}}]}],
        "volumes": [
            {"name": "a", "secret": {"secretName": "mounted"}},
            {"name": "b", "projected": {"sources": [{"secret": {"name": "projected"}}, {"configMap": {"name": "part"}}]}},
            {"name": "c", "persistentVolumeClaim": {"claimName": "claim"}},
            {"name": "d", "ephemeral": {"volumeClaimTemplate": {}}},
            {"name": "e", "iscsi": {"secretRef": {"name": "chap"}}},
        ],
        "resourceClaims": [{"name": "gpu", "resourceClaimName": "device"}, {"name": "later", "resourceClaimTemplateName": "t"}],
    });
    let granted = [
        "get pods n/p",
        "list pods n/p",
        "get secrets n/pull",
        "get secrets n/key",
        "watch secrets n/all",
        "get secrets n/mounted",
        "get secrets n/projected",
        "get secrets n/chap",
        "get configmaps n/env",
        "get configmaps n/part",
        "get persistentvolumeclaims n/claim",
        "patch persistentvolumeclaims/status n/claim",
        "get persistentvolumeclaims n/p-d",
        "get resourceclaims.resource.k8s.io n/device",
        "get serviceaccounts n/account",
        "create serviceaccounts/token n/account",
    ];
    cluster.check(&[], &granted);
    cluster.put("pods", &pod("p", "", spec.clone()));
    cluster.check(&[], &granted);
    cluster.put("pods", &pod("p", "b", spec.clone()));
    cluster.check(&[], &granted);
    cluster.put("pods", &pod("p", "a", spec.clone()));
    cluster.put("pods", &pod("q", "a", spec.clone()));
    cluster.check(
        &granted,
        &[
            "get secrets m/pull",
            "get secrets n/other",
            "get resourceclaims.resource.k8s.io n/t",
        ],
    );
    cluster.remove("pods", "n/q");
    cluster.check(&granted, &["get pods n/q"]);

    let mut with_claim = pod("p", "a", spec);
    with_claim["status"] = json!({"resourceClaimStatuses": [{"name": "later", "resourceClaimName": "p-later"}]});
    cluster.put("pods", &with_claim);
    cluster.check(&["get resourceclaims.resource.k8s.io n/p-later"], &[]);
    cluster.remove("pods", "n/p");
    cluster.check(&[], &granted);
}

#[test]
fn a_mirror_pod_gives_nothing_but_itself() {
    let mut cluster = Cluster::default();
    let mut mirror = pod("p", "a", json!({"imagePullSecrets": [{"name": "s"}]}));
    mirror["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x"});
    cluster.put("pods", &mirror);
    cluster.check(&["get pods n/p"], &["get secrets n/s"]);
}

#[test]
fn a_volume_and_its_secrets_follow_the_claim() {
    let mut cluster = Cluster::default();
    let volume = |claim: Value| {
        json!({"metadata": {"name": "v"}, "spec": {
            "claimRef": claim,
            "csi": {
                "nodeStageSecretRef": {"namespace": "n", "name": "stage"},
                "controllerPublishSecretRef": {"namespace": "n", "name": "controller"},
            },
        }})
    };
    let granted = ["get persistentvolumes v", "get secrets n/stage"];
    cluster.put("persistentvolumes", &volume(json!({"namespace": "n", "name": "c"})));
    cluster.check(&[], &granted);
    cluster.put(
        "pods",
        &pod(
            "p",
            "a",
            json!({"volumes": [{"persistentVolumeClaim": {"claimName": "c"}}]}),
        ),
    );
    cluster.check(&granted, &["get secrets n/controller", "list persistentvolumes"]);
    cluster.put("persistentvolumes", &volume(json!({"namespace": "n", "name": "d"})));
    cluster.check(&[], &granted);
    cluster.put("persistentvolumes", &volume(json!({"namespace": "n", "name": "c"})));
    cluster.check(&granted, &[]);
    cluster.remove("persistentvolumes", "v");
    cluster.check(&[], &granted);
}

#[test]
fn objects_that_name_a_node_are_its_own() {
    let mut cluster = Cluster::default();
    for (plural, name, node) in [
        ("volumeattachments", "mine", "a"),
        ("volumeattachments", "theirs", "b"),
        ("resourceslices", "mine", "a"),
        ("resourceslices", "theirs", "b"),
    ] {
        cluster.put(plural, &json!({"metadata": {"name": name}, "spec": {"nodeName": node}}));
    }
    cluster.check(
        &[
            "get volumeattachments.storage.k8s.io mine",
            "delete resourceslices.resource.k8s.io mine",
            "list resourceslices.resource.k8s.io ?spec.nodeName=a",
            "create resourceslices.resource.k8s.io",
            "create leases.coordination.k8s.io kube-node-lease/",
            "patch leases.coordination.k8s.io kube-node-lease/a",
            "get csinodes.storage.k8s.io a",
        ],
        &[
            "get volumeattachments.storage.k8s.io theirs",
            "delete resourceslices.resource.k8s.io theirs",
            "list resourceslices.resource.k8s.io",
            "list resourceslices.resource.k8s.io ?spec.nodeName=b",
            "get leases.coordination.k8s.io kube-node-lease/b",
            "get leases.coordination.k8s.io kube-system/a",
            "list leases.coordination.k8s.io kube-node-lease/",
            "get csinodes.storage.k8s.io b",
        ],
    );
}

#[test]
fn refusals_say_why() {
    let cluster = Cluster::default();
    let check = |asked: &str, why: &str| assert_eq!(cluster.ask(asked), Err(why.to_owned()), "{asked}");
    check(
        "get secrets n/s",
        "no relationship found between node 'a' and this object",
    );
    check("list secrets n/", "No Object name found");
    check("list secrets s", "can only read namespaced object of this type");
    check("delete secrets n/s", "can only read resources of this type");
    check(
        "list persistentvolumes",
        "can only get individual resources of this type",
    );
    check("get nodes b", "node 'a' cannot read 'b', only its own Node object");
    check(
        "watch nodes",
        "node 'a' cannot read all nodes, only its own Node object",
    );
    check("delete nodes a", "");
    check(
        "list pods",
        "can only list/watch pods with spec.nodeName field selector",
    );
    check(
        "list pods ?spec.nodeName!=a",
        "can only list/watch pods with spec.nodeName field selector",
    );
    check("deletecollection pods n/?spec.nodeName=a", "");
    check("create nodes/proxy a", "");
    check("delete services n/s", "");
    check("get services/status n/s", "");
    check("get podcertificaterequests.certificates.k8s.io n/r", "");
    cluster.check(
        &[
            "list pods ?spec.nodeName=a",
            "get nodes a",
            "list services",
            "patch events.events.k8s.io n/e",
        ],
        &["list events n/"],
    );
}

#[test]
fn requests_for_certificates_of_pods_are_those_of_the_node_while_their_feature_is_on() {
    let request =
        |name: &str, node: &str| json!({"metadata": {"namespace": "n", "name": name}, "spec": {"nodeName": node}});
    let mut cluster = Cluster(GraphFold::default(), Features::with(&[Feature::PodCertificateRequest]));
    cluster.put("podcertificaterequests", &request("r", "a"));
    cluster.put("podcertificaterequests", &request("other", "b"));
    let resource = "podcertificaterequests.certificates.k8s.io";
    cluster.check(
        &[
            &format!("create {resource} n/"),
            &format!("get {resource} n/r"),
            &format!("watch {resource} ?spec.nodeName=a"),
        ],
        &[
            &format!("get {resource} n/other"),
            &format!("list {resource} n/"),
            &format!("delete {resource} n/r"),
            &format!("update {resource}/status n/r"),
            "list clustertrustbundles.certificates.k8s.io",
        ],
    );
    let with_bundles = Cluster(GraphFold::default(), Features::with(&[Feature::ClusterTrustBundle]));
    with_bundles.check(
        &["list clustertrustbundles.certificates.k8s.io"],
        &[
            "create clustertrustbundles.certificates.k8s.io",
            &format!("create {resource} n/"),
        ],
    );
}
