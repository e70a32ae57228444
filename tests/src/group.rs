//! Groups of replicas for tests: real processes over one etcd, with certificates of a CA of their own.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use serde_json::Value;
use tempfile::TempDir;

use crate::server::{ADMIN_TOKEN, Etcd, Server, binary};
use trireme_ports::free_port;

/// The group's name in certificates of the default group.
const GROUP_NAME: &str = "replica.trireme.trireme";
/// Between two looks at a condition that is waited for.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// The time limit for what a new group writes into an empty store, on a machine that compiles beside it.
const FOUNDED_WITHIN: Duration = Duration::from_secs(60);

/// A CA of replicas.
pub struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// A CA with a key of its own.
    pub fn new() -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).expect("a certificate").pem();
        let issuer = Issuer::new(params, key);
        Self { pem, issuer }
    }

    /// The CA's certificate.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// A certificate of a replica and its key.
    pub fn replica(&self) -> (String, String) {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(vec![GROUP_NAME.to_owned()]).expect("parameters");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        (certificate.pem(), key.serialize_pem())
    }
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

/// The files of one replica's peer TLS.
#[derive(Debug, Clone)]
pub struct PeerFiles {
    /// Its CA.
    pub ca: PathBuf,
    /// Its certificate.
    pub certificate: PathBuf,
    /// The certificate's key.
    pub key: PathBuf,
}

impl PeerFiles {
    fn new(dir: &Path, port: u16) -> Self {
        let file = |kind: &str| dir.join(format!("{port}-{kind}.pem"));
        Self {
            ca: file("ca"),
            certificate: file("certificate"),
            key: file("key"),
        }
    }

    /// Writes another certificate and its key.
    pub fn write_own(&self, authority: &Authority) {
        let (certificate, key) = authority.replica();
        fs::write(&self.certificate, certificate).expect("written");
        fs::write(&self.key, key).expect("written");
    }
}

/// One replica, running or not.
pub struct Replica {
    /// The process and all that belongs to it.
    pub server: Server,
    /// The address at which its peers reach it.
    pub address: String,
    /// The certificate that it shows to them.
    pub files: PeerFiles,
}

impl Replica {
    /// Waits until its caches have the namespace that a cluster starts with last. A replica that heard of no quorum while it
    /// started is ready without it.
    fn wait_for_namespaces(&mut self) -> Result<(), String> {
        const LAST: &str = "/api/v1/namespaces/default?resourceVersion=0";
        let client = self.server.client();
        let sees_it = || client.get(LAST).is_ok_and(|answer| answer.code == 200);
        let process = self.server.process();
        process.wait_until("aware of the namespace default", FOUNDED_WITHIN, sees_it)
    }

    /// Its view of the group; `None` if it does not answer.
    pub fn view(&self) -> Option<View> {
        let answer = self.server.client().get("/debug/replicas").ok()?;
        (answer.code == 200).then(|| View(serde_json::from_str(&answer.text()).expect("JSON")))
    }

    /// The sum of a metric over its labels; 0 if it is not there.
    pub fn metric(&self, name: &str) -> f64 {
        self.server.client().metric(name, &[])
    }

    /// Runs `trireme cluster` against it, as the administrator.
    pub fn command(&self, args: &[&str]) -> Output {
        let mut command = Command::new(binary().expect("the binary is built"));
        command
            .arg("cluster")
            .args(args)
            .args(["--server", &self.server.url(), "--token", ADMIN_TOKEN])
            .arg("--certificate-authority")
            .arg(self.server.ca_file());
        command.output().expect("it runs")
    }

    /// Its Raft directory.
    pub fn raft_dir(&self) -> PathBuf {
        self.server.data_dir().join("raft")
    }
}

/// `/debug/replicas`
#[derive(Debug, Clone)]
pub struct View(pub Value);

impl View {
    fn text(&self, key: &str) -> Option<String> {
        self.0[key].as_str().map(str::to_owned)
    }

    /// The id of the replica that answered.
    pub fn own_id(&self) -> String {
        self.text("self").expect("it is in a group")
    }

