"""The official Python client against a running server; `tests/tests/python_client.rs` starts it and sets KUBECONFIG.

One class a capability, each in a namespace of its own. To run them by hand:

    PYTHONPATH=target/tools/python KUBECONFIG=… python3 -m unittest -v tests/python/test_client.py
"""

import base64
import json
import threading
import time
import unittest
import uuid

import yaml
from kubernetes import client, config, dynamic, utils, watch
from kubernetes.client import ApiException
from kubernetes.leaderelection import electionconfig, leaderelection
from kubernetes.leaderelection.resourcelock.configmaplock import ConfigMapLock
from kubernetes.leaderelection.resourcelock.leaselock import LeaseLock

PATIENCE_SECONDS = 20


def setUpModule():
    config.load_kube_config()


class InNamespace(unittest.TestCase):
    """Makes a namespace before the tests of a class."""

    @classmethod
    def setUpClass(cls):
        cls.core = client.CoreV1Api()
        cls.apps = client.AppsV1Api()
        cls.namespace = f"python-{uuid.uuid4().hex[:8]}"
        cls.core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name=cls.namespace)))

    def configmap(self, name, labels=None, **data):
        metadata = client.V1ObjectMeta(name=name, labels=labels)
        return client.V1ConfigMap(metadata=metadata, data=data)

    def create_configmap(self, name, labels=None, **data):
        return self.core.create_namespaced_config_map(self.namespace, self.configmap(name, labels, **data))

    def events_until_timeout(self, stream, least):
        """The events of a watch that ends after a second. A busy server may end it before they are sent: it is asked again."""
        end = time.monotonic() + PATIENCE_SECONDS
        while True:
            events = list(stream())
            if len(events) >= least or time.monotonic() >= end:
                return events

    def refusal(self, call, *args, **kwargs):
        """The exception of a call that must fail, and the Status in it."""
        with self.assertRaises(ApiException) as caught:
            call(*args, **kwargs)
        status = json.loads(caught.exception.body)
        self.assertEqual(status["kind"], "Status")
        self.assertEqual(status["code"], caught.exception.status)
        return caught.exception, status


def deployment(name, replicas=1):
    labels = {"app": name}
    container = client.V1Container(
        name="web",
        image="nginx:1.27",
        ports=[client.V1ContainerPort(container_port=80)],
        resources=client.V1ResourceRequirements(requests={"cpu": "100m", "memory": "64Mi"}),
    )
    return client.V1Deployment(
        metadata=client.V1ObjectMeta(name=name),
        spec=client.V1DeploymentSpec(
            replicas=replicas,
            selector=client.V1LabelSelector(match_labels=labels),
            template=client.V1PodTemplateSpec(
                metadata=client.V1ObjectMeta(labels=labels), spec=client.V1PodSpec(containers=[container])
            ),
        ),
    )


def pod(name, **spec):
    containers = [client.V1Container(name="main", image="busybox")]
    return client.V1Pod(metadata=client.V1ObjectMeta(name=name), spec=client.V1PodSpec(containers=containers, **spec))


