//! One call of a webhook: the request, the answer, and errors in the words of kube-apiserver.

use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use trireme_http::client::{
    ClientError, Endpoint, HeaderValue, IncomingBody, Method, OutboundBody, OutboundCall, Protocols, RemoteAnswer,
    Request, Response, Uri, header,
};
use trireme_machinery::{go_text::quote, webhook_address::WebhookAddress, webhook_answer::read_answer};

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
    timeout: Duration,
}

/// The error of an exchange without an answer: the text, and the code in metrics.
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
        let endpoint = self.endpoint(&target.address).await.map_err(|why| failed(&path, why))?;
        let exchange = HookExchange {
            webhook,
            target,
            endpoint,
            timeout,
        };
        let mut body = Some(Bytes::from(review.to_string()));
        for _ in 0..=MAX_REDIRECTS {
            let call = exchange.call(&path, body.clone()).map_err(|why| failed(&path, why))?;
            let sent = self.client.send(call).await;
            let lost = |error: ClientError| failed(&path, error.as_net_http(&exchange.endpoint));
            let response = sent.map_err(lost)?;
            let Some(location) = redirection(&response) else {
                let answer = RemoteAnswer::read(response).await.map_err(lost)?;
                let object = read_answer(answer.code, &answer.content_type, &answer.body);
                return object.map_err(|error| (error.message, error.code));
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

    /// The server to call.
    async fn endpoint(&self, address: &WebhookAddress) -> Result<Endpoint, String> {
        let endpoint = Endpoint::parse(&address.origin()).map_err(|error| error.to_string())?;
        let WebhookAddress::Service {
            namespace, name, port, ..
        } = address
        else {
            return Ok(endpoint);
        };
        let (host, port) = self.services.resolve(namespace, name, *port).await?;
        Ok(endpoint.dialed_at(host, port))
    }
}

impl HookExchange<'_> {
    fn call(&self, path: &str, body: Option<Bytes>) -> Result<OutboundCall, String> {
        let method = if body.is_some() { Method::POST } else { Method::GET };
        let mut request = Request::new(body.map(OutboundBody::from).unwrap_or_default());
        *request.method_mut() = method.clone();
        *request.uri_mut() = path.parse::<Uri>().map_err(|error| error.to_string())?;
        let json = HeaderValue::from_static("application/json");
        let headers = request.headers_mut();
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json, */*"));
        headers.insert(header::USER_AGENT, HeaderValue::from_static("kube-apiserver-admission"));
        if method == Method::POST {
            headers.insert(header::CONTENT_TYPE, json);
        }
        if let Some(authorization) = &self.target.authorization {
            headers.insert(header::AUTHORIZATION, authorization.clone());
        }
        Ok(OutboundCall {
            tls: Some(self.target.tls.clone()),
            // As upstream: calls to a service spread over its endpoints, which one connection would not.
            protocols: Protocols::Http1,
            timeout: Some(self.timeout),
            max_body_bytes: Some(MAX_ANSWER_BYTES),
            partition: Some(self.webhook.partition.clone()),
            ..OutboundCall::new(self.endpoint.clone(), request)
        })
    }
}

/// The address that an answer redirects to.
fn redirection(response: &Response<IncomingBody>) -> Option<String> {
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let location = response.headers().get(header::LOCATION)?.to_str().ok()?;
    Some(location.to_owned())
}
