"""Writes and reads over one connection pool until its standard input ends.

`tests/tests/rolling_restart` runs it with KUBECONFIG and a namespace, and reads a line for each request: a dot, or what went
wrong. Nothing is tried twice.
"""

import os
import select
import sys
import time

from kubernetes import client, config


def main():
    config.load_kube_config()
    settings = client.Configuration.get_default_copy()
    settings.retries = False
    core = client.CoreV1Api(client.ApiClient(settings))
    namespace, number = sys.argv[1], 0
    while not select.select([sys.stdin], [], [], 0)[0]:
        name = f"python-{os.getpid()}-{number}"
        body = client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name), data={"value": "1"})
        calls = [
            lambda: core.create_namespaced_config_map(namespace, body),
            lambda: core.patch_namespaced_config_map(name, namespace, {"data": {"value": "2"}}),
            lambda: core.read_namespaced_config_map(name, namespace),
            lambda: core.list_namespaced_config_map(namespace, limit=5),
            lambda: core.delete_namespaced_config_map(name, namespace),
        ]
        for call in calls:
            try:
                call()
                print(".", flush=True)
            except Exception as error:  # whatever it is, the request is lost
                print(repr(error), flush=True)
        number += 1
        time.sleep(0.02)


main()
