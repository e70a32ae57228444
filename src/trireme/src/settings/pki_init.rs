//! The words of `trireme pki init`: for which replicas certificates and keys are made, and where.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr};
use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Command};
use trireme_machinery::names::{dns1123_label, dns1123_subdomain};

use super::errors::{SettingError, SettingsErrors};
use super::values::{IpRange, list, port};

/// A directory of this name is for what reads metrics.
const RESERVED: &str = "monitoring";
const REPLICA: &str = "give NAME=HOST[,HOST…]: a DNS label of its own, and the names or addresses that clients and the \
                       load balancer reach the replica at";
const SERVER: &str = "give the URL that clients use, https://HOST[:PORT], such as that of the load balancer";
const AFTER_HELP: &str = "DIR/NAME holds all that the replica NAME needs. A second call keeps what is there, adds replicas that are new, and \
     renews what is soon over.";

/// The files that `trireme pki init` was asked to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PkiInit {
    /// The directory of the files.
    pub(crate) dir: PathBuf,
    /// For whom; at least one, no name twice.
    pub(crate) replicas: Vec<ReplicaHosts>,
    /// The URL in the kubeconfig, `https://host[:port]`.
    pub(crate) server: String,
    /// The host in that URL: clients look for it in the serving certificates.
    pub(crate) server_host: String,
    /// The group's name, in the certificates that replicas show each other.
    pub(crate) cluster_name: String,
    /// The IP of the service `default/kubernetes`.
    pub(crate) service_address: IpAddr,
}

/// A replica, and where it is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReplicaHosts {
    /// Its name, which is that of its directory.
    pub(crate) name: String,
    /// DNS names and IP addresses.
    pub(crate) hosts: Vec<String>,
}

/// The command line's values as text.
#[derive(Debug)]
pub(super) struct PkiInitArgs {
    dir: String,
    replicas: Vec<String>,
    server: String,
    cluster_name: String,
    service_range: String,
}

/// `trireme pki`, for the command line.
pub(super) fn command() -> Command {
    let required = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).help(help).required(true)
    };
    let init = Command::new("init")
        .about("Make the CAs, certificates, keys and the admin kubeconfig of replicas that serve one cluster")
        .after_help(AFTER_HELP)
        .arg(required(
            "dir",
            "DIR",
            "Where the files go; keep it, it holds the keys of the CAs",
        ))
        .arg(
            required(
                "replica",
                "NAME=HOST[,HOST…]",
                "A replica and where it is reached; repeat for each",
            )
            .action(ArgAction::Append),
        )
        .arg(required(
            "server",
            "URL",
            "Where clients reach the API: goes into admin.kubeconfig and the certificates",
        ))
        .arg(
            Arg::new("cluster-name")
                .long("cluster-name")
                .value_name("NAME")
                .help("The replica group's name, as in trireme serve")
                .default_value("trireme"),
        )
        .arg(
            Arg::new("service-cluster-ip-range")
                .long("service-cluster-ip-range")
                .value_name("CIDR")
                .help("Where service IPs come from, as in trireme serve")
                .default_value("10.96.0.0/12"),
        );
    Command::new("pki")
        .about("Make certificates and keys")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(init)
}

/// Takes the values out of the command line.
pub(super) fn words(pki: &ArgMatches) -> PkiInitArgs {
    let (_, init) = pki
        .subcommand()
        .expect("clap asks for a subcommand, and init is the only one");
    let all = |name| init.get_many::<String>(name).into_iter().flatten().cloned();
    let one = |name| all(name).next().unwrap_or_default();
    PkiInitArgs {
        dir: one("dir"),
        replicas: all("replica").collect(),
        server: one("server"),
        cluster_name: one("cluster-name"),
        service_range: one("service-cluster-ip-range"),
    }
}

/// Reads the arguments, or returns all their errors.
pub(super) fn read(words: &PkiInitArgs) -> Result<PkiInit, SettingsErrors> {
    let mut errors = Vec::new();
    let mut error = |name: &str, value: &str, allowed: &str| {
        errors.push(SettingError {
            origin: format!("--{name}"),
            value: Some(value.to_owned()),
            allowed: allowed.to_owned(),
        });
    };
    let mut replicas: Vec<ReplicaHosts> = Vec::new();
    let mut names = BTreeSet::from([RESERVED.to_owned()]);
    for text in &words.replicas {
        match replica(text).filter(|replica| names.insert(replica.name.clone())) {
            Some(replica) => replicas.push(replica),
            None => error("replica", text, REPLICA),
        }
    }
    let server_host = server_host(&words.server);
    if server_host.is_none() {
        error("server", &words.server, SERVER);
    }
    if !dns1123_subdomain(&words.cluster_name).is_empty() {
        error(
            "cluster-name",
            &words.cluster_name,
            "give a DNS name, such as trireme or blue.example",
        );
    }
    let ranges = IpRange::parse_list(&words.service_range);
    let range = ranges.and_then(|ranges| ranges.first().copied());
    if range.is_none() {
        error(
            "service-cluster-ip-range",
            &words.service_range,
            "give one range such as 10.96.0.0/12, or one of each family",
        );
    }
    match (server_host, range) {
        (Some(server_host), Some(range)) if errors.is_empty() => Ok(PkiInit {
            dir: PathBuf::from(&words.dir),
            replicas,
            server: words.server.trim_end_matches('/').to_owned(),
            server_host,
            cluster_name: words.cluster_name.clone(),
            service_address: range.first_address(),
        }),
        _ => Err(SettingsErrors(errors)),
    }
}

fn replica(text: &str) -> Option<ReplicaHosts> {
    let (name, hosts) = text.split_once('=')?;
    let hosts = list(hosts).map(host).collect::<Option<Vec<String>>>()?;
    let is_good = dns1123_label(name).is_empty() && !hosts.is_empty();
    is_good.then(|| ReplicaHosts {
        name: name.to_owned(),
        hosts,
    })
}

/// A name or an address as a certificate says it, so that one made earlier is known again.
fn host(text: &str) -> Option<String> {
    match text.parse::<IpAddr>() {
        Ok(address) => Some(address.to_string()),
        Err(_) => dns1123_subdomain(text).is_empty().then(|| text.to_owned()),
    }
}

/// The host of `https://HOST[:PORT]`, without the brackets of an IPv6 address.
fn server_host(url: &str) -> Option<String> {
    let authority = url.strip_prefix("https://")?.trim_end_matches('/');
    let (name, number) = match authority.rsplit_once(':') {
        Some((name, number)) if !number.ends_with(']') => (name, Some(number)),
        _ => (authority, None),
    };
    let has_good_port = number.is_none_or(|number| port(number).is_some());
    let server = match name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(address) => address.parse::<Ipv6Addr>().ok().map(|address| address.to_string()),
        None => host(name).filter(|host| !host.contains(':')),
    };
    server.filter(|_| has_good_port)
}
