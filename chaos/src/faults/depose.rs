//! Fault 5 with proof: the leader is stopped while a write of one of its duties is under way, and goes on when another
//! replica holds that duty.
//!
//! ```text
//!  nemesis    traffic that makes duties write ──┐
//!  leader     ── write under its fence ─► link holds it │ SIGSTOP ·················· SIGCONT ── gets the refusal
//!  others                                               │ another holds the duty ──┐
//!  etcd                                                 │    its fence is raised ──┴─► the held write arrives: refused
//! ```
//! A stop alone hardly ever meets a write: duties write seldom, and a write takes milliseconds. So the write is held in the
//! link to etcd, whole and not lost, as a busy network would. It must arrive before the leader gives it up, which is 5 s
//! after it was sent.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::{BoxFuture, join_all, select_all};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::consumers::{NAMESPACE, make_namespace};
use super::held_write::{self, fence_on_the_wire};
use super::pause::{is_silent, resume};
use super::task::{Stop, Task};
use super::{ActiveFault, Observation, Refusal, skip, text_of};
use crate::history::LateWrite;
use crate::proxy::Link;
use crate::traffic::FENCED;
use crate::world::{LinkId, Part, Probe, World, WorldError, WorldSettings};

/// Without the duties that are kube-controller-manager's, hardly any would write because of requests.
const CONTROLLERS: &str = "--controllers=*";
/// One of the duties that [`requests`] are for looks every 10 s only.
const CATCH_PATIENCE: Duration = Duration::from_secs(12);
/// Another replica must hold the duty by then: the late write is given up 5 s after it was sent.
const MOVE_PATIENCE: Duration = Duration::from_millis(4_500);
/// The write of a leader that was stopped past its lease, if nothing was caught.
const PAST_THE_LEASE: Duration = Duration::from_secs(4);
/// The time limit of the late write to etcd, and its refusal to show in the metrics.
const REFUSAL_PATIENCE: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(20);
const REQUEST_PATIENCE: Duration = Duration::from_secs(1);
const BETWEEN_REQUESTS: Duration = Duration::from_millis(20);
/// Of what the requests make, so much is there at a time.
const KEPT: u64 = 3;
/// The Service `kubernetes` is deleted once in so many rounds.
const ROUNDS_PER_SERVICE: u64 = 100;

/// The settings that this fault needs.
pub(super) fn prepare(settings: &mut WorldSettings) {
    settings.proxied.etcd = true;
    settings.server_flags.push(CONTROLLERS.to_owned());
}

#[derive(Debug)]
struct Depose {
    victim: usize,
    began: Instant,
    late: Option<LateWrite>,
    seen: Arc<Mutex<DeposeObservations>>,
    task: Task<()>,
}

/// The observations so far, in order.
#[derive(Debug, Default)]
struct DeposeObservations {
    steps: Vec<String>,
    /// Everything that makes a late write has happened, up to its refusal.
    all: bool,
    /// The error.
    error: Option<WorldError>,
}

pub(super) async fn begin(world: &Arc<World>) -> Result<Box<dyn ActiveFault>, Refusal> {
    let Some(victim) = world.settled_raft_leader().await else {
        return skip("no replica leads a group");
    };
    let links = links_of(world, victim);
    if links.is_empty() {
        return skip("the links to etcd do not go through fault proxies");
    }
    let held = held_by(&world.group_facts(victim).await?);
    make_namespace(world.probe(), world.address()).await?;
    let caught = catch(world, &links, &held).await;
    let began = Instant::now();
    world.pause(Part::Replica(victim)).await?;
    links.iter().for_each(Link::disarm);
    let late = caught.and_then(|piece| held_write::read(&piece, &held));
    let seen = Arc::<Mutex<DeposeObservations>>::default();
    let stopped = Stopped {
        world: Arc::clone(world),
        victim,
        links,
        late: late.clone(),
        seen: Arc::clone(&seen),
    };
    let task = Task::spawn(|_| stopped.go_through());
    Ok(Box::new(Depose {
        victim,
        began,
        late,
        seen,
        task,
    }))
}

fn links_of(world: &World, victim: usize) -> Vec<Link> {
    let links = world.links().into_iter();
    let own = links.filter(|(id, _)| matches!(id, LinkId::Etcd { replica, .. } if *replica == victim));
    own.map(|(_, link)| link).collect()
}

