//! One call of a webhook: the request, the answer, and errors in the words of kube-apiserver.

use std::{io, time::Duration};

use bytes::Bytes;
use serde_json::Value;
use trireme_http::client::{
    Body, Call, ClientError, Endpoint, HeaderValue, Method, Protocols, Request, Response, ResponseBody, StatusCode,
    Uri, header,
};
use trireme_machinery::go_text::{kind_name, quote};
use trireme_machinery::{
    webhook_address::{WebhookAddress, resolve_cluster},
    yaml,
};

use super::{
    WebhookParts,
    configuration::{Webhook, WebhookTarget},
    verdict::HookFailure,
};

/// More than any answer with a patch of an object of the greatest size.
const MAX_ANSWER_BYTES: u64 = 16 * 1024 * 1024;
/// As Go's client follows.
const MAX_REDIRECTS: usize = 10;

/// An exchange with the server of a webhook.
struct HookExchange<'w> {
    webhook: &'w Webhook,
    target: &'w WebhookTarget,
    endpoint: Endpoint,
    /// The host and port that are connected to.
    dialed: String,
    timeout: Duration,
}

/// Why an exchange has no answer: the text, and the code that metrics tell.
type Failed = (String, u16);

impl WebhookParts {
    /// Posts a review and gives back what was answered.
    pub(super) async fn post(
        &self,
        webhook: &Webhook,
        review: &Value,
        timeout: Duration,
    ) -> Result<Value, HookFailure> {
        let target = webhook.target.as_ref().map_err(|why| HookFailure::Calling {
            reason: format!("could not get REST client: {why}"),
            code: 500,
        })?;
        self.exchange(webhook, target, review, timeout)
            .await
            .map_err(|(why, code)| HookFailure::Calling {
                reason: format!("failed to call webhook: {why}"),
                code,
            })
    }

    async fn exchange(
        &self,
        webhook: &Webhook,
        target: &WebhookTarget,
        review: &Value,
        timeout: Duration,
    ) -> Result<Value, Failed> {
        let seconds = timeout.as_secs() + u64::from(timeout.subsec_nanos() > 0);
        let mut path = format!("{}?timeout={seconds}s", target.address.path());
        let failed = |path: &str, why: String| (format!("Post \"{}{path}\": {why}", target.address.origin()), 503);
        let (endpoint, dialed) = self.endpoint(&target.address).await.map_err(|why| failed(&path, why))?;
        let exchange = HookExchange {
            webhook,
            target,
            endpoint,
            dialed,
            timeout,
        };
        let mut body = Some(Bytes::from(review.to_string()));
        for _ in 0..=MAX_REDIRECTS {
            let call = exchange.call(&path, body.clone()).map_err(|why| failed(&path, why))?;
            let sent = self.client.send(call).await;
            let response = sent.map_err(|error| failed(&path, go_error(&error, &exchange)))?;
            let Some(location) = redirection(&response) else {
                return answer(response).await.map_err(|failure| match failure {
                    AnswerFailure::Lost(error) => failed(&path, go_error(&error, &exchange)),
                    AnswerFailure::Told(why, code) => (why, code),
                });
            };
            let keeps_method = matches!(response.status().as_u16(), 307 | 308);
            body = body.filter(|_| keeps_method);
            let origin = target.address.origin();
            let below = location.strip_prefix(origin.as_str()).unwrap_or(&location);
            if !below.starts_with('/') || below.starts_with("//") {
                return Err(failed(
                    &path,
                    format!("a redirect to {} is not followed", quote(&location)),
                ));
            }
            below.clone_into(&mut path);
        }
        Err(failed(&path, "stopped after 10 redirects".to_owned()))
    }

    /// The server to call, and the host and port that it is reached at.
    async fn endpoint(&self, address: &WebhookAddress) -> Result<(Endpoint, String), String> {
        let endpoint = Endpoint::parse(&address.origin()).map_err(|error| error.to_string())?;
        let WebhookAddress::Service {
            namespace, name, port, ..
        } = address
        else {
            let dialed = format!("{}:{}", endpoint.host(), endpoint.port());
            return Ok((endpoint, dialed));
        };
        let found = self
            .services
            .find(namespace, name)
            .await
            .map_err(|error| error.to_string())?;
        let service = found.ok_or_else(|| format!("service \"{name}\" not found"))?;
        let host = resolve_cluster(&service, name, *port)?;
        let dialed = format!("{host}:{port}");
        Ok((endpoint.dialed_at(host, *port), dialed))
    }
}

