//! Overrides of `docker-compose.yml` for an experiment, as a second file of it: JSON, which is YAML.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::super::credentials::CredentialFiles;
use super::super::replica::AUDIT_LOG;
use super::plan::NetworkPlan;

/// The services that a world has, by its indexes. Prometheus and Grafana are left out: nothing asks them.
pub(super) const PKI: &str = "pki";
pub(super) const BALANCER: &str = "haproxy";

/// The service of a replica.
pub(super) fn replica(index: usize) -> String {
    format!("trireme-{}", index + 1)
}

/// The service of a member of etcd.
pub(super) fn member(index: usize) -> String {
    format!("etcd-{}", index + 1)
}

/// The paths of files within the containers.
const CREDENTIALS: &str = "/chaos";
const DATA_DIR: &str = "/var/lib/trireme";
const BALANCER_CONFIGURATION: &str = "/etc/trireme/haproxy.cfg";

/// The differences from a deployment.
#[derive(Debug)]
pub(super) struct Overrides<'a> {
    pub(super) plan: NetworkPlan,
    pub(super) replicas: usize,
    pub(super) members: usize,
    /// The directory of the files by which replicas know users.
    pub(super) credentials: PathBuf,
    pub(super) server_flags: &'a [String],
    pub(super) etcd_flags: &'a [String],
    /// The addresses at which each replica reaches each member of etcd, if not at its own.
    pub(super) ways_to_etcd: Option<Vec<Vec<SocketAddr>>>,
    /// The addresses at which peers reach each replica, if not at its own.
    pub(super) ways_to_peers: Option<Vec<SocketAddr>>,
    /// A configuration of HAProxy in the place of its own.
    pub(super) balancer_configuration: Option<PathBuf>,
}

impl Overrides<'_> {
    /// The file.
    pub(super) fn text(&self) -> String {
        let [front, store] = self.plan.subnets();
        let network = |subnet: String| json!({"ipam": {"config": [{"subnet": subnet}]}});
        let mut services = BTreeMap::from([(PKI.to_owned(), self.pki()), (BALANCER.to_owned(), self.balancer())]);
        services.extend((0..self.members).map(|index| (member(index), self.member(index))));
        services.extend((0..self.replicas).map(|index| (replica(index), self.replica(index))));
        let networks = json!({"default": network(front), "store": network(store)});
        let file = json!({"services": services, "networks": networks});
        // Compose would take the sign for the beginning of a variable.
        format!("{file:#}\n").replace('$', "$$")
    }

    /// Certificates that name the addresses that clients connect to: those of the parts, and of the proxies.
    fn pki(&self) -> Value {
        let mut command: Vec<String> = ["pki", "init", "--dir=/pki"].map(str::to_owned).to_vec();
        command.extend((0..self.replicas).map(|index| {
            let (name, plan) = (replica(index), &self.plan);
            format!("--replica={name}={name},{},{}", plan.replica(index), plan.gateway())
        }));
        command.push(format!("--server=https://{}", self.plan.front_door()));
        json!({"command": command})
    }

    fn member(&self, index: usize) -> Value {
        let command: Vec<&str> = std::iter::once("etcd")
            .chain(self.etcd_flags.iter().map(String::as_str))
            .collect();
        json!({
            // Who was killed is dead until the experiment starts it.
            "restart": "no",
            "command": command,
            "networks": {"store": {"ipv4_address": self.plan.member(index)}},
        })
    }

    fn replica(&self, index: usize) -> Value {
        let mut command = vec!["serve".to_owned()];
        let audit_log = Path::new(DATA_DIR).join(AUDIT_LOG);
        command.extend(CredentialFiles::flags(Path::new(CREDENTIALS), &audit_log));
        command.extend_from_slice(self.server_flags);
        // The experiment starts everything itself and in order, which Compose would wait for in vain.
        let mut awaited = BTreeMap::from([(PKI.to_owned(), json!({"condition": "service_started"}))]);
        awaited.extend((0..self.members).map(|member| (self::member(member), json!({"condition": "service_started"}))));
        json!({
            "restart": "no",
            "command": command,
            "environment": self.environment(index),
            "depends_on": awaited,
            "networks": {
                "default": {"ipv4_address": self.plan.replica(index)},
                "store": {"ipv4_address": self.plan.replica_at_store(index)},
            },
            "volumes": [format!("{}:{CREDENTIALS}:ro", self.credentials.display())],
        })
    }

    /// The way over the links.
    fn environment(&self, index: usize) -> BTreeMap<&'static str, String> {
        let mut environment = BTreeMap::new();
        if let Some(ways) = self.ways_to_etcd.as_ref().and_then(|ways| ways.get(index)) {
            let urls: Vec<String> = ways.iter().map(|address| format!("http://{address}")).collect();
            environment.insert("TRIREME_ETCD_SERVERS", urls.join(","));
        }
        if let Some(ways) = &self.ways_to_peers
            && let Some(own) = ways.get(index)
        {
            let all: Vec<String> = ways.iter().map(ToString::to_string).collect();
            environment.insert("TRIREME_CLUSTER_PEERS", all.join(","));
            environment.insert("TRIREME_CLUSTER_ADVERTISE", own.to_string());
        }
        environment
    }

    fn balancer(&self) -> Value {
        let configuration = self.balancer_configuration.iter();
        let volumes: Vec<String> = configuration
            .map(|file| format!("{}:{BALANCER_CONFIGURATION}:ro", file.display()))
            .collect();
        json!({
            "restart": "no",
            "depends_on": {PKI: {"condition": "service_started"}},
            "networks": {"default": {"ipv4_address": self.plan.balancer()}},
            "volumes": volumes,
        })
    }
}

