//! `trireme cluster`: who is in the replica group, who leads, who does which duty; and changes of its members.
//!
//! Speaks to any replica over its API port, as an administrator: it may do nothing that `/debug/replicas` does not.

mod access;
mod table;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use trireme_actors::{Clock, Tasks};
use trireme_edge::replicas::GroupView;
use trireme_http::client::{
    Client, ClientError, ClientSettings, ClientTls, Endpoint, HeaderValue, Method, OutboundCall, Request,
    TlsOptionsError, header,
};

pub(crate) use access::{Access, AccessError};

use crate::kubeconfig::Kubeconfig;

/// The path of the group's status.
const PATH: &str = "/debug/replicas";
/// A change of members first has leases yielded and then catches a newcomer up: some seconds each.
const PATIENCE: Duration = Duration::from_secs(30);
/// An answer is some kilobytes.
const MOST_BYTES: u64 = 16 << 20;
const AGENT: HeaderValue = HeaderValue::from_static(concat!("trireme/", env!("CARGO_PKG_VERSION")));
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A request to the group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// Show it.
    Status {
        /// As JSON, as the replica answers it.
        as_json: bool,
    },
    /// Make the replica at this `host:port` a member.
    Add(String),
    /// Take the replica with this id or address out.
    Remove(String),
}

/// The reason that it could not be done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    /// It is not known whom to ask.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The replica gave no answer.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The CA or the client certificate is of no use.
    #[error(transparent)]
    Tls(#[from] TlsOptionsError),
    /// The token has characters that cannot be sent.
    #[error("the token cannot be sent")]
    Token,
    /// It refused.
    #[error("{0}")]
    Refused(String),
    /// It is something else than a replica.
    #[error("{0} is no replica of Trireme: {PATH} says {1}")]
    Stranger(String, u16),
    /// No member is called so.
    #[error("no member of the group has the id or address {0:?}; `trireme cluster status` lists them")]
    Unknown(String),
}

/// Does it; gives what to print.
pub(crate) async fn run(action: &Action, access: &Access) -> Result<String, CommandError> {
    let replica = AskedReplica::new(&access.resolve()?)?;
    match action {
        Action::Status { as_json: true } => Ok(format!("{:#}\n", replica.ask(Method::GET, PATH, Vec::new()).await?)),
        Action::Status { as_json: false } => Ok(table::render(&view(&replica).await?)),
        Action::Add(address) => {
            let body = json!({ "address": address }).to_string().into_bytes();
            replica.ask(Method::POST, PATH, body).await?;
            Ok(format!("replica at {address} added\n"))
        }
        Action::Remove(name) => {
            let id = member(&view(&replica).await?, name)?;
            replica.ask(Method::DELETE, &format!("{PATH}/{id}"), Vec::new()).await?;
            Ok(format!("replica {id} removed\n"))
        }
    }
}

async fn view(replica: &AskedReplica) -> Result<GroupView, CommandError> {
    let view = replica.ask(Method::GET, PATH, Vec::new()).await?;
    serde_json::from_value(view).map_err(|_| CommandError::Stranger(replica.endpoint.to_string(), 200))
}

/// The id of the member that is called so: by its id or by its address. Without a group that is for the replica to say.
fn member(view: &GroupView, name: &str) -> Result<String, CommandError> {
    let is_called_so = |id: &str, address: &str| id == name || address == name;
    let found = view
        .members
        .iter()
        .find(|member| is_called_so(&member.id, &member.address));
    match found {
        Some(member) => Ok(member.id.clone()),
        None if view.group.is_none() => Ok(name.to_owned()),
        None => Err(CommandError::Unknown(name.to_owned())),
    }
}

/// The replica that is asked.
struct AskedReplica {
    client: Client,
    endpoint: Endpoint,
    tls: Arc<ClientTls>,
    authorization: Option<HeaderValue>,
}

impl AskedReplica {
    fn new(target: &Kubeconfig) -> Result<Self, CommandError> {
        let authorization = target.authorization.as_ref().map(|value| {
            let mut value = HeaderValue::try_from(value).map_err(|_| CommandError::Token)?;
            value.set_sensitive(true);
            Ok::<_, CommandError>(value)
        });
        let clock = Clock::system();
        let tasks = Tasks::new(tokio::runtime::Handle::current(), clock.clone());
        Ok(Self {
            client: Client::new("cluster", ClientSettings::default(), clock, tasks),
            endpoint: Endpoint::parse(&target.server)?,
            tls: ClientTls::new(&target.tls())?,
            authorization: authorization.transpose()?,
        })
    }

    /// The answer of the replica if it does what is asked; else why not.
    async fn ask(&self, method: Method, path: &str, body: Vec<u8>) -> Result<Value, CommandError> {
        let mut request = Request::new(Bytes::from(body).into());
        *request.method_mut() = method;
        *request.uri_mut() = path.parse().map_err(|_| ClientError::Address(path.to_owned()))?;
        let headers = request.headers_mut();
        headers.insert(header::USER_AGENT, AGENT);
        headers.insert(header::ACCEPT, JSON);
        headers.insert(header::CONTENT_TYPE, JSON);
        if let Some(authorization) = &self.authorization {
            headers.insert(header::AUTHORIZATION, authorization.clone());
        }
        let call = OutboundCall {
            tls: Some(Arc::clone(&self.tls)),
            timeout: Some(PATIENCE),
            max_body_bytes: Some(MOST_BYTES),
            ..OutboundCall::new(self.endpoint.clone(), request)
        };
        let response = self.client.send(call).await?;
        let code = response.status().as_u16();
        let body = response.into_body().collect().await?;
        let value: Value = serde_json::from_slice(&body).unwrap_or_default();
        match (code, value["message"].as_str()) {
            (200 | 201, _) => Ok(value),
            (_, Some(message)) => Err(CommandError::Refused(message.to_owned())),
            (_, None) => Err(CommandError::Stranger(self.endpoint.to_string(), code)),
        }
    }
}
