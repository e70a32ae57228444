//! The members of etcd.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use etcd_client::{AlarmAction, AlarmType, Client, ConnectOptions};
use tokio::time::timeout;
use trireme_ports::free_address;
use trireme_tests::process::find_program;

use super::WorldError;
use super::process::{Process, Recipe};

/// The time limit of a question to one member. A paused one must not hold up those who ask all.
const PATIENCE: Duration = Duration::from_secs(2);

/// One member.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) process: Process,
    pub(super) client: SocketAddr,
}

/// The status of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcdStatus {
    /// Its id.
    pub id: u64,
    /// The id of the leader it follows; 0 if it knows of none.
    pub leader: u64,
    /// Raft's term.
    pub term: u64,
    /// The store's revision as it knows it.
    pub revision: i64,
    /// The alarm that keeps it from writing, such as `NOSPACE`.
    pub errors: Vec<String>,
}

/// Prepares `count` members that will form a cluster.
pub(super) fn prepare(count: usize, dir: &Path, logs: &Path, flags: &[String]) -> Result<Vec<Member>, WorldError> {
    let program = find_program("etcd").ok_or(WorldError::Missing {
        program: "etcd",
        install: "scripts/install-tools chaos",
    })?;
    let ports: Vec<_> = (0..count).map(|_| (free_address(), free_address())).collect();
    let names = ports.iter().enumerate();
    let cluster: Vec<String> = names
        .map(|(member, (_, peer))| format!("etcd-{member}=http://{peer}"))
        .collect();
    let cluster = cluster.join(",");
    let members = ports.into_iter().enumerate().map(|(member, (client, peer))| {
        let name = format!("etcd-{member}");
        let recipe = Recipe::new(&program)
            .args(["--name", &name, "--log-level", "warn", "--logger", "zap"])
            .arg("--data-dir")
            .arg(dir.join(&name))
            .args(["--listen-client-urls", &format!("http://{client}")])
            .args(["--advertise-client-urls", &format!("http://{client}")])
            .args(["--listen-peer-urls", &format!("http://{peer}")])
            .args(["--initial-advertise-peer-urls", &format!("http://{peer}")])
            .args(["--initial-cluster", &cluster, "--initial-cluster-state", "new"])
            // As etcd does by itself from 3.5 on. Without, a member that was alone for a while deposes the leader that it
            // meets again, and an election of seconds follows on the heal.
            .arg("--pre-vote")
            .args(flags);
        let process = Process::new(name, recipe, logs);
        Member { process, client }
    });
    Ok(members.collect())
}

/// A client for these addresses. It gives a question up after a while.
pub(super) async fn connect(addresses: &[SocketAddr]) -> Result<Client, WorldError> {
    let urls: Vec<String> = addresses.iter().map(|address| format!("http://{address}")).collect();
    let options = ConnectOptions::new()
        .with_timeout(PATIENCE)
        .with_connect_timeout(PATIENCE);
    let client = Client::connect(urls, Some(options)).await;
    client.map_err(|error| WorldError::Etcd("let us connect", error))
}

impl Member {
    /// Its status, if it answers.
    pub(super) async fn status(&self) -> Option<EtcdStatus> {
        let ask = async {
            let mut client = connect(&[self.client]).await.ok()?;
            let status = client.status().await.ok()?;
            let header = status.header()?;
            Some(EtcdStatus {
                id: header.member_id(),
                leader: status.leader(),
                term: status.raft_term(),
                revision: header.revision(),
                errors: status.errors().to_vec(),
            })
        };
        timeout(PATIENCE, ask).await.ok().flatten()
    }
}

/// The ids of members that have raised the alarm that their space is used up.
pub(super) async fn members_without_space(client: &mut Client) -> Result<Vec<u64>, WorldError> {
    let list = client.alarm(AlarmAction::Get, AlarmType::None, None).await;
    let list = list.map_err(|error| WorldError::Etcd("list its alarms", error))?;
    let full = list.alarms().iter().filter(|alarm| alarm.alarm() == AlarmType::Nospace);
    Ok(full.map(etcd_client::AlarmMember::member_id).collect())
}

/// Takes back every alarm.
pub(super) async fn disarm(client: &mut Client) -> Result<(), WorldError> {
    for id in members_without_space(client).await? {
        let mut options = etcd_client::AlarmOptions::new();
        options.with_member(id);
        let disarmed = client
            .alarm(AlarmAction::Deactivate, AlarmType::Nospace, Some(options))
            .await;
        disarmed.map_err(|error| WorldError::Etcd("take its alarm back", error))?;
    }
    Ok(())
}