    /// The leader's id.
    pub fn leader(&self) -> Option<String> {
        self.text("leader")
    }

    /// Returns true if there is a quorum.
    pub fn has_quorum(&self) -> bool {
        self.0["quorum"] == true
    }

    /// The ids of all members, and whether each is alive.
    pub fn members(&self) -> BTreeMap<String, bool> {
        let members = self.0["members"].as_array().expect("a list");
        let id = |member: &Value| member["id"].as_str().unwrap_or_default().to_owned();
        members
            .iter()
            .map(|member| (id(member), member["alive"] == true))
            .collect()
    }

    /// All duties with their newest tokens that this replica knows of.
    pub fn tokens(&self) -> BTreeMap<String, u64> {
        self.duties().map(|duty| (name_of(duty), token_of(duty))).collect()
    }

    /// The holder of a duty, by the group's state as this replica knows it.
    pub fn holder(&self, duty: &str) -> Option<String> {
        holder_of(self.duties().find(|found| found["duty"] == duty)?)
    }

    /// The duties of a replica, by the group's state as the one that answered knows it.
    pub fn held_by(&self, replica: &str) -> BTreeSet<String> {
        let held = self.duties().filter(|duty| holder_of(duty).as_deref() == Some(replica));
        held.map(name_of).collect()
    }

    /// Returns true if each duty has a holder, by the group's state as this replica knows it.
    pub fn all_are_held(&self) -> bool {
        self.duties().all(|duty| holder_of(duty).is_some())
    }

    /// Returns true if another replica knows the same holders and tokens. One that follows the leader may be behind.
    pub fn agrees_with(&self, other: &Self) -> bool {
        let grants = |view: &Self| -> BTreeSet<_> {
            let duties = view.duties();
            duties
                .map(|duty| (name_of(duty), holder_of(duty), token_of(duty)))
                .collect()
        };
        grants(self) == grants(other)
    }

    /// The duties that the replica which answered holds, by its own clock.
    pub fn held(&self) -> BTreeSet<String> {
        self.duties().filter(|duty| duty["held"] == true).map(name_of).collect()
    }

    fn duties(&self) -> impl Iterator<Item = &Value> {
        self.0["duties"].as_array().expect("a list").iter()
    }
}

fn name_of(duty: &Value) -> String {
    duty["duty"].as_str().unwrap_or_default().to_owned()
}

fn holder_of(duty: &Value) -> Option<String> {
    duty["holder"].as_str().map(str::to_owned)
}

fn token_of(duty: &Value) -> u64 {
    duty["token"].as_u64().unwrap_or_default()
}

/// Replicas over one etcd. They are killed when this is dropped, before their etcd.
pub struct Group {
    /// The replicas in the order in which they were started.
    pub replicas: Vec<Replica>,
    /// The CA of their certificates.
    pub authority: Authority,
    etcd: Arc<Etcd>,
    dir: TempDir,
}

impl Group {
    /// Starts so many replicas that found a group together, and waits until each serves and sees the first namespaces.
    pub fn start(size: usize, flags: &[&str]) -> Result<Self, String> {
        let mut group = Self {
            replicas: Vec::new(),
            authority: Authority::new(),
            etcd: Arc::new(Etcd::start()?),
            dir: TempDir::with_prefix("trireme-group-").map_err(|error| error.to_string())?,
        };
        let ports: Vec<u16> = (0..size).map(|_| free_port()).collect();
        let peers: Vec<String> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        let peers = format!("--cluster-peers={}", peers.join(","));
        for port in ports {
            group.start_replica(port, &[flags, &[&peers]].concat())?;
        }
        for replica in &mut group.replicas {
            replica.wait_for_namespaces()?;
        }
        Ok(group)
    }

    /// Starts one more replica, which waits to be added. It is the last of the group's replicas.
    pub fn start_waiting(&mut self) -> Result<(), String> {
        self.start_replica(free_port(), &[])
    }

    /// Starts a server over the same etcd that does not know of the group, which is a mistake.
    pub fn start_stranger(&self) -> Result<Server, String> {
        Server::start_over(Some(Arc::clone(&self.etcd)), &[])
    }

