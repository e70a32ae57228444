//! Clients of several makes, each in the way it is mostly used. None gets an error that asks it to try again.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use futures_util::future::join_all;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, ResourceExt as _};
use serde_json::json;
use trireme_tests::folder;
use trireme_tests::process::find_program;
use trireme_tests::server::ADMIN_TOKEN;

use crate::Scene;
use crate::watching::Watched;

pub(crate) const NAMESPACE: &str = "rolling";
const PAUSE: Duration = Duration::from_millis(20);
const KUBE_WRITERS: usize = 4;

/// The observations of each kind of client.
#[derive(Default)]
pub(crate) struct Tally(Mutex<BTreeMap<&'static str, Count>>);

#[derive(Default)]
struct Count {
    answered: usize,
    /// Since the last restart.
    recently: usize,
    failed: Vec<String>,
}

impl Tally {
    fn note(&self, client: &'static str, result: Result<(), String>) {
        let mut counts = self.0.lock().expect("no holder panics");
        let count = counts.entry(client).or_default();
        match result {
            Ok(()) => {
                count.answered += 1;
                count.recently += 1;
            }
            Err(error) => count.failed.push(error),
        }
    }

    pub(crate) fn expect(&self, client: &'static str) {
        self.0.lock().expect("no holder panics").entry(client).or_default();
    }

    pub(crate) fn answered(&self) -> usize {
        let counts = self.0.lock().expect("no holder panics");
        counts.values().map(|count| count.answered).sum()
    }

    /// Returns true if every make has had some since the last restart.
    pub(crate) fn all_have_answers(&self) -> bool {
        let counts = self.0.lock().expect("no holder panics");
        !counts.is_empty() && counts.values().all(|count| count.recently > 3)
    }

    pub(crate) fn begin_anew(&self) {
        let mut counts = self.0.lock().expect("no holder panics");
        counts.values_mut().for_each(|count| count.recently = 0);
    }

    pub(crate) fn failures(&self) -> Vec<String> {
        let counts = self.0.lock().expect("no holder panics");
        let lines = counts
            .iter()
            .flat_map(|(client, count)| count.failed.iter().map(move |error| format!("{client}: {error}")));
        lines.collect()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (client, count) in self.0.lock().expect("no holder panics").iter() {
            writeln!(
                f,
                "{client}: {} answered, {} failed",
                count.answered,
                count.failed.len()
            )?;
        }
        Ok(())
    }
}

/// Makes the namespace that all write into; says its revision.
pub(crate) async fn prepare(scene: &Scene) -> String {
    let namespace = Namespace {
        metadata: named(NAMESPACE),
        ..Namespace::default()
    };
    let namespaces: Api<Namespace> = Api::all(connect(&scene.kubeconfig()).await);
    let created = namespaces.create(&PostParams::default(), &namespace).await;
    created
        .expect("created")
        .resource_version()
        .expect("every object has one")
}

/// The kube crate: HTTP/1.1 connections from pools, to what `kubeconfig` names. Until the scene ends.
pub(crate) async fn kube(scene: &Scene, kubeconfig: PathBuf, tally: &Tally, watched: &Watched) {
    join_all((0..KUBE_WRITERS).map(|writer| write_and_read(scene, &kubeconfig, tally, watched, writer))).await;
}

pub(crate) async fn connect(kubeconfig: &Path) -> Client {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).expect("it was written");
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    Client::try_from(config.expect("it is complete")).expect("a client")
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        ..ObjectMeta::default()
    }
}