/// The duties that a replica holds by its own clock, with their tokens.
fn held_by(facts: &Value) -> Vec<(String, u64)> {
    let duties = facts["duties"].as_array().into_iter().flatten();
    let held = duties.filter(|duty| duty["held"] == true);
    held.filter_map(|duty| Some((duty["duty"].as_str()?.to_owned(), duty["token"].as_u64()?)))
        .collect()
}

/// Makes duties write until the links hold such a write; gives the bytes. `None` if none came.
async fn catch(world: &World, links: &[Link], held: &[(String, u64)]) -> Option<Bytes> {
    for link in links {
        link.set_trap(held.iter().map(|(duty, _)| fence_on_the_wire(duty)).collect());
    }
    let (probe, address) = (world.probe().clone(), world.address());
    let requests = Task::spawn(move |stop| ask_for_writes(probe, address, stop));
    let caught = select_all(links.iter().map(|link| Box::pin(link.caught())));
    let caught = timeout(CATCH_PATIENCE, caught).await.ok().map(|(piece, ..)| piece);
    // Ends them where they are: answers that the leader owes are not waited for.
    drop(requests);
    caught
}

/// Requests that give several duties something to write.
async fn ask_for_writes(probe: Probe, address: SocketAddr, mut stop: Stop) {
    for round in 0_u64.. {
        let asked = requests(round).into_iter().map(|(method, path, body)| {
            let probe = &probe;
            async move {
                probe
                    .send(address, method, &path, body.as_ref(), REQUEST_PATIENCE)
                    .await
            }
        });
        // That one fails now and then is no matter: another comes.
        let _ = join_all(asked).await;
        if !stop.pause(BETWEEN_REQUESTS).await {
            return;
        }
    }
}

/// A namespace to fill and one to empty, garbage, a FlowSchema that dangles, and at times a Service that is missed.
fn requests(round: u64) -> Vec<(&'static str, String, Option<Value>)> {
    let name = |round: u64| format!("{NAMESPACE}-{round}");
    let flows = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas";
    let gone = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": name(round)});
    let garbage = json!({"metadata": {"name": name(round), "ownerReferences": [gone]}});
    let nowhere = json!({"priorityLevelConfiguration": {"name": "nowhere"}, "matchingPrecedence": 9_000});
    let dangling = json!({"metadata": {"name": name(round)}, "spec": nowhere});
    let mut requests = vec![
        (
            "POST",
            "/api/v1/namespaces".to_owned(),
            Some(json!({"metadata": {"name": name(round)}})),
        ),
        (
            "POST",
            format!("/api/v1/namespaces/{NAMESPACE}/configmaps"),
            Some(garbage),
        ),
        ("POST", flows.to_owned(), Some(dangling)),
    ];
    if let Some(old) = round.checked_sub(KEPT) {
        requests.push(("DELETE", format!("/api/v1/namespaces/{}", name(old)), None));
        requests.push(("DELETE", format!("{flows}/{}", name(old)), None));
    }
    if round.is_multiple_of(ROUNDS_PER_SERVICE) {
        let service = "/api/v1/namespaces/default/services/kubernetes";
        requests.push(("DELETE", service.to_owned(), None));
    }
    requests
}

/// The leader from its stop to the moment when its write was refused.
struct Stopped {
    world: Arc<World>,
    victim: usize,
    links: Vec<Link>,
    late: Option<LateWrite>,
    seen: Arc<Mutex<DeposeObservations>>,
}

impl Stopped {
    async fn go_through(self) {
        let outcome = self.depose().await;
        let resumed = resume(&self.world, Part::Replica(self.victim));
        self.links.iter().for_each(Link::heal);
        let refused = match (&outcome, &self.late) {
            (Ok(true), Some(late)) => self.is_refused(late).await,
            _ => false,
        };
        let mut seen = lock(&self.seen);
        seen.all = refused;
        seen.error = outcome.err().or(resumed.err());
    }

    fn step(&self, step: String) {
        lock(&self.seen).steps.push(step);
    }

