"""The parts of compose.sh that read JSON and keep connections open. Usage: compose.py VERB ARGUMENT..."""

import base64
import csv
import http.client
import io
import json
import os
import re
import ssl
import sys
import tempfile
import time
import urllib.parse
import urllib.request


def fetch(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.read().decode()


def reaches(mirror):
    """Exits 0 if the mirror has Debian 12."""
    try:
        fetch(mirror + "/dists/bookworm/Release")
    except OSError as error:
        raise SystemExit(f"{mirror}: {error}") from error


def rotation(haproxy):
    """Prints each replica and whether the load balancer gives it connections."""
    rows = csv.DictReader(io.StringIO(fetch(haproxy + "/;csv").lstrip("# ")))
    for row in rows:
        if row["pxname"] == "replicas" and row["svname"] != "BACKEND":
            print(row["svname"], row["status"])


def alive(count):
    """Exits 0 if the group on standard input has a leader, a quorum, and so many members that are alive."""
    status = json.load(sys.stdin)
    living = sum(1 for member in status["members"] if member["alive"])
    print(json.dumps(status))
    sys.exit(0 if living == int(count) and status["leader"] is not None and status["quorum"] else 1)


def query(prometheus, expression):
    answer = json.loads(fetch(prometheus + "/api/v1/query?" + urllib.parse.urlencode({"query": expression})))
    if answer["status"] != "success":
        raise SystemExit(f"{expression}: {answer}")
    return answer["data"]["result"]


def targets(prometheus, count):
    """Exits 0 if so many targets, and no others, are looked at and answer."""
    ups = query(prometheus, "up")
    print(ups)
    sys.exit(0 if len(ups) == int(count) and all(up["value"][1] == "1" for up in ups) else 1)


def expressions(prometheus, dashboard):
    """Fails if an expression of the dashboard has no data within a minute: rates need two looks."""
    with open(dashboard, encoding="utf-8") as file:
        panels = json.load(file)["panels"]
    wanted = [target["expr"] for panel in panels for target in panel.get("targets", [])]
    end = time.monotonic() + 60
    while wanted:
        wanted = [text for text in wanted if not query(prometheus, text.replace("$__rate_interval", "1m"))]
        if wanted and time.monotonic() > end:
            raise SystemExit("no data for:\n  " + "\n  ".join(wanted))
        time.sleep(1 if wanted else 0)


def load(kubeconfig, stop):
    """Four connections write and read until the file `stop` is there; each is kept, as clients do, until the server says
    that it closes. Fails if an answer is an error or does not come."""
    with open(kubeconfig, encoding="utf-8") as file:
        text = file.read()
    field = lambda name: re.search(rf"{name}: (\S+)", text).group(1)
    decoded = lambda name: base64.b64decode(field(name))
    context = ssl.create_default_context(cadata=decoded("certificate-authority-data").decode())
    with tempfile.NamedTemporaryFile() as own:
        own.write(decoded("client-certificate-data") + decoded("client-key-data"))
        own.flush()
        context.load_cert_chain(own.name)
    address = urllib.parse.urlsplit(field("server")).netloc
    connections = [http.client.HTTPSConnection(address, context=context, timeout=10) for _ in range(4)]
    done, failures = 0, []
    print("started", flush=True)
    while not os.path.exists(stop):
        for number, connection in enumerate(connections):
            name = f"load-{os.getpid()}-{number}-{done}"
            body = json.dumps({"metadata": {"name": name}})
            path = "/api/v1/namespaces/default/configmaps"
            for verb, place, sent, code in (("POST", path, body, 201), ("GET", f"{path}/{name}", None, 200)):
                try:
                    connection.request(verb, place, body=sent, headers={"Content-Type": "application/json"})
                    answer = connection.getresponse()
                    answer.read()
                    failure = None if answer.status == code else answer.status
                except (OSError, http.client.HTTPException) as error:
                    failure = repr(error)
                    connection.close()
                done += 1
                if failure:
                    failures.append(f"{verb} {place}: {failure}")
                    break
        time.sleep(0.02)
    print("\n".join(failures))
    print(f"{done} requests, {len(failures)} failed")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    VERBS = {verb.__name__: verb for verb in (reaches, rotation, alive, targets, expressions, load)}
    VERBS[sys.argv[1]](*sys.argv[2:])
