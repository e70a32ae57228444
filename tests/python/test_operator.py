"""An operator that is written with kopf against a running server; `tests/tests/python_client.rs` starts the server, sets
KUBECONFIG, makes the certificate of the operator's webhooks and names their port (see `boats.py`).
"""

import os
import subprocess
import sys
import tempfile
import time
import unittest

from kubernetes import client, config
from kubernetes.client import ApiException

PATIENCE_SECONDS = 60
HERE = os.path.dirname(os.path.abspath(__file__))
BOATS = ("example.com", "v1", "default", "boats")
ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
SPEC = {"type": "object", "properties": {"size": {"type": "integer"}, "colour": {"type": "string"}}}


def definition(group, plural, kind, scope, properties, **more):
    schema = {"openAPIV3Schema": {"type": "object", "properties": properties}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema, **more}
    names = {"plural": plural, "kind": kind}
    spec = {"group": group, "scope": scope, "names": names, "versions": [version]}
    return {"metadata": {"name": f"{plural}.{group}"}, "spec": spec}


DEFINITIONS = [
    definition(
        "example.com", "boats", "Boat", "Namespaced", {"spec": SPEC, "status": ANYTHING}, subresources={"status": {}}
    ),
    definition("kopf.dev", "clusterkopfpeerings", "ClusterKopfPeering", "Cluster", {"status": ANYTHING}),
    definition("kopf.dev", "kopfpeerings", "KopfPeering", "Namespaced", {"status": ANYTHING}),
]


def until(what, condition):
    """Waits until a condition holds; errors of the API count as no."""
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            last = condition()
            if last:
                return last
        except (ApiException, KeyError) as error:
            last = error
        if time.monotonic() > end:
            raise AssertionError(f"{what}: {last!r}\n{Operator.log()}")
        time.sleep(0.05)


class Operator:
    """The running `kopf run`."""

    process = None
    folder = None

    @classmethod
    def start(cls):
        cls.folder = tempfile.TemporaryDirectory()
        environment = {**os.environ, "BOATS_NOTES": cls.folder.name}
        command = [sys.executable, "-B", "-m", "kopf", "run", "--all-namespaces", os.path.join(HERE, "boats.py")]
        with open(os.path.join(cls.folder.name, "log"), "w") as log:
            cls.process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)

    @classmethod
    def log(cls):
        if cls.folder is None:
            return "the operator was not started"
        with open(os.path.join(cls.folder.name, "log")) as log:
            return log.read()[-8000:]

    @classmethod
    def noted(cls, what, name):
        return os.path.exists(os.path.join(cls.folder.name, f"{what}-{name}"))

    @classmethod
    def stop(cls):
        """Ends it as a pod's end would; gives back the exit code."""
        cls.process.terminate()
        return cls.process.wait(PATIENCE_SECONDS)


def setUpModule():
    config.load_kube_config()
    extensions, custom = client.ApiextensionsV1Api(), client.CustomObjectsApi()
    for one in DEFINITIONS:
        extensions.create_custom_resource_definition(one)
    peering = {"apiVersion": "kopf.dev/v1", "kind": "ClusterKopfPeering", "metadata": {"name": "boats"}}
    create = custom.create_cluster_custom_object
    until("peerings are served", lambda: create("kopf.dev", "v1", "clusterkopfpeerings", peering))
    Operator.start()


def tearDownModule():
    if Operator.process.poll() is None:
        Operator.process.kill()
        Operator.process.wait()
    Operator.folder.cleanup()


