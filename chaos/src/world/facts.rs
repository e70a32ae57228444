//! Facts about the parts that can be read from outside.

use std::time::Duration;

use etcd_client::Client;
use futures_util::future::join_all;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::parts::START_PATIENCE;
use super::process::LOOK_AGAIN;
use super::{ClientRoute, EtcdStatus, Part, World, WorldError, etcd};

/// The time limit for a replica to answer about its group.
const PATIENCE: Duration = Duration::from_secs(1);
/// The time limit for its metrics, which are much text.
const METRICS_PATIENCE: Duration = Duration::from_secs(3);

/// An election takes a second, and some more on a machine that has other things to do.
const LEADER_PATIENCE: Duration = Duration::from_secs(10);

/// The prefix of the fences of duties in etcd: the value is the newest token.
pub(crate) const FENCES: &str = "/trireme/fence/registry/";

/// The kernel's figures about a part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartVitals {
    /// The part.
    pub part: Part,
    /// Its process.
    pub process: u32,
    /// Memory that it has, in bytes.
    pub resident_bytes: u64,
    /// Open file descriptors, sockets among them.
    pub open_files: usize,
    /// Threads.
    pub threads: usize,
}

impl World {
    /// The kernel's figures about every part that runs.
    pub fn vitals(&self) -> Vec<PartVitals> {
        let parts = self.parts().into_iter();
        parts.filter_map(|part| self.vitals_of(part)).collect()
    }

    /// The kernel's figures about a part, if it runs.
    pub fn vitals_of(&self, part: Part) -> Option<PartVitals> {
        let usage = match part {
            Part::Replica(index) => self.replica(index).ok()?.process.usage()?,
            Part::Etcd(index) => self.member(index).ok()?.process.usage()?,
            Part::Balancer => self.balancer.process().usage()?,
        };
        Some(PartVitals {
            part,
            process: self.id(part)?,
            resident_bytes: usage.resident_bytes,
            open_files: usage.open_files,
            threads: usage.threads,
        })
    }

    /// A client of etcd that goes past all proxies.
    ///
    /// # Errors
    /// If it cannot be made.
    pub async fn etcd_client(&self) -> Result<Client, WorldError> {
        etcd::connect(&self.etcd_addresses()).await
    }

    /// The status of a member of etcd, if it answers within two seconds.
    pub async fn etcd_status(&self, member: usize) -> Option<EtcdStatus> {
        self.member(member).ok()?.status().await
    }

    /// Which member of etcd leads: the one that the newest term knows.
    pub async fn etcd_leader(&self) -> Option<usize> {
        let statuses = join_all((0..self.etcd.len()).map(|member| self.etcd_status(member))).await;
        let known = statuses.iter().flatten().filter(|status| status.leader != 0);
        let leader = known.max_by_key(|status| status.term)?.leader;
        statuses
            .iter()
            .position(|status| status.as_ref().is_some_and(|status| status.id == leader))
    }

    /// The ids of members of etcd that refuse writes because their space is used up.
    ///
    /// # Errors
    /// If etcd does not answer.
    pub async fn etcd_members_without_space(&self) -> Result<Vec<u64>, WorldError> {
        etcd::members_without_space(&mut self.etcd_client().await?).await
    }

    /// Takes back that alarm. It comes again if the space is still used up.
    ///
    /// # Errors
    /// If etcd does not answer.
    pub async fn etcd_disarm(&self) -> Result<(), WorldError> {
        etcd::disarm(&mut self.etcd_client().await?).await
    }

    /// The view of a replica on its group: `GET /debug/replicas`.
    ///
    /// # Errors
    /// If it does not answer within a second, or not with that.
    pub async fn group_facts(&self, replica: usize) -> Result<Value, WorldError> {
        let wrong = |why: String| WorldError::Answer {
            part: Part::Replica(replica).to_string(),
            what: "about its group",
            why,
        };
        let address = self.replica_address(replica, ClientRoute::Direct)?;
        let (code, body) = self
            .probe
            .get(address, "/debug/replicas", PATIENCE)
            .await
            .map_err(wrong)?;
        match code {
            200 => serde_json::from_slice(&body).map_err(|error| wrong(error.to_string())),
            code => Err(wrong(format!("{code}: {}", String::from_utf8_lossy(&body)))),
        }
    }

    /// The sum of those counters of a replica whose name and labels begin like this; `None` if it does not answer.
    pub async fn counter(&self, replica: usize, begins: &str) -> Option<u64> {
        let address = self.replica_address(replica, ClientRoute::Direct).ok()?;
        let answer = self.probe.get(address, "/metrics", METRICS_PATIENCE).await;
        let (_, metrics) = answer.ok().filter(|(code, _)| *code == 200)?;
        Some(total(&String::from_utf8_lossy(&metrics), begins))
    }