    fn start_replica(&mut self, port: u16, flags: &[&str]) -> Result<(), String> {
        let address = format!("127.0.0.1:{port}");
        let files = PeerFiles::new(self.dir.path(), port);
        fs::write(&files.ca, self.authority.pem()).map_err(|error| error.to_string())?;
        files.write_own(&self.authority);
        let own = [
            format!("--cluster-listen={address}"),
            format!("--cluster-advertise={address}"),
            format!("--cluster-ca-file={}", files.ca.display()),
            format!("--cluster-cert-file={}", files.certificate.display()),
            format!("--cluster-key-file={}", files.key.display()),
        ];
        let own: Vec<&str> = own.iter().map(String::as_str).collect();
        let server = Server::start_over(Some(Arc::clone(&self.etcd)), &[&own, flags].concat())?;
        self.replicas.push(Replica { server, address, files });
        Ok(())
    }

    /// The views of all replicas that answer, by their places.
    fn views(&self) -> BTreeMap<usize, View> {
        let views = self.replicas.iter().enumerate();
        views
            .filter_map(|(place, replica)| Some((place, replica.view()?)))
            .collect()
    }

    /// Waits until each duty is held by exactly one of the replicas at these places, all in all as evenly as can be, and all
    /// of them know it; gives what each holds.
    pub fn wait_until_held_by(&self, places: &[usize], patience: Duration) -> BTreeMap<usize, BTreeSet<String>> {
        let mut held = None;
        until("every duty is held once and evenly", patience, || {
            held = self.held_once_by(places).filter(is_even);
            held.is_some()
        });
        held.expect("it was waited for")
    }

    /// Waits until each duty is held by exactly one of the replicas at these places, and all of them know it; gives how long
    /// that took.
    pub fn wait_until_taken_over_by(&self, places: &[usize], patience: Duration) -> Duration {
        until("every duty is held once", patience, || {
            self.held_once_by(places).is_some()
        })
    }

    /// The duties that each replica at these places holds by its own clock, if each duty is held by one of them and they agree
    /// on that.
    fn held_once_by(&self, places: &[usize]) -> Option<BTreeMap<usize, BTreeSet<String>>> {
        let views: Option<BTreeMap<usize, View>> = places
            .iter()
            .map(|place| Some((*place, self.replicas.get(*place)?.view()?)))
            .collect();
        let views = views?;
        let any = views.values().next()?;
        let held = views.iter().map(|(place, view)| (*place, view.held())).collect();
        let agreed = views.values().all(|view| view.agrees_with(any));
        (agreed && is_all(&held, any.tokens().len())).then_some(held)
    }

    /// The place of the replica that leads, once there is one.
    pub fn leader(&self, patience: Duration) -> usize {
        let mut found = None;
        until("a replica leads", patience, || {
            let views = self.views();
            found = views
                .iter()
                .find(|(_, view)| view.leader() == Some(view.own_id()))
                .map(|(place, _)| *place);
            found.is_some()
        });
        found.expect("it was waited for")
    }
}

/// Returns true if so many duties are held, each once.
fn is_all(held: &BTreeMap<usize, BTreeSet<String>>, all: usize) -> bool {
    let names: BTreeSet<&String> = held.values().flatten().collect();
    let count: usize = held.values().map(BTreeSet::len).sum();
    all > 0 && count == all && names.len() == all
}

fn is_even(held: &BTreeMap<usize, BTreeSet<String>>) -> bool {
    let loads: BTreeSet<usize> = held.values().map(BTreeSet::len).collect();
    loads.last().unwrap_or(&0) - loads.first().unwrap_or(&0) <= 1
}

/// Waits until a condition holds; gives how long that took. Panics with `what` when time runs out.
pub fn until(what: &str, patience: Duration, mut condition: impl FnMut() -> bool) -> Duration {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < patience, "not within {patience:?}: {what}");
        thread::sleep(LOOK_AGAIN);
    }
    begun.elapsed()
}