impl HookExchange<'_> {
    fn call(&self, path: &str, body: Option<Bytes>) -> Result<Call, String> {
        let method = if body.is_some() { Method::POST } else { Method::GET };
        let mut request = Request::new(body.map(Body::from).unwrap_or_default());
        *request.method_mut() = method.clone();
        *request.uri_mut() = path.parse::<Uri>().map_err(|error| error.to_string())?;
        let json = HeaderValue::from_static("application/json");
        let headers = request.headers_mut();
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json, */*"));
        headers.insert(header::USER_AGENT, HeaderValue::from_static("kube-apiserver-admission"));
        if method == Method::POST {
            headers.insert(header::CONTENT_TYPE, json);
        }
        Ok(Call {
            tls: Some(self.target.tls.clone()),
            // As upstream: calls to a service spread over its endpoints, which one connection would not.
            protocols: Protocols::Http1,
            timeout: Some(self.timeout),
            max_body_bytes: Some(MAX_ANSWER_BYTES),
            partition: Some(self.webhook.uid.as_str().into()),
            ..Call::new(self.endpoint.clone(), request)
        })
    }
}

/// Where an answer redirects to.
fn redirection(response: &Response<ResponseBody>) -> Option<String> {
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let location = response.headers().get(header::LOCATION)?.to_str().ok()?;
    Some(location.to_owned())
}

/// Why an answer is of no use.
enum AnswerFailure {
    Lost(ClientError),
    Told(String, u16),
}

async fn answer(response: Response<ResponseBody>) -> Result<Value, AnswerFailure> {
    let status = response.status();
    let content_type = response.headers().get(header::CONTENT_TYPE);
    let content_type = content_type
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
        .to_owned();
    let body = response.into_body().collect().await.map_err(AnswerFailure::Lost)?;
    if !(200..=206).contains(&status.as_u16()) {
        return Err(AnswerFailure::Told(
            refusal(status, &content_type, &body),
            status.as_u16(),
        ));
    }
    let told = |why: String| AnswerFailure::Told(why, 503);
    if body.is_empty() {
        return Err(told(format!(
            "0-length response with status code: {} and content type: {content_type}",
            status.as_u16()
        )));
    }
    decode(&body).map_err(told)
}

/// An answer is JSON, or YAML by accident.
fn decode(body: &[u8]) -> Result<Value, String> {
    const READER: &str = "couldn't get version/kind; json parse error";
    let value = match serde_json::from_slice(body) {
        Ok(value) => value,
        Err(error) => match yaml::decode(body) {
            Ok(decoded) => decoded.value,
            Err(_) => return Err(format!("{READER}: {error}")),
        },
    };
    if Value::is_object(&value) {
        return Ok(value);
    }
    let kind = kind_name(&value);
    Err(format!(
        "{READER}: json: cannot unmarshal {kind} into Go value of type struct {{ APIVersion string \
         \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}"
    ))
}

/// `NewGenericServerResponse`: an answer that is no success, in words. A `Status` speaks for itself.
fn refusal(status: StatusCode, content_type: &str, body: &[u8]) -> String {
    let told: Option<Value> = serde_json::from_slice(body).ok();
    let told = told.filter(|told| told["kind"] == "Status" && told["status"] != "Success");
    if let Some(message) = told.as_ref().and_then(|told| told["message"].as_str()) {
        return message.to_owned();
    }
    let text = if content_type.starts_with("text/") {
        String::from_utf8_lossy(body).trim().to_owned()
    } else {
        "unknown".to_owned()
    };
    let words = match status.as_u16() {
        409 => "the server reported a conflict",
        404 => "the server could not find the requested resource",
        400 => "the server rejected our request for an unknown reason",
        401 => "the server has asked for the client to provide credentials",
        403 | 406 | 415 => return text,
        405 => "the server does not allow this method on the requested resource",
        422 => "the server rejected our request due to an error in our request",
        503 => "the server is currently unable to handle the request",
        504 => {
            "the server was unable to return a response in the time allotted, but may still be processing the request"
        }
        429 => "the server has received too many requests and has asked us to try again later",
        500.. => {
            let text = quote(&text);
            return format!("an error on the server ({text}) has prevented the request from succeeding");
        }
        code => {
            return format!("the server responded with the status code {code} but did not return more information");
        }
    };
    words.to_owned()
}

/// An error of the client as Go's would tell it.
fn go_error(error: &ClientError, exchange: &HookExchange<'_>) -> String {
    let dialed = &exchange.dialed;
    match error {
        ClientError::Connect { source, .. } => match source.kind() {
            io::ErrorKind::ConnectionRefused => format!("dial tcp {dialed}: connect: connection refused"),
            io::ErrorKind::TimedOut => format!("dial tcp {dialed}: i/o timeout"),
            _ => format!("dial tcp {dialed}: {source}"),
        },
        ClientError::Handshake { why, .. } => {
            let verification = "tls: failed to verify certificate: x509:";
            if why.contains("UnknownIssuer") {
                format!("{verification} certificate signed by unknown authority")
            } else if why.contains("not valid for name") || why.contains("NotValidForName") {
                format!(
                    "{verification} certificate is not valid for {}",
                    exchange.endpoint.host()
                )
            } else {
                why.clone()
            }
        }
        ClientError::NotSent { .. } | ClientError::Lost { .. } => "EOF".to_owned(),
        ClientError::Timeout { .. } => "context deadline exceeded".to_owned(),
        ClientError::Address(_)
        | ClientError::BreakerOpen { .. }
        | ClientError::TooLarge { .. }
        | ClientError::NotSwitched { .. } => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_that_are_no_success_are_told_in_words() {
        let told = |code: u16, kind: &str, body: &str| {
            refusal(StatusCode::from_u16(code).expect("a code"), kind, body.as_bytes())
        };
        assert_eq!(
            told(500, "application/json", "oops"),
            "an error on the server (\"unknown\") has prevented the request from succeeding"
        );
        assert_eq!(told(403, "text/html", "<html>no</html>\n"), "<html>no</html>");
        let status = r#"{"kind": "Status", "status": "Failure", "message": "gone fishing"}"#;
        assert_eq!(told(503, "application/json", status), "gone fishing");
        assert_eq!(told(404, "", ""), "the server could not find the requested resource");
    }

    #[test]
    fn an_answer_must_be_an_object() {
        let error = decode(b"hello").expect_err("text");
        assert!(error.starts_with("couldn't get version/kind; json parse error: json: cannot unmarshal string into"));
        assert_eq!(decode(b"{\"a\": 1}").expect("an object")["a"], 1);
    }
}