class Kinds(InNamespace):
    """Create, read, list, replace and delete objects of several kinds."""

    def test_configmap(self):
        created = self.create_configmap("settings", colour="red")
        self.assertTrue(created.metadata.uid)
        created.data["colour"] = "blue"
        replaced = self.core.replace_namespaced_config_map("settings", self.namespace, created)
        self.assertNotEqual(replaced.metadata.resource_version, created.metadata.resource_version)
        self.assertEqual(self.core.read_namespaced_config_map("settings", self.namespace).data, {"colour": "blue"})
        self.core.delete_namespaced_config_map("settings", self.namespace)
        gone, _ = self.refusal(self.core.read_namespaced_config_map, "settings", self.namespace)
        self.assertEqual((gone.status, gone.reason), (404, "Not Found"))

    def test_secret(self):
        secret = client.V1Secret(metadata=client.V1ObjectMeta(name="login"), string_data={"password": "hidden"})
        self.core.create_namespaced_secret(self.namespace, secret)
        read = self.core.read_namespaced_secret("login", self.namespace)
        self.assertEqual((read.type, read.string_data), ("Opaque", None))
        self.assertEqual(base64.b64decode(read.data["password"]), b"hidden")

    def test_deployment_with_status_and_scale(self):
        created = self.apps.create_namespaced_deployment(self.namespace, deployment("web", 2))
        self.assertEqual(created.spec.strategy.type, "RollingUpdate")
        self.assertEqual(created.metadata.generation, 1)
        scale = self.apps.read_namespaced_deployment_scale("web", self.namespace)
        self.assertEqual((scale.spec.replicas, scale.status.selector), (2, "app=web"))
        scaled = self.apps.patch_namespaced_deployment_scale("web", self.namespace, {"spec": {"replicas": 5}})
        self.assertEqual(scaled.spec.replicas, 5)
        created = self.apps.read_namespaced_deployment_status("web", self.namespace)
        created.status = client.V1DeploymentStatus(replicas=5, observed_generation=2)
        created.spec.replicas = 9
        status = self.apps.replace_namespaced_deployment_status("web", self.namespace, created)
        self.assertEqual((status.status.replicas, status.spec.replicas), (5, 5), "only the status is taken")

    def test_service_and_endpoint_slices(self):
        spec = client.V1ServiceSpec(selector={"app": "web"}, ports=[client.V1ServicePort(port=80, target_port="http")])
        service = client.V1Service(metadata=client.V1ObjectMeta(name="web"), spec=spec)
        created = self.core.create_namespaced_service(self.namespace, service)
        self.assertEqual((created.spec.type, created.spec.ports[0].protocol), ("ClusterIP", "TCP"))
        self.assertTrue(created.spec.cluster_ip)
        endpoints = client.V1EndpointSlice(
            address_type="IPv4",
            endpoints=[client.V1Endpoint(addresses=["10.0.0.1"])],
            metadata=client.V1ObjectMeta(name="web-1", labels={"kubernetes.io/service-name": "web"}),
            ports=[client.DiscoveryV1EndpointPort(port=80)],
        )
        discovery = client.DiscoveryV1Api()
        discovery.create_namespaced_endpoint_slice(self.namespace, endpoints)
        found = discovery.list_namespaced_endpoint_slice(
            self.namespace, label_selector="kubernetes.io/service-name=web"
        )
        self.assertEqual([slice.metadata.name for slice in found.items], ["web-1"])

    def test_job_and_cluster_scoped_kinds(self):
        template = client.V1PodTemplateSpec(
            spec=client.V1PodSpec(restart_policy="Never", containers=[client.V1Container(name="m", image="busybox")])
        )
        job = client.V1Job(metadata=client.V1ObjectMeta(generate_name="once-"), spec=client.V1JobSpec(template=template))
        created = client.BatchV1Api().create_namespaced_job(self.namespace, job)
        self.assertTrue(created.metadata.name.startswith("once-"))
        self.assertEqual(created.spec.backoff_limit, 6)
        name = f"{self.namespace}-fast"
        storage = client.StorageV1Api()
        storage.create_storage_class(
            client.V1StorageClass(metadata=client.V1ObjectMeta(name=name), provisioner="example.com/fast")
        )
        self.assertEqual(storage.read_storage_class(name).reclaim_policy, "Delete")
        storage.delete_storage_class(name)

    def test_pod_is_bound_and_evicted(self):
        self.core.create_namespaced_pod(self.namespace, pod("lone"))
        target = client.V1ObjectReference(api_version="v1", kind="Node", name="node-1")
        binding = client.V1Binding(metadata=client.V1ObjectMeta(name="lone"), target=target)
        # The client cannot read the Status that a binding is answered with as a Binding.
        self.core.create_namespaced_pod_binding("lone", self.namespace, binding, _preload_content=False)
        on_node = self.core.list_namespaced_pod(self.namespace, field_selector="spec.nodeName=node-1")
        self.assertEqual([pod.metadata.name for pod in on_node.items], ["lone"])
        eviction = client.V1Eviction(metadata=client.V1ObjectMeta(name="lone"))
        self.core.create_namespaced_pod_eviction("lone", self.namespace, eviction)
        self.assertIsNotNone(self.core.read_namespaced_pod("lone", self.namespace).metadata.deletion_timestamp)
        self.core.delete_namespaced_pod("lone", self.namespace, grace_period_seconds=0)

    def test_dry_run_stores_nothing(self):
        created = self.core.create_namespaced_config_map(self.namespace, self.configmap("dry"), dry_run="All")
        self.assertTrue(created.metadata.uid)
        self.refusal(self.core.read_namespaced_config_map, "dry", self.namespace)


