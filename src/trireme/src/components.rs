//! Looks at the components beside this server where kube-apiserver looks for them: on the loopback, at the ports that
//! they have by default. Without them `kubectl get componentstatuses` shows that the connection was refused.

use std::time::Duration;

use bytes::Bytes;
use trireme_auth::BoxFuture;
use trireme_edge::components::{ComponentHealth, Components};
use trireme_http::client::{
    Client, ClientError, ClientTls, Endpoint, OutboundBody, OutboundCall, Request, TlsOptions, Trust, Uri,
};

use crate::probe::StoreProbe;

/// The time limit of a probe: a live component answers in milliseconds.
const PATIENCE: Duration = Duration::from_secs(2);
/// The longest answer that is read of a component.
const MOST_BYTES: u64 = 64 * 1024;
/// More is not passed on.
const MOST_CHARS: usize = 1024;
const NAMES: [&str; 3] = ["controller-manager", "scheduler", "etcd-0"];

/// The components of a control plane on one machine.
pub(crate) struct OnThisMachine {
    /// The health of the store, be it etcd or not: readiness has that name for it, too.
    pub(crate) store: StoreProbe,
    /// Asks the others.
    pub(crate) client: Client,
}

impl Components for OnThisMachine {
    fn names(&self) -> &[&'static str] {
        &NAMES
    }

    fn look<'a>(&'a self, name: &'a str) -> BoxFuture<'a, ComponentHealth> {
        Box::pin(async move {
            match name {
                "controller-manager" => probe(&self.client, 10257).await,
                "scheduler" => probe(&self.client, 10259).await,
                _ => of_store(self.store.check_store()),
            }
        })
    }
}

/// Asks the component at a port of the loopback for its health. Components make their own certificates.
async fn probe(client: &Client, port: u16) -> ComponentHealth {
    let server = format!("https://127.0.0.1:{port}");
    match ask(client, &server).await {
        Ok((200..400, body)) => ComponentHealth {
            is_healthy: true,
            message: String::from_utf8_lossy(&body).chars().take(MOST_CHARS).collect(),
            ..ComponentHealth::default()
        },
        Ok((code, _)) => unhealthy(format!("HTTP probe failed with statuscode: {code}")),
        Err(error) => unhealthy(format!("Get \"{}/healthz\": {}", server, why(port, &error))),
    }
}

async fn ask(client: &Client, server: &str) -> Result<(u16, Bytes), ClientError> {
    let options = TlsOptions {
        trust: Trust::Unverified,
        ..TlsOptions::default()
    };
    let mut request = Request::new(OutboundBody::empty());
    *request.uri_mut() = Uri::from_static("/healthz");
    let call = OutboundCall {
        tls: ClientTls::new(&options).ok(),
        timeout: Some(PATIENCE),
        max_body_bytes: Some(MOST_BYTES),
        ..OutboundCall::new(Endpoint::parse(server)?, request)
    };
    let response = client.send(call).await?;
    let code = response.status().as_u16();
    Ok((code, response.into_body().collect().await?))
}

/// The reason that no answer came; the common case in the words that kube-apiserver has for it.
fn why(port: u16, error: &ClientError) -> String {
    match error {
        ClientError::Connect { source, .. } if source.kind() == std::io::ErrorKind::ConnectionRefused => {
            format!("dial tcp 127.0.0.1:{port}: connect: connection refused")
        }
        other => other.to_string(),
    }
}

fn unhealthy(message: String) -> ComponentHealth {
    ComponentHealth {
        message,
        ..ComponentHealth::default()
    }
}

fn of_store(checked: Result<(), String>) -> ComponentHealth {
    match checked {
        Ok(()) => ComponentHealth {
            is_healthy: true,
            message: "ok".to_owned(),
            ..ComponentHealth::default()
        },
        Err(error) => ComponentHealth {
            error,
            ..ComponentHealth::default()
        },
    }
}

#[cfg(test)]
mod tests {
    use trireme_actors::{Clock, Tasks};
    use trireme_http::client::ClientSettings;

    use super::*;

    #[test]
    fn a_store_that_does_not_answer_is_reported_as_an_error() {
        let away = of_store(Err("the store does not answer".to_owned()));
        assert_eq!((away.is_healthy, away.message.as_str()), (false, ""));
        assert_eq!(away.error, "the store does not answer");
        assert!(of_store(Ok(())).is_healthy);
    }

    #[tokio::test]
    async fn a_port_without_a_listener_refuses_the_connection() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = free.local_addr().expect("an address").port();
        drop(free);
        let expected =
            format!("Get \"https://127.0.0.1:{port}/healthz\": dial tcp 127.0.0.1:{port}: connect: connection refused");
        let clock = Clock::system();
        let tasks = Tasks::new(tokio::runtime::Handle::current(), clock.clone());
        let client = Client::new("components", ClientSettings::default(), clock, tasks);
        assert_eq!(probe(&client, port).await, unhealthy(expected));
    }
}
