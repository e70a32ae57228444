//! `trireme cluster`: who is in the replica group, who leads, who does which duty; and changes of its members.
//!
//! Speaks to any replica over its API port, as an administrator: it may do nothing that `/debug/replicas` does not.

mod kubeconfig;
mod table;

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use trireme_edge::client::{self, ClientError, Method, Target};
use trireme_edge::replicas::View;

pub(crate) use kubeconfig::KubeconfigError;

/// Where the group is told of.
const PATH: &str = "/debug/replicas";
/// A change of members first has leases yielded and then catches a newcomer up: some seconds each.
const PATIENCE: Duration = Duration::from_secs(30);

/// A request to the group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// Show it.
    Status {
        /// As JSON, as the replica tells it.
        as_json: bool,
    },
    /// Make the replica at this `host:port` a member.
    Add(String),
    /// Take the replica with this id or address out.
    Remove(String),
}

/// Which replica to ask, and as whom.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Access {
    /// A kubeconfig; without it the first of `$KUBECONFIG`, or `~/.kube/config`.
    pub(crate) kubeconfig: Option<PathBuf>,
    /// `https://host:port`, in place of the kubeconfig's.
    pub(crate) server: Option<String>,
    /// The CA of the server, in place of the kubeconfig's.
    pub(crate) certificate_authority: Option<PathBuf>,
    /// A bearer token, in place of what the kubeconfig has.
    pub(crate) token: Option<String>,
}

/// Why it could not be done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    /// It is not known whom to ask.
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
    /// The replica gave no answer.
    #[error(transparent)]
    Client(#[from] ClientError),
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
    let target = kubeconfig::target(access)?;
    match action {
        Action::Status { as_json: true } => Ok(format!("{:#}\n", ask(&target, Method::GET, PATH, Vec::new()).await?)),
        Action::Status { as_json: false } => Ok(table::render(&view(&target).await?)),
        Action::Add(address) => {
            let body = json!({ "address": address }).to_string().into_bytes();
            ask(&target, Method::POST, PATH, body).await?;
            Ok(format!("replica at {address} added\n"))
        }
        Action::Remove(name) => {
            let id = member(&view(&target).await?, name)?;
            ask(&target, Method::DELETE, &format!("{PATH}/{id}"), Vec::new()).await?;
            Ok(format!("replica {id} removed\n"))
        }
    }
}

async fn view(target: &Target) -> Result<View, CommandError> {
    let told = ask(target, Method::GET, PATH, Vec::new()).await?;
    serde_json::from_value(told).map_err(|_| CommandError::Stranger(target.server.clone(), 200))
}

/// The id of the member that is called so: by its id or by its address. Without a group that is for the replica to say.
fn member(view: &View, name: &str) -> Result<String, CommandError> {
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

/// Sends the request and returns the replica's answer, or its reason for refusing.
async fn ask(target: &Target, method: Method, path: &str, body: Vec<u8>) -> Result<Value, CommandError> {
    let (code, body) = client::send(target, method, path, body, PATIENCE).await?;
    let value: Value = serde_json::from_slice(&body).unwrap_or_default();
    match (code, value["message"].as_str()) {
        (200 | 201, _) => Ok(value),
        (_, Some(message)) => Err(CommandError::Refused(message.to_owned())),
        (_, None) => Err(CommandError::Stranger(target.server.clone(), code)),
    }
}