class Lists(InNamespace):
    """Pages, selectors and the deletion of collections."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for number in range(7):
            labels = {"parity": "even" if number % 2 == 0 else "odd"}
            metadata = client.V1ObjectMeta(name=f"item-{number}", labels=labels)
            cls.core.create_namespaced_config_map(cls.namespace, client.V1ConfigMap(metadata=metadata))

    def test_pages_hold_everything_once_and_at_one_revision(self):
        names, revisions, token = [], set(), None
        while True:
            page = self.core.list_namespaced_config_map(
                self.namespace, limit=3, _continue=token, field_selector="metadata.name!=late"
            )
            self.assertLessEqual(len(page.items), 3)
            names += [item.metadata.name for item in page.items if item.metadata.name.startswith("item-")]
            revisions.add(page.metadata.resource_version)
            token = page.metadata._continue
            if not token:
                break
        self.assertEqual(names, [f"item-{number}" for number in range(7)])
        self.assertEqual(len(revisions), 1)

    def test_remaining_items_are_counted(self):
        page = self.core.list_namespaced_config_map(self.namespace, limit=2)
        self.assertGreaterEqual(page.metadata.remaining_item_count, 5)

    def test_selectors(self):
        odd = self.core.list_namespaced_config_map(self.namespace, label_selector="parity in (odd)")
        self.assertEqual(len(odd.items), 3)
        one = self.core.list_config_map_for_all_namespaces(
            field_selector=f"metadata.name=item-4,metadata.namespace={self.namespace}"
        )
        self.assertEqual([item.metadata.name for item in one.items], ["item-4"])

    def test_a_broken_continue_token_is_refused(self):
        refused, _ = self.refusal(self.core.list_namespaced_config_map, self.namespace, limit=1, _continue="nonsense")
        self.assertEqual(refused.status, 400)

    def test_collections_are_deleted_by_selector(self):
        for number in range(4):
            self.create_configmap(f"short-lived-{number}", {"for": "deletion"})
        self.core.delete_collection_namespaced_config_map(self.namespace, label_selector="for=deletion")
        left = [item.metadata.name for item in self.core.list_namespaced_config_map(self.namespace).items]
        self.assertEqual([name for name in left if name.startswith("short-lived")], [])
        self.assertEqual(len([name for name in left if name.startswith("item-")]), 7)


class Patches(InNamespace):
    """The kinds of patch; the client tells them apart by the content type."""

    def patched(self, body, content_type):
        return self.core.patch_namespaced_config_map("patched", self.namespace, body, _content_type=content_type)

    def test_merge_patch(self):
        self.create_configmap("patched", a="1", b="2")
        self.addCleanup(self.core.delete_namespaced_config_map, "patched", self.namespace)
        patched = self.patched({"data": {"a": None, "c": "3"}}, "application/merge-patch+json")
        self.assertEqual(patched.data, {"b": "2", "c": "3"})

    def test_json_patch(self):
        self.create_configmap("patched", a="1")
        self.addCleanup(self.core.delete_namespaced_config_map, "patched", self.namespace)
        operations = [{"op": "test", "path": "/data/a", "value": "1"}, {"op": "add", "path": "/data/b", "value": "2"}]
        patched = self.patched(operations, "application/json-patch+json")
        self.assertEqual(patched.data, {"a": "1", "b": "2"})
        operations[0]["value"] = "other"
        refused, _ = self.refusal(self.patched, operations, "application/json-patch+json")
        self.assertEqual(refused.status, 422)

    def test_strategic_merge_patch_merges_containers_by_name(self):
        self.apps.create_namespaced_deployment(self.namespace, deployment("web"))
        containers = [{"name": "side", "image": "busybox"}]
        patch = {"spec": {"template": {"spec": {"containers": containers}}}}
        patched = self.apps.patch_namespaced_deployment(
            "web", self.namespace, patch, _content_type="application/strategic-merge-patch+json"
        )
        images = {container.name: container.image for container in patched.spec.template.spec.containers}
        self.assertEqual(images, {"side": "busybox", "web": "nginx:1.27"})


class Watches(InNamespace):
    """Streams of events: order, timeouts, going on from a revision, and what happens when that is gone."""

    def test_events_come_in_order_until_the_timeout(self):
        start = self.core.list_namespaced_config_map(self.namespace).metadata.resource_version
        self.create_configmap("seen", step="1")
        self.core.patch_namespaced_config_map("seen", self.namespace, {"data": {"step": "2"}})
        self.core.delete_namespaced_config_map("seen", self.namespace)

        def stream():
            list_of = self.core.list_namespaced_config_map
            return watch.Watch().stream(list_of, self.namespace, resource_version=start, timeout_seconds=1)

        events = [(event["type"], event["object"].data["step"]) for event in self.events_until_timeout(stream, 3)]
        self.assertEqual(events, [("ADDED", "1"), ("MODIFIED", "2"), ("DELETED", "2")])

    def test_a_watch_goes_on_where_another_stopped(self):
        start = self.core.list_namespaced_config_map(self.namespace).metadata.resource_version
        first = watch.Watch()
        self.create_configmap("before")
        for event in first.stream(
            self.core.list_namespaced_config_map, self.namespace, resource_version=start, timeout_seconds=PATIENCE_SECONDS
        ):
            self.assertEqual(event["object"].metadata.name, "before")
            first.stop()
        self.create_configmap("between")
        second = watch.Watch()
        names = []
        for event in second.stream(
            self.core.list_namespaced_config_map,
            self.namespace,
            resource_version=first.resource_version,
            timeout_seconds=PATIENCE_SECONDS,
        ):
            names.append(event["object"].metadata.name)
            second.stop()
        self.assertEqual(names, ["between"])

    def test_changes_arrive_while_the_watch_is_open(self):
        names = [f"live-{number}" for number in range(5)]
        writer = threading.Timer(0, lambda: [self.create_configmap(name, {"test": "live"}) for name in names])
        stream, seen = watch.Watch(), []
        writer.start()
        for event in stream.stream(
            self.core.list_namespaced_config_map,
            self.namespace,
            label_selector="test=live",
            timeout_seconds=PATIENCE_SECONDS,
        ):
            seen.append(event["object"].metadata.name)
            if len(seen) == len(names):
                stream.stop()
        writer.join()
        self.assertEqual(seen, names)

    def test_a_revision_that_never_was_is_refused(self):
        stream = watch.Watch().stream(
            self.core.list_namespaced_config_map, self.namespace, resource_version="soon", timeout_seconds=1
        )
        with self.assertRaises(ApiException) as caught:
            list(stream)
        self.assertEqual(caught.exception.status, 400)

    def test_bookmarks_end_the_initial_events(self):
        self.create_configmap("there", {"test": "bookmarks"})
        stream, seen = watch.Watch(), []
        for event in stream.stream(
            self.core.list_namespaced_config_map,
            self.namespace,
            label_selector="test=bookmarks",
            allow_watch_bookmarks=True,
            send_initial_events=True,
            resource_version_match="NotOlderThan",
            timeout_seconds=PATIENCE_SECONDS,
        ):
            seen.append(event["type"])
            if event["type"] == "BOOKMARK":
                annotations = event["raw_object"]["metadata"]["annotations"]
                self.assertEqual(annotations, {"k8s.io/initial-events-end": "true"})
                stream.stop()
        self.assertEqual(seen, ["ADDED", "BOOKMARK"])


class Refusals(InNamespace):
    """What comes as ApiException has the Status of kube-apiserver in it."""

    def test_a_name_that_is_taken(self):
        self.create_configmap("taken")
        refused, status = self.refusal(self.create_configmap, "taken")
        self.assertEqual((refused.status, status["reason"]), (409, "AlreadyExists"))
        self.assertEqual(status["message"], 'configmaps "taken" already exists')

    def test_an_update_of_something_stale(self):
        stale = self.create_configmap("stale")
        self.core.patch_namespaced_config_map("stale", self.namespace, {"data": {"a": "1"}})
        refused, status = self.refusal(self.core.replace_namespaced_config_map, "stale", self.namespace, stale)
        self.assertEqual((refused.status, status["reason"]), (409, "Conflict"))
        self.assertIn("the object has been modified", status["message"])

    def test_all_faults_of_an_object_are_told(self):
        broken = deployment("Broken")
        broken.spec.selector.match_labels = {"app": "other"}
        refused, status = self.refusal(self.apps.create_namespaced_deployment, self.namespace, broken)
        self.assertEqual((refused.status, status["reason"]), (422, "Invalid"))
        fields = {cause["field"] for cause in status["details"]["causes"]}
        self.assertEqual(fields, {"metadata.name", "spec.template.metadata.labels"})

    def test_a_precondition_that_does_not_hold(self):
        self.create_configmap("guarded")
        options = client.V1DeleteOptions(preconditions=client.V1Preconditions(uid="another"))
        refused, _ = self.refusal(self.core.delete_namespaced_config_map, "guarded", self.namespace, body=options)
        self.assertEqual(refused.status, 409)

    def test_somebody_unknown(self):
        settings = client.Configuration.get_default_copy()
        settings.api_key, settings.cert_file, settings.key_file = {"authorization": "Bearer guess"}, None, None
        stranger = client.CoreV1Api(client.ApiClient(settings))
        refused, status = self.refusal(stranger.list_node)
        self.assertEqual((refused.status, status["reason"]), (401, "Unauthorized"))


class Dynamic(InNamespace):
    """The dynamic client: kinds found by discovery, objects without types."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.dynamic = dynamic.DynamicClient(client.ApiClient())

    def test_kinds_are_discovered(self):
        deployments = self.dynamic.resources.get(api_version="apps/v1", kind="Deployment")
        self.assertEqual((deployments.name, deployments.namespaced), ("deployments", True))
        self.assertIn("scale", deployments.subresources)
        nodes = self.dynamic.resources.get(api_version="v1", kind="Node")
        self.assertFalse(nodes.namespaced)
        self.assertTrue(self.dynamic.resources.search(kind="Event"))

    def test_objects_live_their_lives(self):
        maps = self.dynamic.resources.get(api_version="v1", kind="ConfigMap")
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "free"}, "data": {"a": "1"}}
        created = maps.create(body=body, namespace=self.namespace)
        body["metadata"]["resourceVersion"] = created.metadata.resourceVersion
        body["data"]["b"] = "2"
        maps.replace(body=body, namespace=self.namespace)
        patch = {"metadata": {"name": "free"}, "data": {"c": "3"}}
        maps.patch(body=patch, namespace=self.namespace, content_type="application/merge-patch+json")
        read = maps.get(name="free", namespace=self.namespace)
        self.assertEqual(read.data.to_dict(), {"a": "1", "b": "2", "c": "3"})
        names = [item.metadata.name for item in maps.get(namespace=self.namespace).items]
        self.assertIn("free", names)
        maps.delete(name="free", namespace=self.namespace)
        with self.assertRaises(dynamic.exceptions.NotFoundError):
            maps.get(name="free", namespace=self.namespace)

    def test_unknown_fields_are_refused_when_validation_is_strict(self):
        # The typed client does not send them at all.
        maps = self.dynamic.resources.get(api_version="v1", kind="ConfigMap")
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "odd"}, "dta": {}}
        with self.assertRaises(dynamic.exceptions.BadRequestError) as caught:
            maps.create(body=body, namespace=self.namespace, query_params=[("fieldValidation", "Strict")])
        self.assertIn('unknown field "dta"', json.loads(caught.exception.body)["message"])

    def test_subresources(self):
        deployments = self.dynamic.resources.get(api_version="apps/v1", kind="Deployment")
        body = client.ApiClient().sanitize_for_serialization(deployment("web"))
        deployments.create(body={"apiVersion": "apps/v1", "kind": "Deployment", **body}, namespace=self.namespace)
        patch = {"spec": {"replicas": 4}}
        deployments.scale.patch(
            body=patch, name="web", namespace=self.namespace, content_type="application/merge-patch+json"
        )
        self.assertEqual(deployments.scale.get(name="web", namespace=self.namespace).spec.replicas, 4)

    def test_events_of_a_watch(self):
        maps = self.dynamic.resources.get(api_version="v1", kind="ConfigMap")
        self.create_configmap("watched")
        events = self.events_until_timeout(lambda: maps.watch(namespace=self.namespace, name="watched", timeout=1), 1)
        self.assertEqual([(event["type"], event["object"].metadata.name) for event in events], [("ADDED", "watched")])