    /// The token that a duty's fence in etcd has been raised to, 0 if it never was.
    ///
    /// # Errors
    /// If etcd does not answer.
    pub async fn fence(&self, duty: &str) -> Result<u64, WorldError> {
        let mut client = self.etcd_client().await?;
        let found = client.get(format!("{FENCES}{duty}"), None).await;
        let found = found.map_err(|error| WorldError::Etcd("read a fence", error))?;
        let token = found
            .kvs()
            .first()
            .and_then(|entry| entry.value_str().ok()?.trim().parse().ok());
        Ok(token.unwrap_or_default())
    }

    /// Which replica leads the group: the one that the newest term knows, of those that answer.
    pub async fn raft_leader(&self) -> Option<usize> {
        let facts = join_all((0..self.replicas.len()).map(|replica| self.group_facts(replica))).await;
        let facts: Vec<Option<Value>> = facts.into_iter().map(Result::ok).collect();
        leader_of(&facts)
    }

    /// The same, but waits for some seconds if there is no leader at this moment or it is too busy to say so. `None` at once in a
    /// world without a group.
    pub async fn settled_raft_leader(&self) -> Option<usize> {
        if !self.settings.group {
            return None;
        }
        let end = Instant::now() + LEADER_PATIENCE;
        loop {
            let leader = self.raft_leader().await;
            if leader.is_some() || Instant::now() > end {
                return leader;
            }
            sleep(LOOK_AGAIN).await;
        }
    }

    /// The state of each replica at the load balancer: `UP`, `DOWN` …
    ///
    /// # Errors
    /// If it does not answer.
    pub async fn balancer_statuses(&self) -> Result<Vec<String>, WorldError> {
        self.balancer.statuses().await
    }

    pub(super) async fn wait_for_etcd(&self) -> Result<(), WorldError> {
        for index in 0..self.etcd.len() {
            self.wait_ready(Part::Etcd(index)).await?;
        }
        Ok(())
    }

    /// A duty makes the namespace `default` some time after the first replica is ready; clients take it for granted.
    pub(super) async fn wait_for_namespace(&self) -> Result<(), WorldError> {
        let path = "/api/v1/namespaces/default";
        let end = Instant::now() + START_PATIENCE;
        while !matches!(self.probe.get(self.address(), path, PATIENCE).await, Ok((200, _))) {
            if Instant::now() > end {
                let process = &self.replica(0)?.process;
                return Err(process.not_in_time("a server with the namespace default", START_PATIENCE));
            }
            sleep(LOOK_AGAIN).await;
        }
        Ok(())
    }

    /// A world without a group has none, and does not wait.
    pub(super) async fn wait_for_leader(&self) -> Result<(), WorldError> {
        let end = Instant::now() + START_PATIENCE;
        while self.settings.group && self.raft_leader().await.is_none() {
            if Instant::now() > end {
                return Err(self
                    .replica(0)?
                    .process
                    .not_in_time("in a group with a leader", START_PATIENCE));
            }
            sleep(LOOK_AGAIN).await;
        }
        Ok(())
    }
}

/// The index of the leader among what each replica reports, if one is known and is among them.
fn leader_of(facts: &[Option<Value>]) -> Option<usize> {
    let known = facts.iter().flatten().filter(|facts| !facts["leader"].is_null());
    let newest = known.max_by_key(|facts| facts["term"].as_u64())?;
    let leader = &newest["leader"];
    facts
        .iter()
        .position(|facts| facts.as_ref().is_some_and(|facts| facts["self"] == *leader))
}

/// The sum of a counter over all samples that begin like this.
pub(crate) fn total(metrics: &str, begins: &str) -> u64 {
    let samples = metrics.lines().filter(|line| line.starts_with(begins));
    let values = samples.filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok());
    values.sum()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_counter_is_summed_over_its_labels() {
        let metrics = "# HELP a_total x\na_total{duty=\"x\"} 2\na_total{duty=\"y\"} 3\nb_total 7\n";
        assert_eq!(total(metrics, "a_total"), 5);
        assert_eq!(total(metrics, "a_total{duty=\"y\"}"), 3);
    }

    #[test]
    fn the_newest_term_knows_the_leader() {
        let facts = [
            Some(json!({"self": 11, "leader": 11, "term": 3})),
            Some(json!({"self": 12, "leader": 13, "term": 4})),
            Some(json!({"self": 13, "leader": 13, "term": 4})),
        ];
        assert_eq!(leader_of(&facts), Some(2));
    }

    #[test]
    fn a_leader_that_does_not_answer_is_not_named() {
        let facts = [Some(json!({"self": 11, "leader": 12, "term": 3})), None];
        assert_eq!(leader_of(&facts), None);
        assert_eq!(leader_of(&[Some(json!({"self": 11, "leader": null, "term": 3}))]), None);
    }
}
