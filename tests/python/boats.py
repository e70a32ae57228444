"""An operator of kopf for boats; `test_operator.py` runs it with `kopf run`.

It uses what kopf has: handlers of creation, update and deletion, retries, daemons, timers, indices, peering, events of
its own, and admission webhooks whose configurations kopf keeps itself. `BOATS_CERT` and `BOATS_KEY` are the files of the
webhooks' certificate, `BOATS_CA` that of its CA, `BOATS_PORT` is the port, `BOATS_NOTES` a folder for notes to the test.
"""

import os

import kopf


def note(what, name):
    """Tells the test, which looks for the file."""
    with open(os.path.join(os.environ["BOATS_NOTES"], f"{what}-{name}"), "w"):
        pass


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_):
    settings.peering.name = "boats"
    settings.peering.mandatory = True
    settings.peering.priority = 100
    settings.persistence.finalizer = "example.com/boats"
    settings.posting.enabled = True
    # Seconds until a deletion that found a timer running is looked at again; 60 by default.
    settings.background.cancellation_polling = 1
    settings.admission.managed = "auto.example.com"
    settings.admission.server = kopf.WebhookServer(
        addr="127.0.0.1",
        host="127.0.0.1",
        port=int(os.environ["BOATS_PORT"]),
        certfile=os.environ["BOATS_CERT"],
        pkeyfile=os.environ["BOATS_KEY"],
        cafile=os.environ["BOATS_CA"],
    )


@kopf.index("boats")
def by_colour(spec, name, **_):
    return {spec.get("colour"): name}


@kopf.on.create("boats")
def created(spec, patch, body, by_colour: kopf.Index, **_):
    kopf.info(body, reason="Built", message="a boat was built")
    patch.status["sisters"] = sorted(by_colour.get(spec.get("colour"), []))
    return {"colour": spec.get("colour")}


@kopf.on.create("boats")
def retried(retry, **_):
    if retry < 2:
        raise kopf.TemporaryError("not yet", delay=0.1)
    return {"tries": retry}


@kopf.on.create("boats", labels={"leaks": "yes"})
def leaking(body, **_):
    kopf.warn(body, reason="Leak", message="water in the hold")
    raise kopf.PermanentError("it leaks for good")


@kopf.on.update("boats")
def updated(diff, **_):
    return {"changes": len(diff)}


@kopf.on.field("boats", field="spec.size")
def resized(old, new, **_):
    return {"from": old, "to": new}


@kopf.on.delete("boats")
def deleted(name, **_):
    note("gone", name)


@kopf.daemon("boats", labels={"crewed": "yes"}, cancellation_timeout=1.0)
async def crew(name, stopped, **_):
    note("aboard", name)
    while not stopped:
        await stopped.wait(1)
    note("ashore", name)


@kopf.timer("boats", interval=0.2, labels={"ticking": "yes"})
def tick(memo, patch, **_):
    memo.ticks = memo.get("ticks", 0) + 1
    patch.status["ticks"] = memo.ticks


@kopf.on.validate("boats", id="size")
def validate(spec, warnings, **_):
    if spec.get("size", 0) > 100:
        raise kopf.AdmissionError("too large", code=422)
    if spec.get("size", 0) > 50:
        warnings.append("rather large")


@kopf.on.mutate("boats", id="paint")
def paint(spec, patch, **_):
    if "colour" not in spec:
        patch.spec["colour"] = "grey"