class Manifests(InNamespace):
    """`utils.create_from_yaml`, as scripts use it in place of kubectl."""

    TEXT = """
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: ServiceAccount
  metadata: {name: robot}
- apiVersion: v1
  kind: ConfigMap
  metadata: {name: from-yaml}
  data: {a: "1"}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader}
rules:
- {apiGroups: [""], resources: [pods], verbs: [get, list]}
"""

    def test_everything_in_a_manifest_is_made_and_failures_are_told_together(self):
        documents = list(yaml.safe_load_all(self.TEXT))
        for document in documents:
            utils.create_from_dict(client.ApiClient(), document, namespace=self.namespace)
        self.assertEqual(self.core.read_namespaced_config_map("from-yaml", self.namespace).data, {"a": "1"})
        rules = client.RbacAuthorizationV1Api().read_namespaced_role("reader", self.namespace).rules
        self.assertEqual(rules[0].verbs, ["get", "list"])
        with self.assertRaises(utils.FailToCreateError) as caught:
            utils.create_from_yaml(client.ApiClient(), yaml_objects=documents, namespace=self.namespace)
        self.assertEqual({error.status for error in caught.exception.api_exceptions}, {409})


class Ending:
    """A lock whose election ends with its thread once the tests are over: the library has no way to stop one."""

    def __init__(self, lock, over):
        self._lock = lock
        self._over = over

    def __getattr__(self, name):
        if self._over.is_set():
            raise SystemExit
        return getattr(self._lock, name)


