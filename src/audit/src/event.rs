//! An event: what is recorded of a request at one stage, and its two written forms.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use trireme_machinery::go_text::quote;

use crate::{
    id::AuditId,
    level::{AuditLevel, AuditStage},
};

/// A user of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct EventUser {
    /// The name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub username: String,
    /// The uid.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The groups.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// Further annotations.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub extra: BTreeMap<String, Vec<String>>,
}

/// The object that a request is about.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectReference {
    /// The resource.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource: String,
    /// The namespace.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The uid, if the request names one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The API group.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_group: String,
    /// The version of the group.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    /// The revision, if the request names one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    /// The subresource.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub subresource: String,
}

/// The fields that all events of a request have.
#[derive(Debug, Clone)]
pub struct RequestFacts {
    /// The request.
    pub id: AuditId,
    /// The level of the record.
    pub level: AuditLevel,
    /// Path and query as they were sent.
    pub uri: String,
    /// The verb.
    pub verb: String,
    /// The authenticated user; empty before there is one.
    pub user: EventUser,
    /// The client's addresses, the last proxy at the end.
    pub source_ips: Vec<String>,
    /// `User-Agent`
    pub user_agent: String,
    /// The time at which it was received.
    pub received: Timestamp,
}

/// The record of a request at one stage.
#[derive(Debug, Clone)]
pub struct AuditEvent {
    /// The request.
    pub request: Arc<RequestFacts>,
    /// The stage.
    pub stage: AuditStage,
    /// The time at which it was reached.
    pub reached: Timestamp,
    /// In whose name the request goes on, if not in that of its user.
    pub impersonated: Option<EventUser>,
    /// The verb of the constrained mode that allowed that, if there was one.
    pub impersonation_constraint: Option<String>,
    /// The object.
    pub object: Option<ObjectReference>,
    /// The outcome as a `Status`.
    pub status: Option<Value>,
    /// The body of the request as JSON.
    pub request_object: Option<Bytes>,
    /// The body of the answer as JSON.
    pub response_object: Option<Bytes>,
    /// Notes of filters and of admission.
    pub annotations: BTreeMap<String, String>,
}

/// The beginning of an event that says itself of what kind it is.
const TYPE_META: &[u8] = br#""kind":"Event","apiVersion":"audit.k8s.io/v1","#;

/// The fields before the bodies, in the order of kube-apiserver.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EventHead<'a> {
    level: AuditLevel,
    #[serde(rename = "auditID")]
    audit_id: &'a str,
    stage: AuditStage,
    #[serde(rename = "requestURI")]
    request_uri: &'a str,
    verb: &'a str,
    user: &'a EventUser,
    #[serde(skip_serializing_if = "Option::is_none")]
    impersonated_user: Option<&'a EventUser>,
    #[serde(skip_serializing_if = "Option::is_none")]
    authentication_metadata: Option<AuthenticationMetadata<'a>>,
    #[serde(rename = "sourceIPs", skip_serializing_if = "<[_]>::is_empty")]
    source_ips: &'a [String],
    #[serde(skip_serializing_if = "str::is_empty")]
    user_agent: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    object_ref: Option<&'a ObjectReference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_status: Option<&'a Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AuthenticationMetadata<'a> {
    impersonation_constraint: &'a str,
}

/// The fields after them.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EventTail<'a> {
    request_received_timestamp: String,
    stage_timestamp: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    annotations: &'a BTreeMap<String, String>,
}

impl AuditEvent {
    /// Writes the event as an object of `audit.k8s.io/v1`, without a line break.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        self.write(TYPE_META, out);
    }

    /// Writes the event as an item of a list, which says of what kind its items are.
    pub(crate) fn write_item(&self, out: &mut Vec<u8>) {
        self.write(b"", out);
    }

    fn write(&self, type_meta: &[u8], out: &mut Vec<u8>) {
        let request = &*self.request;
        let head = EventHead {
            level: request.level,
            audit_id: request.id.as_str(),
            stage: self.stage,
            request_uri: &request.uri,
            verb: &request.verb,
            user: &request.user,
            impersonated_user: self.impersonated.as_ref(),
            authentication_metadata: self
                .impersonation_constraint
                .as_deref()
                .map(|impersonation_constraint| AuthenticationMetadata {
                    impersonation_constraint,
                }),
            source_ips: &request.source_ips,
            user_agent: &request.user_agent,
            object_ref: self.object.as_ref(),
            response_status: self.status.as_ref(),
        };
        out.push(b'{');
        out.extend_from_slice(type_meta);
        write_fields(out, &head);
        for (name, body) in [
            ("requestObject", &self.request_object),
            ("responseObject", &self.response_object),
        ] {
            if let Some(body) = body {
                out.extend_from_slice(format!(",\"{name}\":").as_bytes());
                out.extend_from_slice(body);
            }
        }
        out.push(b',');
        let tail = EventTail {
            request_received_timestamp: micro_time(request.received),
            stage_timestamp: micro_time(self.reached),
            annotations: &self.annotations,
        };
        write_fields(out, &tail);
        out.push(b'}');
    }

    /// The event as one line for people, of some of its fields.
    pub fn legacy_line(&self) -> String {
        let request = &*self.request;
        let or = |text: &str, otherwise: &str| quote(if text.is_empty() { otherwise } else { text });
        let groups = |groups: &[String], otherwise: &str| match groups {
            [] => quote(otherwise),
            groups => {
                let quoted: Vec<String> = groups.iter().map(|group| quote(group)).collect();
                quote(&quoted.join(","))
            }
        };
        let user_groups: &[String] = if request.user.username.is_empty() {
            &[]
        } else {
            &request.user.groups
        };
        let (as_user, as_groups) = match &self.impersonated {
            Some(user) => (quote(&user.username), groups(&user.groups, "<lookup>")),
            None => (quote("<self>"), quote("<lookup>")),
        };
        let namespace = self.object.as_ref().map_or("", |object| object.namespace.as_str());
        let code = self.status.as_ref().and_then(|status| status.get("code"));
        format!(
            "{} AUDIT: id={} stage={} ip={} method={} user={} groups={} as={as_user} asgroups={as_groups} \
             user-agent={} namespace={} uri={} response=\"{}\"",
            request.received,
            quote(request.id.as_str()),
            quote(self.stage.name()),
            or(request.source_ips.first().map_or("", String::as_str), "<unknown>"),
            quote(&request.verb),
            or(&request.user.username, "<none>"),
            groups(user_groups, "<none>"),
            quote(&request.user_agent),
            or(namespace, "<none>"),
            quote(&request.uri),
            code.map_or_else(|| "<deferred>".to_owned(), ToString::to_string),
        )
    }
}

