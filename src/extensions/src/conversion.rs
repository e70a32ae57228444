//! Conversion between the versions of a custom resource by a webhook (`apiserver/conversion`).
//!
//! One call converts as many objects as there are, over pooled connections. What comes back is held to being the same
//! objects: the webhook may change what it likes but the identity, and of the metadata labels and annotations alone.

use std::{sync::Arc, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use trireme_http::client::{
    Client, ClientTls, Endpoint, Method, OutboundBody, OutboundCall, RemoteAnswer, Request, TlsOptions, Trust, Uri,
    header::CONTENT_TYPE,
};
use trireme_machinery::{ApiError, GroupVersion, webhook_address::WebhookAddress, webhook_answer::read_answer};
use trireme_registry::{Converter, ServiceResolver};

use crate::{object_schema::VersionSchema, resource::ConverterSource};

/// How long a call may take, as in kube-apiserver.
const PATIENCE: Duration = Duration::from_secs(30);
/// A page of objects, and what a webhook may add to it.
const MOST_BYTES: u64 = 256 * 1024 * 1024;
const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];

/// Makes converters that call webhooks.
pub(crate) struct ConversionWebhooks {
    pub(crate) client: Client,
    /// The services that webhooks may be behind.
    pub(crate) services: ServiceResolver,
}

/// A webhook that converts.
struct ConversionWebhook {
    client: Client,
    services: ServiceResolver,
    address: WebhookAddress,
    tls: Arc<ClientTls>,
    review_version: &'static str,
    schemas: Vec<(GroupVersion, Arc<VersionSchema>)>,
}

/// The settings of connections to the webhook of a client config.
fn client_tls(config: &Value) -> Result<Arc<ClientTls>, String> {
    let trust = match config.get("caBundle").and_then(Value::as_str) {
        None | Some("") => Trust::System,
        Some(bundle) => Trust::Ca(STANDARD.decode(bundle).map_err(|error| error.to_string())?),
    };
    let options = TlsOptions {
        trust,
        ..TlsOptions::default()
    };
    ClientTls::new(&options).map_err(|error| error.to_string())
}

/// Reports whether the certificates that a definition's webhook is to be verified by cannot be read.
pub(crate) fn has_invalid_ca_bundle(definition: &Value) -> bool {
    let config = definition.pointer("/spec/conversion/webhook/clientConfig");
    let config = config.filter(|config| config["caBundle"].as_str().is_some_and(|bundle| !bundle.is_empty()));
    config.is_some_and(|config| client_tls(config).is_err())
}

impl ConverterSource for ConversionWebhooks {
    fn converter(
        &self,
        definition: &Value,
        schemas: Vec<(GroupVersion, Arc<VersionSchema>)>,
    ) -> Result<Arc<dyn Converter>, String> {
        let webhook = definition
            .pointer("/spec/conversion/webhook")
            .ok_or("the conversion names no webhook")?;
        let config = webhook.get("clientConfig").unwrap_or(&Value::Null);
        let address = WebhookAddress::read(config)?;
        let wanted = webhook.get("conversionReviewVersions").and_then(Value::as_array);
        let mut wanted = wanted.into_iter().flatten().filter_map(Value::as_str);
        let known = wanted.find_map(|version| REVIEW_VERSIONS.into_iter().find(|known| *known == version));
        Ok(Arc::new(ConversionWebhook {
            client: self.client.clone(),
            services: self.services.clone(),
            address,
            tls: client_tls(config)?,
            review_version: known.ok_or("the webhook knows no version of reviews that this server knows")?,
            schemas,
        }))
    }
}

impl ConversionWebhook {
    /// The server to call.
    async fn endpoint(&self) -> Result<Endpoint, String> {
        let endpoint = Endpoint::parse(&self.address.origin()).map_err(|error| error.to_string())?;
        let WebhookAddress::Service {
            namespace, name, port, ..
        } = &self.address
        else {
            return Ok(endpoint);
        };
        let (host, port) = self.services.resolve(namespace, name, *port).await?;
        Ok(endpoint.dialed_at(host, port))
    }

