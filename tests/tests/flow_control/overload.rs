//! A flood of lists in one level, and the requests of others beside it.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use serde_json::json;
use trireme_tests::{
    Server, StoreChoice,
    group::until,
    http::{Answer, Client, Connection, Request},
};

use super::{CONFIG_MAPS, Names, PATIENCE, WAITING, column, create, get};

/// Users whose lists fill their level, each with so many requests at a time.
const LISTERS: usize = 10;
const LISTS_OF_EACH: usize = 2;
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager";
/// Renewals of a lease that are timed.
const RENEWALS: usize = 100;
/// A debug build beside other tests may take so many times as long as without load. The bench says what a server takes on a quiet
/// machine (docs/performance.md).
const MOST_TIMES: u32 = 25;
/// The floods of which one must leave the lease its time: a machine may be busy with something else.
const FLOODS: usize = 5;
/// Times below this are the machine's noise.
const NOISE: Duration = Duration::from_millis(20);

/// Allows a subject everything.
fn allow(admin: &Client, kind: &str, name: &str) {
    create(
        admin,
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        &json!({
            "metadata": { "name": format!("all-{name}") },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin" },
            "subjects": [{ "kind": kind, "name": name, "apiGroup": "rbac.authorization.k8s.io" }],
        }),
    );
}

/// Lists all config maps in the name of one of the users.
fn list_as(admin: &Client, user: usize) -> Answer {
    let headers = [
        ("Impersonate-User", format!("lister-{user}")),
        ("Impersonate-Group", "listers".to_owned()),
    ];
    let request = Request {
        method: "GET",
        path: CONFIG_MAPS,
        headers: &headers.map(|(name, value)| (name.to_owned(), value)),
        ..Request::default()
    };
    admin.send(&request).expect("the server answers")
}

/// One who renews a lease on one connection, and is timed.
struct LeaseHolder(Connection);

impl LeaseHolder {
    fn connect(admin: &Client) -> Self {
        Self(admin.open().expect("it connects"))
    }

    fn send(&mut self, head: &str, body: &str) -> Duration {
        let length = body.len();
        let request = format!(
            "{head}Host: h\r\nContent-Type: application/merge-patch+json\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        let method = head.split(' ').next().unwrap_or_default();
        let begun = Instant::now();
        let answer = self.0.send_raw(request.as_bytes(), method).expect("it is answered");
        assert_eq!(answer.code, 200, "{head}: {}", answer.text());
        begun.elapsed()
    }

    /// The time that 95 of 100 renewals stay below. Each comes with a probe that has to succeed.
    fn renew(&mut self) -> Duration {
        let mut took: Vec<Duration> = (0..RENEWALS)
            .map(|turn| {
                self.send(["GET /livez HTTP/1.1\r\n", "GET /readyz HTTP/1.1\r\n"][turn % 2], "");
                let renewed = json!({ "spec": { "holderIdentity": "kcm", "leaseTransitions": turn } });
                let head = format!("PATCH {LEASE} HTTP/1.1\r\nAuthorization: Bearer kcm-token\r\n");
                self.send(&head, &renewed.to_string())
            })
            .collect();
        took.sort();
        took[RENEWALS * 95 / 100]
    }
}

/// Ends the lists when it is dropped, also by a panic: their threads are waited for.
struct EndsLists<'o>(&'o AtomicBool);

impl Drop for EndsLists<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_lease_is_renewed_and_probes_succeed_beside_full_lists_of_ten_users() {
    // So few that the lists are more than the seats of their level with all that it may borrow after a while.
    let flags = ["--max-requests-inflight=16", "--max-mutating-requests-inflight=8"];
    let server = Server::try_start(StoreChoice::Embedded, &flags).unwrap_or_else(|error| panic!("{error}"));
    let admin = server.client();
    allow(&admin, "Group", "listers");
    allow(&admin, "User", "system:kube-controller-manager");
    let leases = LEASE.strip_suffix("/kube-controller-manager").expect("the collection");
    create(
        &admin,
        leases,
        &json!({ "metadata": { "name": "kube-controller-manager" } }),
    );
    let kcm = admin.with_token("kcm-token");
    until("the default objects count", PATIENCE, || {
        let names = Names::read(&admin);
        names.of(&get(&kcm, LEASE)) == "system-leader-election leader-election"
            && names.of(&list_as(&admin, 0)) == "global-default global-default"
    });
    // More than the kernel holds for a connection, so that a list keeps its seats until its client has read most of it.
    for number in 0..300 {
        let object = json!({ "metadata": { "name": format!("big-{number}") }, "data": { "k": "v".repeat(60_000) } });
        create(&admin, CONFIG_MAPS, &object);
    }
    let mut holder = LeaseHolder::connect(&admin);
    let is_spared = (0..FLOODS).any(|_| {
        let idle = holder.renew();
        let (beside, list) = flood(&admin, &mut holder);
        println!("{beside:?} for the lease beside lists, {idle:?} without; {list:?} for a list");
        // One who waits with them takes about as long as they do.
        beside <= idle.max(NOISE) * MOST_TIMES && beside * 2 < list
    });
    assert!(is_spared, "none of {FLOODS} floods left the lease its time");
}

/// Fills a level with lists. The time that renewals take meanwhile, and that of a list in the middle.
fn flood(admin: &Client, holder: &mut LeaseHolder) -> (Duration, Duration) {
    let is_over = AtomicBool::new(false);
    let list = |user: usize| {
        let mut took = Vec::new();
        while !is_over.load(Ordering::Relaxed) {
            let begun = Instant::now();
            let code = list_as(admin, user).code;
            assert!(matches!(code, 200 | 429), "{code}");
            took.push(begun.elapsed());
        }
        took
    };
    let (beside, mut lists) = thread::scope(|scope| {
        let over = EndsLists(&is_over);
        let listers: Vec<_> = (0..LISTERS * LISTS_OF_EACH)
            .map(|number| {
                let list = &list;
                scope.spawn(move || list(number % LISTERS))
            })
            .collect();
        until("lists wait for each other", PATIENCE, || {
            column(admin, "global-default", WAITING) != "0"
        });
        let beside = holder.renew();
        drop(over);
        let lists = listers.into_iter().flat_map(|lister| lister.join().expect("it lists"));
        (beside, lists.collect::<Vec<_>>())
    });
    lists.sort();
    (beside, lists[lists.len() / 2])
}
