//! Ten users who list all pods, and what they must not hold up: kube-controller-manager renews its lease in a priority level of
//! its own, and probes succeed. Lists are made by a thread of their own, so that the renewals are not timed with their decoding.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use serde_json::json;
use tokio::runtime::Builder;
use trireme_http::client::StatusCode;

use super::Bench;
use crate::client::{Call, Session};
use crate::failure::Failure;
use crate::measure::{LoadOperation, Measured, drive};
use crate::report::float;
use crate::target::ServerTarget;

/// Users, each with so many lists at a time.
const USERS: usize = 10;
const LISTS_OF_EACH: usize = 2;
/// The user whose leases have a priority level of their own.
const HOLDER: &str = "system:kube-controller-manager";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
/// Between two probes.
const PROBE_PACE: Duration = Duration::from_millis(20);

/// Renews a lease.
struct LeaseRenewal {
    session: Session,
    path: String,
}

impl LoadOperation for LeaseRenewal {
    async fn once(&mut self, number: u64) -> Result<u64, Failure> {
        let renewed = json!({"spec": {"leaseTransitions": number}}).to_string();
        let call = Call::merge_patch(&self.path, renewed);
        let body = self.session.expect(&call, StatusCode::OK).await?;
        Ok(body.len() as u64)
    }
}

pub(super) async fn run(bench: &mut Bench) -> Result<(), Failure> {
    bench.ensure_pods().await?;
    let path = prepare(bench).await?;
    let measured = renew(bench, &path).await?;
    let row = bench.row("renew a lease, alone", &measured)?;
    bench.report.row(row);
    let flood = Flood::begin(bench.target.clone())?;
    let measured = renew(bench, &path).await;
    let (lists, refused, took) = flood.end()?;
    let row = bench.row("renew a lease beside full lists of 10 users", &measured?)?;
    let row = row
        .with("lists a second", float(lists) / took.as_secs_f64())
        .with("lists refused with 429", float(refused));
    bench.report.row(row);
    Ok(())
}

/// Makes the lease, and lets the users do what they are to do.
async fn prepare(bench: &Bench) -> Result<String, Failure> {
    let mut session = Session::open(&bench.target).await?;
    let name = &bench.namespace;
    let users = (0..USERS).map(lister).chain([HOLDER.to_owned()]);
    let group = "rbac.authorization.k8s.io";
    let subjects: Vec<_> = users
        .map(|user| json!({"kind": "User", "apiGroup": group, "name": user}))
        .collect();
    let binding = json!({
        "metadata": {"name": name}, "subjects": subjects,
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
    });
    let lease = json!({"metadata": {"name": name}});
    for (path, object) in [(BINDINGS, binding), (LEASES, lease)] {
        session
            .expect(&Call::post(path, object.to_string()), StatusCode::CREATED)
            .await?;
    }
    Ok(format!("{LEASES}/{name}"))
}

fn lister(user: usize) -> String {
    format!("bench-lister-{user}")
}

async fn renew(bench: &Bench, path: &str) -> Result<Measured, Failure> {
    let mut renewals = [LeaseRenewal {
        session: Session::open(&bench.target).await?.acting_as(HOLDER),
        path: path.to_owned(),
    }];
    let probes = Session::open(&bench.target).await?;
    tokio::select! {
        measured = drive(bench.target.pid, bench.window(), &mut renewals) => measured,
        failure = probe(probes) => Err(failure),
    }
}

/// Probes until one fails.
async fn probe(mut session: Session) -> Failure {
    loop {
        for path in ["/livez", "/readyz"] {
            if let Err(failure) = session.expect(&Call::get(path), StatusCode::OK).await {
                return failure;
            }
            tokio::time::sleep(PROBE_PACE).await;
        }
    }
}

/// The users, on a thread of their own.
struct Flood {
    is_over: Arc<AtomicBool>,
    begun: Instant,
    thread: JoinHandle<Result<(u64, u64), Failure>>,
}

impl Flood {
    fn begin(target: ServerTarget) -> Result<Self, Failure> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(Failure::io("start a runtime"))?;
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let thread = std::thread::spawn(move || runtime.block_on(list_all(&target, &over)));
        Ok(Self {
            is_over,
            begun: Instant::now(),
            thread,
        })
    }

    /// The number of lists, of those that were refused, and the time.
    fn end(self) -> Result<(u64, u64, Duration), Failure> {
        self.is_over.store(true, Ordering::Relaxed);
        let took = self.begun.elapsed();
        let panicked = |_| Failure::Wrong("the thread of the lists has panicked".to_owned());
        let (lists, refused) = self.thread.join().map_err(panicked)??;
        Ok((lists, refused, took))
    }
}

async fn list_all(target: &ServerTarget, is_over: &AtomicBool) -> Result<(u64, u64), Failure> {
    let users = (0..USERS * LISTS_OF_EACH).map(|number| async move {
        let mut session = Session::open(target).await?.acting_as(&lister(number % USERS));
        let call = Call::get("/api/v1/pods");
        let (mut lists, mut refused) = (0, 0);
        while !is_over.load(Ordering::Relaxed) {
            match session.answer(&call).await? {
                (StatusCode::OK, _) => lists += 1,
                (StatusCode::TOO_MANY_REQUESTS, _) => refused += 1,
                (status, body) => return Err(call.wrong_status(status, &body)),
            }
        }
        Ok((lists, refused))
    });
    let counts: Vec<(u64, u64)> = try_join_all(users).await?;
    let sum = |(lists, refused): (u64, u64), (more, others): (u64, u64)| (lists + more, refused + others);
    Ok(counts.into_iter().fold((0, 0), sum))
}