    /// Sends a review and gives back the answer to it.
    async fn review(&self, review: &Value) -> Result<Value, String> {
        let endpoint = self.endpoint().await?;
        let path = format!("{}?timeout=30s", self.address.path());
        let failed = |why: String| format!("Post \"{}{path}\": {why}", self.address.origin());
        let mut request = Request::new(OutboundBody::from(bytes::Bytes::from(review.to_string())));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = path.parse::<Uri>().map_err(|error| failed(error.to_string()))?;
        let json = trireme_http::client::HeaderValue::from_static("application/json");
        request.headers_mut().insert(CONTENT_TYPE, json);
        let call = OutboundCall {
            tls: Some(self.tls.clone()),
            timeout: Some(PATIENCE),
            max_body_bytes: Some(MOST_BYTES),
            ..OutboundCall::new(endpoint.clone(), request)
        };
        let response = self
            .client
            .send(call)
            .await
            .map_err(|error| failed(error.as_net_http(&endpoint)))?;
        let answer = RemoteAnswer::read(response).await;
        let answer = answer.map_err(|error| failed(error.as_net_http(&endpoint)))?;
        read_answer(answer.code, &answer.content_type, &answer.body).map_err(|error| error.message)
    }

    async fn call(&self, objects: Vec<Value>, to: &GroupVersion) -> Result<Vec<Value>, String> {
        let uid = uuid::Uuid::new_v4().to_string();
        let sent: Vec<Value> = objects.iter().map(without_revision).collect();
        let review = json!({
            "kind": "ConversionReview",
            "apiVersion": format!("apiextensions.k8s.io/{}", self.review_version),
            "request": { "uid": uid, "desiredAPIVersion": to.to_string(), "objects": sent },
            "response": { "uid": "", "convertedObjects": null, "result": { "metadata": {} } },
        });
        let answer = self.review(&review).await.map_err(|why| format!("failed: {why}"))?;
        let mut converted = converted_objects(&answer, &uid, self.review_version, &objects, to)?;
        if let Some((_, schema)) = self.schemas.iter().find(|(version, _)| version == to) {
            // Defaults are those of the version of a request, and of that in the store.
            for object in &mut converted {
                schema.prune(object);
            }
        }
        Ok(converted)
    }
}

/// The objects that were sent, as an answer converts them.
pub(crate) fn converted_objects(
    answer: &Value,
    uid: &str,
    review_version: &str,
    objects: &[Value],
    to: &GroupVersion,
) -> Result<Vec<Value>, String> {
    let converted = objects_of(answer, uid, review_version).map_err(|why| format!("failed: {why}"))?;
    if converted.len() != objects.len() {
        return Err(format!(
            "returned {} objects, expected {}",
            converted.len(),
            objects.len()
        ));
    }
    let mut checked = Vec::with_capacity(converted.len());
    for (index, (mut object, original)) in converted.into_iter().zip(objects).enumerate() {
        validate_kind(original, &object, to)
            .map_err(|why| format!("returned invalid object at index {index}: {why}"))?;
        validate_converted(original, &mut object).map_err(|why| format!("returned invalid object: {why}"))?;
        checked.push(object);
    }
    Ok(checked)
}

/// The objects of an answer, if it is one to the review of this uid.
fn objects_of(answer: &Value, uid: &str, review_version: &str) -> Result<Vec<Value>, String> {
    let response = answer.get("response").filter(|response| response.is_object());
    let response = response.ok_or("no response provided")?;
    let given = response.get("uid").and_then(Value::as_str).unwrap_or_default();
    if review_version == "v1" && given != uid {
        return Err(format!("expected response.uid={uid:?}, got {given:?}"));
    }
    let result = response.get("result").unwrap_or(&Value::Null);
    let text = |name: &str| result.get(name).and_then(Value::as_str).unwrap_or_default();
    match (text("status"), text("message")) {
        ("Success", _) => {}
        ("Failure", message) if !message.is_empty() => return Err(message.to_owned()),
        (status, "") => return Err(format!("response.result.status was '{status}', not 'Success'")),
        (_, message) => return Err(message.to_owned()),
    }
    let objects = response.get("convertedObjects").and_then(Value::as_array);
    Ok(objects.cloned().unwrap_or_default())
}

fn text(object: &Value, pointer: &str) -> String {
    let text = object.pointer(pointer).and_then(Value::as_str);
    text.unwrap_or_default().to_owned()
}

/// An object as it is stored.
fn without_revision(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("resourceVersion");
    }
    object
}