async fn write_and_read(scene: &Scene, kubeconfig: &Path, tally: &Tally, watched: &Watched, writer: usize) {
    let configmaps: Api<ConfigMap> = Api::namespaced(connect(kubeconfig).await, NAMESPACE);
    let mut number = 0;
    while !scene.has_ended() {
        number += 1;
        let name = format!("kube-{writer}-{number}");
        let configmap = ConfigMap {
            metadata: named(&name),
            ..ConfigMap::default()
        };
        let written = |result: kube::Result<ConfigMap>| {
            let result = result.map(|object| watched.wrote(&object));
            tally.note("kube-rs", result.map_err(|error| format!("{error:?}")));
        };
        written(configmaps.create(&PostParams::default(), &configmap).await);
        let patch = Patch::Merge(json!({ "data": { "value": "2" } }));
        written(configmaps.patch(&name, &PatchParams::default(), &patch).await);
        let read = |result: kube::Result<()>| tally.note("kube-rs", result.map_err(|error| format!("{error:?}")));
        read(configmaps.get(&name).await.map(drop));
        read(configmaps.list(&ListParams::default().limit(5)).await.map(drop));
        read(configmaps.delete(&name, &DeleteParams::default()).await.map(drop));
        tokio::time::sleep(PAUSE).await;
    }
}

/// kubectl: HTTP/2, a few requests a process. Until the scene ends.
pub(crate) fn kubectl(scene: &Scene, tally: &Tally) {
    let program = find_program("kubectl").expect("kubectl; run: scripts/install-tools test");
    while !scene.has_ended() {
        let mut command = Command::new(&program);
        command
            .env("KUBECONFIG", scene.kubeconfig())
            .env("KUBECACHEDIR", scene.dir.path())
            .args(["get", "configmaps,secrets", "--namespace", NAMESPACE]);
        let output = command.output().expect("kubectl runs");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        tally.note("kubectl", if output.status.success() { Ok(()) } else { Err(error) });
    }
}

/// The Python client: HTTP/1.1 connections from a pool. Until the scene ends.
pub(crate) fn python(scene: &Scene, tally: &Tally) {
    let python = find_program("python3").expect("python3; run: scripts/install-tools test");
    let mut child = Command::new(python)
        .args(["-B", "-u"])
        .arg(folder().join("python/steady.py"))
        .arg(NAMESPACE)
        .env("PYTHONPATH", folder().join("../target/tools/python"))
        .env("KUBECONFIG", scene.kubeconfig())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 runs");
    let answers = BufReader::new(child.stdout.take().expect("is piped"));
    for line in answers.lines() {
        let line = line.expect("text");
        tally.note("python", if line == "." { Ok(()) } else { Err(line) });
        if scene.has_ended() {
            // The end of its input is what it waits for.
            drop(child.stdin.take());
        }
    }
    assert!(child.wait().expect("it ends").success());
}

/// The number of requests of curl over one connection.
pub(crate) struct Lists {
    pub(crate) query: &'static str,
    pub(crate) requests: usize,
}

/// Lists as any client would.
pub(crate) const LISTS: Lists = Lists {
    query: "limit=3",
    requests: 100,
};

/// curl: one connection for many requests. Until the scene ends.
pub(crate) fn curl(scene: &Scene, tally: &Tally, name: &'static str, version: &str, lists: &Lists) {
    let url = format!(
        "{}/api/v1/namespaces/{NAMESPACE}/configmaps?{}",
        scene.url(),
        lists.query
    );
    let transfer = format!("url = \"{url}\"\noutput = \"/dev/null\"\n");
    let file = scene.dir.path().join(format!("curl{version}"));
    std::fs::write(&file, transfer.repeat(lists.requests)).expect("written");
    while !scene.has_ended() {
        let mut command = Command::new("curl");
        command
            .args(["--silent", "--rate", "50/s", version])
            .args(["--write-out", "%{http_code} %{errormsg}\\n"])
            .args(["--header", &format!("Authorization: Bearer {ADMIN_TOKEN}")])
            .arg("--cacert")
            .arg(scene.ca_file())
            .arg("--config")
            .arg(&file);
        let output = command.output().expect("curl runs");
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            let answered = line.starts_with("200 ");
            tally.note(name, if answered { Ok(()) } else { Err(line.to_owned()) });
        }
    }
}
