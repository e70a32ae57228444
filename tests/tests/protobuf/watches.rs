//! Watches in protobuf: frames of a length and an event.

use serde_json::{Value, json};
use trireme_tests::{
    Server, StoreChoice,
    group::until,
    http::{Answer, Client},
    server::COMPACTS_OFTEN,
    websocket::{Received, Socket},
};

use crate::client::{
    CONFIGMAPS, METADATA, PATIENCE, PROTOBUF, WIDGETS, body, config_map, create, decoded, define_widgets, encoded,
    media_type, send,
};

const STREAM: &str = "application/vnd.kubernetes.protobuf;stream=watch";

/// The events of a stream, as JSON, each of which encodes to the frame that it came in.
fn events(mut stream: &[u8]) -> Vec<(String, Value)> {
    let mut events = Vec::new();
    while let Some((length, rest)) = stream.split_first_chunk() {
        let length = usize::try_from(u32::from_be_bytes(*length)).expect("frames are short");
        let (frame, rest) = rest.split_at(length);
        events.push(event(frame));
        stream = rest;
    }
    assert!(stream.is_empty(), "the stream ends within a frame");
    events
}

fn event(frame: &[u8]) -> (String, Value) {
    let fields = trireme_registry::protobuf_fields::fields(frame);
    let field = |tag| trireme_registry::protobuf_fields::only(&fields, tag);
    let kind = String::from_utf8(field(1).to_vec()).expect("the type is text");
    let raw = trireme_registry::protobuf_fields::fields(field(2));
    let enveloped = trireme_registry::protobuf_fields::only(&raw, 1);
    let object = decoded(enveloped);
    assert_eq!(encoded(&object), enveloped, "{object}");
    (kind, object)
}

/// A watch that ends soon, and the number of events that it has at least. A busy server may end it before it has sent them; then it
/// is asked for again.
struct ShortWatch {
    path: String,
    least: usize,
}

impl ShortWatch {
    fn new(collection: &str, query: &str, least: usize) -> Self {
        Self {
            path: format!("{collection}?watch=1&timeoutSeconds=1&{query}"),
            least,
        }
    }

    fn ask(
        &self,
        client: &Client,
        accept: &str,
        read: impl Fn(&Answer) -> Vec<(String, Value)>,
    ) -> Vec<(String, Value)> {
        let mut seen = Vec::new();
        until("the events come", PATIENCE, || {
            let answer = send(client, "GET", &self.path, accept, None);
            assert_eq!(answer.code, 200, "{}", self.path);
            seen = read(&answer);
            seen.len() >= self.least
        });
        seen
    }

    /// A watch to its end.
    fn watch(&self, client: &Client, accept: &str) -> Vec<(String, Value)> {
        self.ask(client, accept, |answer| {
            assert_eq!(media_type(answer), STREAM, "{accept}");
            events(body(answer))
        })
    }

    /// The same in JSON.
    fn watch_json(&self, client: &Client, accept: &str) -> Vec<(String, Value)> {
        self.ask(client, accept, |answer| {
            let lines = answer.text();
            let events = lines
                .lines()
                .map(|line| serde_json::from_str(line).expect("a line is JSON"));
            events
                .map(|mut event: Value| {
                    let kind = event["type"].as_str().unwrap_or_default().to_owned();
                    (kind, event["object"].take())
                })
                .collect()
        })
    }
}