/// HAProxy's configuration with other addresses of the replicas; `None` if it does not name them all.
pub(super) fn behind_links(configuration: &str, linked: &[SocketAddr]) -> Option<String> {
    let mut text = configuration.to_owned();
    for (index, address) in linked.iter().enumerate() {
        let name = replica(index);
        let server = format!(" server {name} {name}:6443\n");
        if !text.contains(&server) {
            return None;
        }
        text = text.replace(&server, &format!(" server {name} {address}\n"));
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    fn overrides(flags: &[String]) -> Overrides<'_> {
        Overrides {
            plan: NetworkPlan::choose(7).unwrap(),
            replicas: 3,
            members: 3,
            credentials: "/run/a$b/credentials".into(),
            server_flags: flags,
            etcd_flags: flags,
            ways_to_etcd: None,
            ways_to_peers: None,
            balancer_configuration: None,
        }
    }

    fn parsed(overrides: &Overrides<'_>) -> Value {
        serde_json::from_str(&overrides.text()).unwrap()
    }

    #[test]
    fn every_part_has_an_address_of_its_own_and_stays_dead() {
        let file = parsed(&overrides(&[]));
        let services = file["services"].as_object().unwrap();
        let mut addresses = Vec::new();
        for (name, service) in services.iter().filter(|(name, _)| *name != PKI) {
            assert_eq!(service["restart"], "no", "{name}");
            let networks = service["networks"].as_object().unwrap();
            addresses.extend(networks.values().map(|network| network["ipv4_address"].to_string()));
        }
        assert_eq!(addresses.len(), 3 * 2 + 3 + 1);
        addresses.sort();
        addresses.dedup();
        assert_eq!(addresses.len(), 3 * 2 + 3 + 1);
    }

    #[test]
    fn nothing_else_is_other_than_in_a_deployment_if_nothing_is_asked_for() {
        let file = parsed(&overrides(&[]));
        let replica = &file["services"]["trireme-2"];
        assert_eq!(replica["environment"], json!({}));
        assert_eq!(
            replica["command"],
            json!([
                "serve",
                "--token-auth-file=/chaos/tokens.csv",
                "--client-ca-file=/chaos/clients.crt",
                "--audit-policy-file=/chaos/audit-policy.yaml",
                "--audit-log-path=/var/lib/trireme/audit.log",
                "--audit-log-mode=blocking-strict",
            ])
        );
        assert_eq!(
            replica["volumes"],
            json!(["/run/a$$b/credentials:/chaos:ro"]),
            "a dollar is no variable"
        );
        assert_eq!(file["services"]["etcd-1"]["command"], json!(["etcd"]));
        assert_eq!(file["services"]["haproxy"]["volumes"], json!([]));
    }

    #[test]
    fn links_and_flags_are_where_they_belong() {
        let flags = ["--controllers=*".to_owned()];
        let ways = vec![address("10.0.0.1:1"), address("10.0.0.1:2"), address("10.0.0.1:3")];
        let file = parsed(&Overrides {
            ways_to_etcd: Some(vec![ways.clone(), ways.iter().rev().copied().collect(), Vec::new()]),
            ways_to_peers: Some(ways),
            balancer_configuration: Some("/run/haproxy.cfg".into()),
            ..overrides(&flags)
        });
        let services = &file["services"];
        let second = &services["trireme-2"]["environment"];
        assert_eq!(
            second["TRIREME_ETCD_SERVERS"],
            "http://10.0.0.1:3,http://10.0.0.1:2,http://10.0.0.1:1"
        );
        assert_eq!(second["TRIREME_CLUSTER_PEERS"], "10.0.0.1:1,10.0.0.1:2,10.0.0.1:3");
        assert_eq!(second["TRIREME_CLUSTER_ADVERTISE"], "10.0.0.1:2");
        assert_eq!(services["trireme-1"]["command"][6], "--controllers=*");
        assert_eq!(services["etcd-3"]["command"], json!(["etcd", "--controllers=*"]));
        let mounted = &services["haproxy"]["volumes"][0];
        assert_eq!(*mounted, "/run/haproxy.cfg:/etc/trireme/haproxy.cfg:ro");
    }

    #[test]
    fn the_load_balancer_of_deployments_can_be_put_behind_links() {
        let deployed = include_str!("../../../../deploy/haproxy/haproxy.cfg");
        let linked = ["10.0.0.1:1", "10.0.0.1:2", "10.0.0.1:3"].map(address);
        let text = behind_links(deployed, &linked).unwrap();
        assert_eq!(text.matches(" server trireme-3 10.0.0.1:3\n").count(), 2, "{text}");
        assert!(!text.contains(":6443\n    server"), "{text}");
        assert_eq!(behind_links("server a b:1\n", &linked), None);
    }
}