class Elections(InNamespace):
    """Leader election over both kinds of lock: one leads, and another takes over once the first is gone."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.over = threading.Event()
        cls.threads = []

    @classmethod
    def tearDownClass(cls):
        cls.over.set()
        for thread in cls.threads:
            thread.join()

    def elect(self, lock):
        """Runs an election in the background; the result is set once it is won."""
        led = threading.Event()
        settings = electionconfig.Config(
            Ending(lock, self.over),
            lease_duration=3,
            renew_deadline=2,
            retry_period=1,
            onstarted_leading=led.set,
            onstopped_leading=None,
        )
        thread = threading.Thread(target=leaderelection.LeaderElection(settings).run)
        self.threads.append(thread)
        thread.start()
        return led

    def test_leases(self):
        self.assertTrue(self.elect(LeaseLock("leases", self.namespace, "first")).wait(PATIENCE_SECONDS))
        leases = client.CoordinationV1Api()
        spec = leases.read_namespaced_lease("leases", self.namespace).spec
        self.assertEqual((spec.holder_identity, spec.lease_duration_seconds), ("first", 3))
        self.check_that_the_leader_is_followed(LeaseLock("leases", self.namespace, "second"))

    def test_configmaps(self):
        self.assertTrue(self.elect(ConfigMapLock("maps", self.namespace, "first")).wait(PATIENCE_SECONDS))
        annotations = self.core.read_namespaced_config_map("maps", self.namespace).metadata.annotations
        record = json.loads(annotations["control-plane.alpha.kubernetes.io/leader"])
        self.assertEqual(record["holderIdentity"], "first")
        self.check_that_the_leader_is_followed(ConfigMapLock("maps", self.namespace, "second"))

    def check_that_the_leader_is_followed(self, lock):
        """A second candidate sees who leads and does not get the lock."""
        settings = electionconfig.Config(
            lock, lease_duration=3, renew_deadline=2, retry_period=1, onstarted_leading=print, onstopped_leading=None
        )
        follower = leaderelection.LeaderElection(settings)
        self.assertFalse(follower.try_acquire_or_renew())
        self.assertEqual(follower.observed_record.holder_identity, "first")

    def test_a_leader_that_went_silent_is_replaced(self):
        gone = electionconfig.Config(
            LeaseLock("handover", self.namespace, "first"), 3, 2, 1, onstarted_leading=print, onstopped_leading=None
        )
        self.assertTrue(leaderelection.LeaderElection(gone).try_acquire_or_renew())
        second = self.elect(LeaseLock("handover", self.namespace, "second"))
        self.assertTrue(second.wait(PATIENCE_SECONDS))
        holder = client.CoordinationV1Api().read_namespaced_lease("handover", self.namespace).spec.holder_identity
        self.assertEqual(holder, "second")


if __name__ == "__main__":
    unittest.main()