class TestOperator(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.custom, cls.core = client.CustomObjectsApi(), client.CoreV1Api()
        until("the webhooks are called", lambda: cls.refusal("too-large", size=500))

    @classmethod
    def refusal(cls, name, **spec):
        """The error of a boat that is refused; one that is not is taken away again."""
        try:
            cls.make(name, **spec)
        except ApiException as error:
            return error if "too large" in error.body else None
        cls.custom.delete_namespaced_custom_object(*BOATS, name)
        return None

    @classmethod
    def make(cls, name, labels=None, **spec):
        metadata = {"name": name, "labels": labels or {}}
        boat = {"apiVersion": "example.com/v1", "kind": "Boat", "metadata": metadata, "spec": spec}
        return cls.custom.create_namespaced_custom_object(*BOATS, boat)

    def boat(self, name):
        return self.custom.get_namespaced_custom_object(*BOATS, name)

    def status(self, name):
        return self.boat(name).get("status", {})

    def delete(self, name):
        # Before that the operator does not hear of a deletion in time.
        until("the operator has its finalizer", lambda: "example.com/boats" in self.boat(name)["metadata"]["finalizers"])
        self.custom.delete_namespaced_custom_object(*BOATS, name)
        until("the operator sees the boat go", lambda: Operator.noted("gone", name))

        def is_gone():
            names = [boat["metadata"]["name"] for boat in self.custom.list_namespaced_custom_object(*BOATS)["items"]]
            return name not in names

        until("the boat goes when its finalizer is taken away", is_gone)

    def has_event(self, name, reason, text):
        events = self.core.list_namespaced_event("default").items
        of_boat = [event for event in events if event.involved_object.name == name and event.reason == reason]
        return any(text in event.message for event in of_boat)

    def test_a_boat_is_handled_from_its_creation_to_its_deletion(self):
        self.make("life", size=1, colour="red")
        until("it is handled", lambda: self.status("life")["created"] == {"colour": "red"})
        until("a handler is tried again", lambda: self.status("life")["retried"] == {"tries": 2})
        until("an event is posted", lambda: self.has_event("life", "Built", "a boat was built"))
        self.custom.patch_namespaced_custom_object(*BOATS, "life", {"spec": {"size": 5}})
        until("an update is handled", lambda: self.status("life")["updated"] == {"changes": 1})
        until("a field is handled", lambda: self.status("life")["resized/spec.size"] == {"from": 1, "to": 5})
        self.make("sister", size=1, colour="red")
        until("it is in the index", lambda: "life" in self.status("sister")["sisters"])
        self.delete("life")
        self.delete("sister")

    def test_a_permanent_error_ends_its_handler_alone(self):
        self.make("leaking", {"leaks": "yes"}, size=1)
        until("the event is there", lambda: self.has_event("leaking", "Leak", "water in the hold"))
        until("the other handlers go on", lambda: self.status("leaking")["retried"] == {"tries": 2})
        self.assertNotIn("leaking", self.status("leaking"))
        self.delete("leaking")

    def test_daemons_and_timers_run_as_long_as_their_boats(self):
        self.make("crewed", {"crewed": "yes"}, size=1)
        self.make("ticking", {"ticking": "yes"}, size=1)
        until("the daemon has begun", lambda: Operator.noted("aboard", "crewed"))
        until("the timer goes on", lambda: self.status("ticking")["ticks"] >= 3)
        self.delete("crewed")
        self.assertTrue(Operator.noted("ashore", "crewed"))
        self.delete("ticking")

    def test_boats_are_admitted_by_the_operator(self):
        error = self.refusal("too-large", size=500)
        self.assertEqual(error.status, 422)
        self.assertIn('admission webhook \\"size.auto.example.com\\" denied the request: too large', error.body)
        self.assertEqual(self.make("unpainted", size=1)["spec"]["colour"], "grey")
        self.delete("unpainted")

    def test_z_an_operator_that_ends_leaves_its_peering_and_no_webhooks(self):
        def peers():
            return self.custom.get_cluster_custom_object("kopf.dev", "v1", "clusterkopfpeerings", "boats")["status"]

        until("it is among its peers", peers)
        self.assertEqual(Operator.stop(), 0, Operator.log())
        self.assertFalse(peers())
        admission = client.AdmissionregistrationV1Api()
        hooks = admission.list_validating_webhook_configuration().items
        hooks += admission.list_mutating_webhook_configuration().items
        self.assertEqual([hook.webhooks for hook in hooks if hook.webhooks], [])


if __name__ == "__main__":
    unittest.main()