    /// Waits until another replica holds the duty and has raised its fence, then lets the write arrive. Whether all that
    /// was seen.
    async fn depose(&self) -> Result<bool, WorldError> {
        let victim = Part::Replica(self.victim);
        if !self.world.is_paused(victim) || !is_silent(&self.world, victim).await {
            self.step(format!("{victim} is not stopped, or it answers"));
            return Ok(false);
        }
        self.step("the kernel shows it as stopped, and a probe got no answer".to_owned());
        let Some(late) = &self.late else {
            self.step("no write of a duty was under way".to_owned());
            sleep(PAST_THE_LEASE).await;
            return Ok(false);
        };
        let (path, duty, token) = (&late.path, &late.duty, late.token);
        self.step(format!("a write of {duty} under token {token} was held, to {path}"));
        let Ok(moved) = timeout(MOVE_PATIENCE, self.moved(late)).await else {
            self.step(format!("no other replica holds {duty}"));
            return Ok(false);
        };
        self.step(moved?);
        self.let_through().await;
        Ok(true)
    }

    /// Returns when the others name another holder, and its fence is in etcd.
    async fn moved(&self, late: &LateWrite) -> Result<String, WorldError> {
        let others: Vec<usize> = (0..self.world.replicas())
            .filter(|other| *other != self.victim)
            .collect();
        loop {
            let facts = join_all(others.iter().map(|other| self.world.group_facts(*other))).await;
            let taken = facts.iter().flatten().any(|facts| {
                let mine = held_by(facts).into_iter().find(|(duty, _)| *duty == late.duty);
                mine.is_some_and(|(_, token)| token > late.token)
            });
            let fence = self.world.fence(&late.duty).await?;
            if taken && fence > late.token {
                return Ok(format!("another replica holds it, and its fence was raised to {fence}"));
            }
            sleep(LOOK_AGAIN).await;
        }
    }

    /// The leader is still stopped: what etcd says to its write is there when it goes on.
    async fn let_through(&self) {
        let before: Vec<u64> = self.links.iter().map(|link| link.counts().bytes_to_server).collect();
        self.links.iter().for_each(Link::heal);
        let arrived = async {
            while !self
                .links
                .iter()
                .zip(&before)
                .any(|(link, before)| link.counts().bytes_to_server > *before)
            {
                sleep(LOOK_AGAIN).await;
            }
        };
        if timeout(REFUSAL_PATIENCE, arrived).await.is_ok() {
            self.step("the write was released".to_owned());
        }
    }

    /// Returns true if the leader counts a write that its duty's fence has refused. It did not before: it held the duty.
    async fn is_refused(&self, late: &LateWrite) -> bool {
        let counter = format!("{FENCED}{{duty=\"{}\"}}", late.duty);
        let counted = async {
            loop {
                match self.world.counter(self.victim, &counter).await {
                    Some(count @ 1..) => return count,
                    _ => sleep(LOOK_AGAIN).await,
                }
            }
        };
        let counted = timeout(REFUSAL_PATIENCE, counted).await;
        self.step(match counted {
            Ok(count) => format!("{count} refused"),
            Err(_) => "no refusal was counted".to_owned(),
        });
        counted.is_ok()
    }
}

fn lock(seen: &Mutex<DeposeObservations>) -> MutexGuard<'_, DeposeObservations> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ActiveFault for Depose {
    fn targets(&self) -> Vec<String> {
        vec![Part::Replica(self.victim).to_string()]
    }

    fn began(&self) -> Option<Instant> {
        Some(self.began)
    }

    fn late_write(&self) -> Option<LateWrite> {
        self.late.clone()
    }

    fn observe<'a>(&'a mut self, _: &'a World) -> BoxFuture<'a, Observation> {
        let seen = lock(&self.seen);
        let observation = Observation::of(seen.all, seen.steps.join("; "));
        drop(seen);
        Box::pin(async { observation })
    }

    fn done(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(self.task.done())
    }

    fn heal<'a>(&'a mut self, world: &'a World) -> BoxFuture<'a, Result<Vec<String>, WorldError>> {
        Box::pin(async {
            self.task.done().await;
            let error = lock(&self.seen).error.take();
            world.wait_ready(Part::Replica(self.victim)).await?;
            Ok(error
                .map(|error| format!("it ended early: {}", text_of(&error)))
                .into_iter()
                .collect())
        })
    }
}