/// Writes fields without the braces around them.
fn write_fields(out: &mut Vec<u8>, fields: &impl Serialize) {
    let begin = out.len();
    serde_json::to_writer(&mut *out, fields).expect("texts, lists and maps of texts are JSON");
    out.remove(begin);
    out.pop();
}

/// A time as `metav1.MicroTime` prints it.
fn micro_time(at: Timestamp) -> String {
    format!("{at:.6}")
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;

    use super::*;

    pub(crate) fn event(stage: AuditStage) -> AuditEvent {
        AuditEvent {
            request: Arc::new(RequestFacts {
                id: AuditId::from_client(Some(b"id")),
                level: AuditLevel::Request,
                uri: "/api/v1/namespaces/n/configmaps?x=\"".to_owned(),
                verb: "create".to_owned(),
                user: EventUser {
                    username: "admin".to_owned(),
                    groups: vec!["a".to_owned(), "b".to_owned()],
                    ..EventUser::default()
                },
                source_ips: vec!["10.0.0.1".to_owned()],
                user_agent: "tool".to_owned(),
                received: Timestamp::from_microsecond(1_500_000).expect("it is in range"),
            }),
            stage,
            reached: Timestamp::from_microsecond(2_000_001).expect("it is in range"),
            impersonated: None,
            impersonation_constraint: None,
            object: Some(ObjectReference {
                resource: "configmaps".to_owned(),
                namespace: "n".to_owned(),
                api_version: "v1".to_owned(),
                ..ObjectReference::default()
            }),
            status: None,
            request_object: None,
            response_object: None,
            annotations: BTreeMap::new(),
        }
    }

    #[test]
    fn an_event_is_an_object_of_the_api() {
        let mut event = event(AuditStage::ResponseComplete);
        event.status = Some(json!({"metadata": {}, "code": 201}));
        event.request_object = Some(Bytes::from_static(br#"{"a":1}"#));
        event.annotations.insert("k".to_owned(), "v".to_owned());
        let mut written = Vec::new();
        event.write_json(&mut written);
        let read: Value = serde_json::from_slice(&written).expect("it is JSON");
        assert_eq!(
            read,
            json!({
                "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Request", "auditID": "id",
                "stage": "ResponseComplete", "requestURI": "/api/v1/namespaces/n/configmaps?x=\"", "verb": "create",
                "user": {"username": "admin", "groups": ["a", "b"]}, "sourceIPs": ["10.0.0.1"], "userAgent": "tool",
                "objectRef": {"resource": "configmaps", "namespace": "n", "apiVersion": "v1"},
                "responseStatus": {"metadata": {}, "code": 201}, "requestObject": {"a": 1},
                "requestReceivedTimestamp": "1970-01-01T00:00:01.500000Z",
                "stageTimestamp": "1970-01-01T00:00:02.000001Z", "annotations": {"k": "v"},
            })
        );
    }

    #[test]
    fn the_legacy_line_is_that_of_kube_apiserver() {
        let mut event = event(AuditStage::RequestReceived);
        assert_eq!(
            event.legacy_line(),
            "1970-01-01T00:00:01.5Z AUDIT: id=\"id\" stage=\"RequestReceived\" ip=\"10.0.0.1\" method=\"create\" \
             user=\"admin\" groups=\"\\\"a\\\",\\\"b\\\"\" as=\"<self>\" asgroups=\"<lookup>\" user-agent=\"tool\" \
             namespace=\"n\" uri=\"/api/v1/namespaces/n/configmaps?x=\\\"\" response=\"<deferred>\""
        );
        event.impersonated = Some(EventUser {
            username: "carol".to_owned(),
            ..EventUser::default()
        });
        event.status = Some(json!({"code": 403}));
        let line = event.legacy_line();
        assert!(line.contains(" as=\"carol\" asgroups=\"<lookup>\" "), "{line}");
        assert!(line.ends_with(" response=\"403\""), "{line}");
    }
}