/// Holds a converted object to being of the version that was asked for.
fn validate_kind(original: &Value, converted: &Value, to: &GroupVersion) -> Result<(), String> {
    let (expected, received) = (to.to_string(), text(converted, "/apiVersion"));
    if expected != received {
        return Err(format!(
            "invalid groupVersion (expected {expected}, received {received})"
        ));
    }
    let (expected, received) = (text(original, "/kind"), text(converted, "/kind"));
    if expected != received {
        return Err(format!("invalid kind (expected {expected}, received {received})"));
    }
    Ok(())
}

/// Holds a converted object to being the one that was sent, and gives it back the metadata that no webhook may change.
fn validate_converted(original: &Value, converted: &mut Value) -> Result<(), String> {
    for (name, pointer) in [
        ("name", "/metadata/name"),
        ("namespace", "/metadata/namespace"),
        ("UID", "/metadata/uid"),
    ] {
        let (expected, received) = (text(original, pointer), text(converted, pointer));
        if expected != received {
            return Err(format!("must have the same {name}: {expected} != {received}"));
        }
    }
    let given = converted
        .get("metadata")
        .cloned()
        .ok_or("missing metadata in converted object")?;
    if !given.is_object() {
        return Err("invalid metadata in converted object".to_owned());
    }
    let mut metadata = original.get("metadata").cloned().unwrap_or_else(|| json!({}));
    for name in ["labels", "annotations"] {
        let Some(fields) = metadata.as_object_mut() else {
            continue;
        };
        match given.get(name).filter(|value| !value.is_null()) {
            None => fields.remove(name),
            Some(Value::Object(entries)) if entries.values().all(Value::is_string) => {
                fields.insert(name.to_owned(), Value::Object(entries.clone()))
            }
            Some(_) => return Err(format!("invalid metadata.{name} in converted object")),
        };
    }
    converted["metadata"] = metadata;
    Ok(())
}

impl Converter for ConversionWebhook {
    fn convert<'a>(
        &'a self,
        objects: Vec<Value>,
        from: &'a GroupVersion,
        to: &'a GroupVersion,
    ) -> BoxFuture<'a, Result<Vec<Value>, ApiError>> {
        Box::pin(async move {
            if objects.is_empty() {
                return Ok(objects);
            }
            let kind = objects
                .first()
                .and_then(|object| object["kind"].as_str())
                .unwrap_or_default();
            let kind = format!("{from}, Kind={kind}");
            self.call(objects, to)
                .await
                .map_err(|why| ApiError::unspecified(format!("conversion webhook for {kind} {why}")))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_webhook_changes_labels_and_annotations_of_the_metadata_alone() {
        let original = json!({"apiVersion": "g/v1", "kind": "K", "metadata": {
            "name": "n", "uid": "u", "labels": {"a": "b"}, "finalizers": ["f"],
        }});
        let to = GroupVersion::new("g", "v2");
        let mut converted = json!({"apiVersion": "g/v2", "kind": "K", "metadata": {
            "name": "n", "uid": "u", "annotations": {"x": "y"}, "finalizers": [],
        }});
        validate_kind(&original, &converted, &to).expect("it is of the kind");
        validate_converted(&original, &mut converted).expect("it is the same object");
        let metadata = json!({"name": "n", "uid": "u", "annotations": {"x": "y"}, "finalizers": ["f"]});
        assert_eq!(converted["metadata"], metadata);
        for (pointer, value) in [("/metadata/uid", "v"), ("/kind", "L"), ("/apiVersion", "g/v1")] {
            let mut other = converted.clone();
            *other.pointer_mut(pointer).expect("it is there") = value.into();
            let same = validate_kind(&original, &other, &to).and_then(|()| validate_converted(&original, &mut other));
            assert!(same.is_err(), "{pointer}");
        }
    }

    #[test]
    fn a_bundle_without_certificates_is_invalid() {
        let with = |bundle: Value| {
            let config = json!({"url": "https://example.com", "caBundle": bundle});
            json!({"spec": {"conversion": {"webhook": {"clientConfig": config}}}})
        };
        assert!(has_invalid_ca_bundle(&with(STANDARD.encode("no PEM").into())));
        assert!(!has_invalid_ca_bundle(&with("".into())));
        assert!(!has_invalid_ca_bundle(&with(Value::Null)));
        assert!(!has_invalid_ca_bundle(
            &json!({"spec": {"conversion": {"strategy": "None"}}})
        ));
    }
}
