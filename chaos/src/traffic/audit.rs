//! The audit logs of all replicas, read when all is over.

use std::fs;
use std::io;
use std::path::Path;

use serde_json::Value;

use super::{Addresses, Desk};
use crate::history::AuditRecord;
use crate::world::World;

/// The beginning of every line. A process that is killed may leave one without its end, and the next life goes on behind it.
const BEGIN: &str = "{\"kind\":\"Event\"";

/// Records the events about writes of all replicas, over all their lives.
///
/// # Errors
/// In words, if a log cannot be read.
pub fn record_audit(desk: &Desk, world: &World, addresses: &Addresses) -> Result<(), String> {
    for (index, replica) in addresses.replica_names().iter().enumerate() {
        let log = world.audit_log(index).map_err(|error| error.to_string())?;
        let text = read_all(&log).map_err(|error| format!("read the audit log {}: {error}", log.display()))?;
        let events = text.lines().filter_map(|line| event(replica, line));
        events.for_each(|event| desk.recorder.audit(&event));
    }
    Ok(())
}

/// A log with those that were rotated away: `NAME.log`, `NAME-TIME.log`.
fn read_all(log: &Path) -> io::Result<String> {
    let stem = log.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let mut text = String::new();
    for file in fs::read_dir(log.parent().unwrap_or(log))? {
        let path = file?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with(&stem) && name.ends_with(".log") {
            text.push_str(&String::from_utf8_lossy(&fs::read(&path)?));
        }
    }
    Ok(text)
}

/// The event in a line, if it is of the last stage.
fn event(replica: &str, line: &str) -> Option<AuditRecord> {
    let event: Value = serde_json::from_str(line.get(line.rfind(BEGIN)?..)?).ok()?;
    if event["stage"] != "ResponseComplete" {
        return None;
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let object = &event["objectRef"];
    let resource = match object["apiGroup"].as_str() {
        None | Some("") => text(&object["resource"]),
        Some(group) => format!("{}.{group}", text(&object["resource"])),
    };
    Some(AuditRecord {
        replica: replica.to_owned(),
        id: text(&event["auditID"]),
        user: text(&event["user"]["username"]),
        verb: text(&event["verb"]),
        resource,
        namespace: text(&object["namespace"]),
        name: text(&object["name"]),
        code: event["responseStatus"]["code"].as_u64()?.try_into().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"client-1.7","stage":"ResponseComplete","requestURI":"/apis/coordination.k8s.io/v1/namespaces/a/leases/l","verb":"update","user":{"username":"admin"},"objectRef":{"resource":"leases","namespace":"a","name":"l","apiGroup":"coordination.k8s.io","apiVersion":"v1"},"responseStatus":{"metadata":{},"code":200}}"#;

    #[test]
    fn an_event_is_read_also_behind_one_that_has_no_end() {
        let expected = AuditRecord {
            replica: "r".to_owned(),
            id: "client-1.7".to_owned(),
            user: "admin".to_owned(),
            verb: "update".to_owned(),
            resource: "leases.coordination.k8s.io".to_owned(),
            namespace: "a".to_owned(),
            name: "l".to_owned(),
            code: 200,
        };
        assert_eq!(event("r", LINE).as_ref(), Some(&expected));
        let torn = format!("{}{LINE}", &LINE[..LINE.len() / 2]);
        assert_eq!(event("r", &torn).as_ref(), Some(&expected));
        assert_eq!(event("r", &LINE[..LINE.len() / 2]), None);
        let received = LINE.replace("ResponseComplete", "RequestReceived");
        assert_eq!(event("r", &received), None);
    }
}