#[test]
fn events_are_the_same_in_protobuf_and_in_json() {
    let mut server = Server::try_start(StoreChoice::Embedded, &[COMPACTS_OFTEN]).expect("it starts");
    let client = server.client();
    let before = create(&client, CONFIGMAPS, &config_map("before"));
    let from = before["metadata"]["resourceVersion"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let mut object = create(&client, CONFIGMAPS, &config_map("one"));
    object["data"] = json!({"a": "2"});
    let path = format!("{CONFIGMAPS}/one");
    client.json("PUT", &path, &object).expect("an answer");
    client.json("DELETE", &path, &json!({})).expect("an answer");
    events_arrive_in_protobuf(&client, &from);
    a_selector_tells_of_coming_and_going(&client, &from);
    the_state_comes_first_and_its_end_is_marked(&client);
    a_websocket_has_messages_without_lengths(&client, &from);
    a_watch_may_begin_with_the_state_as_tables(&client);
    define_widgets(&server);
    metadata_of_custom_resources_are_watched(&client);
    server.forget(CONFIGMAPS, &from);
    errors_arrive_within_the_stream(&server.client(), &from);
}

fn events_arrive_in_protobuf(client: &Client, from: &str) {
    let changes = ShortWatch::new(CONFIGMAPS, &format!("resourceVersion={from}"), 3);
    let seen = changes.watch(client, PROTOBUF);
    let kinds: Vec<&str> = seen.iter().map(|(kind, _)| kind.as_str()).collect();
    assert_eq!(kinds, ["ADDED", "MODIFIED", "DELETED"]);
    assert_eq!(seen, changes.watch_json(client, "application/json"));
    assert_eq!(seen, changes.watch(client, STREAM));
    assert_eq!(seen, changes.watch(client, &format!("{PROTOBUF},application/json")));
    let metadata = changes.watch(client, METADATA);
    let as_json = METADATA.replace(PROTOBUF, "application/json");
    assert_eq!(metadata, changes.watch_json(client, &as_json));
}

fn a_selector_tells_of_coming_and_going(client: &Client, from: &str) {
    let mut object = create(client, CONFIGMAPS, &config_map("goes"));
    let path = format!("{CONFIGMAPS}/goes");
    for label in ["other", "protobuf"] {
        object["metadata"]["labels"]["test"] = label.into();
        let fields = object["metadata"].as_object_mut().expect("it has metadata");
        fields.remove("resourceVersion");
        client.json("PUT", &path, &object).expect("an answer");
    }
    let query = format!("resourceVersion={from}&labelSelector=test%3Dprotobuf&fieldSelector=metadata.name%3Dgoes");
    let changes = ShortWatch::new(CONFIGMAPS, &query, 3);
    let seen = changes.watch(client, PROTOBUF);
    let kinds: Vec<&str> = seen.iter().map(|(kind, _)| kind.as_str()).collect();
    assert_eq!(kinds, ["ADDED", "DELETED", "ADDED"]);
    assert_eq!(seen, changes.watch_json(client, "application/json"));
}

fn the_state_comes_first_and_its_end_is_marked(client: &Client) {
    let query = "sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&\
                 fieldSelector=metadata.name%3Dbefore";
    let state = ShortWatch::new(CONFIGMAPS, query, 2);
    for accept in [PROTOBUF, METADATA] {
        let seen = state.watch(client, accept);
        let kinds: Vec<&str> = seen.iter().map(|(kind, _)| kind.as_str()).collect();
        assert_eq!(kinds, ["ADDED", "BOOKMARK"]);
        let annotations = &seen[1].1["metadata"]["annotations"];
        assert_eq!(annotations, &json!({"k8s.io/initial-events-end": "true"}));
        let json = state.watch_json(client, &accept.replace(PROTOBUF, "application/json"));
        assert_eq!(seen[0], json[0]);
        assert_eq!(seen[1].1["kind"], json[1].1["kind"]);
    }
}

fn errors_arrive_within_the_stream(client: &Client, from: &str) {
    let gone = ShortWatch::new(CONFIGMAPS, &format!("resourceVersion={from}"), 1);
    let seen = gone.watch(client, PROTOBUF);
    let [(kind, status)] = &*seen else {
        panic!("one event reports it: {seen:?}")
    };
    assert_eq!(
        (kind.as_str(), &status["code"], &status["reason"]),
        ("ERROR", &json!(410), &json!("Expired"))
    );
}

fn a_websocket_has_messages_without_lengths(client: &Client, from: &str) {
    let path = format!("{CONFIGMAPS}?watch=1&timeoutSeconds=5&resourceVersion={from}");
    let mut socket = Socket::open(client, &path, &[("accept", PROTOBUF)]).expect("upgraded");
    match socket.receive() {
        Received::Bytes(bytes) => assert_eq!(event(&bytes).0, "ADDED"),
        other => panic!("not in protobuf: {other:?}"),
    }
    socket.close();
}

/// Tables have no protobuf form; the watch that begins with the state has them in JSON.
fn a_watch_may_begin_with_the_state_as_tables(client: &Client) {
    let table = "application/json;as=Table;g=meta.k8s.io;v=v1";
    let state = "sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan";
    for include in ["Metadata", "None", "Object"] {
        let tables = ShortWatch::new(CONFIGMAPS, &format!("{state}&includeObject={include}"), 3);
        let seen = tables.watch_json(client, table);
        let (mark, objects) = seen.split_last().expect("there are events");
        assert_eq!((mark.0.as_str(), objects.len()), ("BOOKMARK", 2));
        for (place, (kind, object)) in seen.iter().enumerate() {
            assert_eq!(
                (&object["kind"], object["rows"].as_array().map(Vec::len)),
                (&json!("Table"), Some(1)),
                "{kind}"
            );
            assert_eq!(object["columnDefinitions"].is_array(), place == 0, "headings come once");
        }
        let shown = if include == "Object" {
            "ConfigMap"
        } else {
            "PartialObjectMetadata"
        };
        let row = &mark.1["rows"][0]["object"];
        assert_eq!(row["kind"], shown, "the mark is in the row, whatever is asked for");
        assert_eq!(row["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
        let expected = if include == "None" { Value::Null } else { shown.into() };
        assert_eq!(objects[1].1["rows"][0]["object"]["kind"], expected);
    }
    let query = format!("{CONFIGMAPS}?watch=1&{state}");
    let refused = send(
        client,
        "GET",
        &query,
        &table.replace("application/json", PROTOBUF),
        None,
    );
    assert_eq!(refused.code, 406);
}

fn metadata_of_custom_resources_are_watched(client: &Client) {
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "size": 1});
    create(client, WIDGETS, &widget);
    let seen = ShortWatch::new(WIDGETS, "resourceVersion=0", 1).watch(client, METADATA);
    assert_eq!(seen.len(), 1);
    assert_eq!(
        (&seen[0].1["kind"], &seen[0].1["metadata"]["name"]),
        (&json!("PartialObjectMetadata"), &json!("w"))
    );
}
