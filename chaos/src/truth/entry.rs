//! The content of a change of a key in etcd.

use etcd_client::{Event, EventType};
use serde_json::Value;

use crate::history::{FenceStamp, Key, LeaseState, Nanos, Revision, TruthEntry, payload_hash};
use crate::traffic::{ATTEMPT, COUNT};
use crate::world::FENCES;

/// The prefixes of objects, and the plurals that histories have for them: those that traffic is about.
const PLURALS: [(&str, &str); 3] = [
    ("configmaps", "configmaps"),
    ("podtemplates", "podtemplates"),
    ("leases", "leases.coordination.k8s.io"),
];
/// The prefix of names of leases by which servers show that they are there.
const IDENTITY: &str = "apiserver-";
const OBJECTS: &str = "/registry/";
/// The prefix of idempotency keys.
const WRITES: &str = "/trireme/writes/";

/// The change as a history has it; `None` if etcd left out what it is about.
pub(super) fn of(event: &Event, member: &str, at: Nanos) -> Option<TruthEntry> {
    let changed = event.kv()?;
    let path = String::from_utf8_lossy(changed.key()).into_owned();
    let entry = TruthEntry {
        member: member.to_owned(),
        revision: Revision::try_from(changed.mod_revision()).ok()?,
        key: key(&path),
        deleted: event.event_type() == EventType::Delete,
        at,
        path,
        ..TruthEntry::default()
    };
    Some(if entry.deleted {
        entry
    } else {
        described(entry, changed.value())
    })
}

fn key(path: &str) -> Key {
    let parts: Vec<&str> = path.strip_prefix(OBJECTS).unwrap_or_default().split('/').collect();
    let [folder, namespace, name] = parts[..] else {
        return Key::default();
    };
    match PLURALS.into_iter().find(|(known, _)| *known == folder) {
        Some((_, resource)) => Key {
            resource: resource.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        },
        None => Key::default(),
    }
}

fn described(entry: TruthEntry, value: &[u8]) -> TruthEntry {
    if let Some(duty) = entry.path.strip_prefix(FENCES) {
        let token = String::from_utf8_lossy(value).trim().parse().ok();
        let fence = token.map(|token| FenceStamp {
            duty: duty.to_owned(),
            token,
            raised: true,
            write: None,
        });
        return TruthEntry { fence, ..entry };
    }
    if entry.path.starts_with(WRITES) {
        let fence = stamp(&entry.path, &String::from_utf8_lossy(value));
        return TruthEntry { fence, ..entry };
    }
    let Ok(object) = serde_json::from_slice::<Value>(value) else {
        return entry;
    };
    let metadata = &object["metadata"];
    let annotation = |name: &str| metadata["annotations"][name].as_str();
    let labels = metadata["labels"].as_object().into_iter().flatten();
    let labels = labels.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())));
    TruthEntry {
        uid: metadata["uid"].as_str().unwrap_or_default().to_owned(),
        hash: payload_hash(&object),
        attempt: annotation(ATTEMPT).map(str::to_owned),
        counter: annotation(COUNT).and_then(|count| count.parse().ok()),
        labels: labels.collect(),
        lease: lease(&entry.key, &object),
        ..entry
    }
}

/// The trace that a write under a fence leaves in its idempotency key: `made <token> <where the key was before> <fence>`.
fn stamp(idempotency_key: &str, trace: &str) -> Option<FenceStamp> {
    let mut words = trace.strip_prefix("made ")?.split(' ');
    let (token, before, fence) = (words.next()?, words.next()?, words.next()?);
    Some(FenceStamp {
        duty: fence.strip_prefix(FENCES)?.to_owned(),
        token: token.parse().ok()?,
        raised: false,
        write: Some(format!("{idempotency_key} after {before}")),
    })
}

/// Identity leases are each their replica's own: they elect no leader.
fn lease(key: &Key, object: &Value) -> Option<LeaseState> {
    let spec = &object["spec"];
    let elects = key.resource == "leases.coordination.k8s.io" && !key.name.starts_with(IDENTITY);
    elects.then(|| LeaseState {
        holder: spec["holderIdentity"].as_str().unwrap_or_default().to_owned(),
        transitions: spec["leaseTransitions"].as_u64().unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(path: &str, value: &str) -> TruthEntry {
        let entry = TruthEntry {
            path: path.to_owned(),
            key: key(path),
            ..TruthEntry::default()
        };
        described(entry, value.as_bytes())
    }

    #[test]
    fn a_stored_object_says_which_write_it_is_of() {
        let stored = format!(
            r#"{{"metadata":{{"name":"c","namespace":"a","uid":"u","labels":{{"colour":"red"}},"annotations":{{"{ATTEMPT}":"x.1","{COUNT}":"4"}}}}}}"#
        );
        let entry = entry("/registry/configmaps/a/c", &stored);
        assert_eq!(
            (entry.key.resource.as_str(), entry.key.name.as_str()),
            ("configmaps", "c")
        );
        assert_eq!((entry.attempt.as_deref(), entry.counter), (Some("x.1"), Some(4)));
        assert_eq!((entry.uid.as_str(), entry.labels["colour"].as_str()), ("u", "red"));
    }

    #[test]
    fn fences_and_leases_are_distinguished_from_objects() {
        let fence = entry("/trireme/fence/registry/endpoints", "7").fence.expect("a fence");
        assert_eq!((fence.duty.as_str(), fence.token, fence.raised), ("endpoints", 7, true));
        let write = entry("/trireme/writes/1f/2", "made 7 41 /trireme/fence/registry/endpoints").fence;
        let expected = FenceStamp {
            duty: "endpoints".to_owned(),
            token: 7,
            raised: false,
            write: Some("/trireme/writes/1f/2 after 41".to_owned()),
        };
        assert_eq!(write, Some(expected));
        for not_under_a_fence in ["made", "refused", "made 7"] {
            assert_eq!(entry("/trireme/writes/1f/2", not_under_a_fence).fence, None);
        }
        let lease = entry(
            "/registry/leases/kube-system/l",
            r#"{"metadata":{},"spec":{"holderIdentity":"h","leaseTransitions":2}}"#,
        );
        assert_eq!(lease.lease.expect("a lease").transitions, 2);
        assert_eq!(entry("/registry/namespaces/a", "{}").key, Key::default());
    }
}
