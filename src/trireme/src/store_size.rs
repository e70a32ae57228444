//! The size of the store's database, under kube-apiserver's name.
//!
//! It is asked for in a task of its own, and not when metrics are looked at: a store that is away keeps nobody waiting, and the
//! size that it last had stays shown.

use std::sync::Arc;
use std::time::Duration;

use trireme_actors::{ActorSystem, Clock};
use trireme_storage::Storage;

/// The interval at which kube-apiserver asks etcd by default.
const INTERVAL: Duration = Duration::from_secs(30);

/// Starts to show the size.
pub(crate) fn start(system: &ActorSystem, store: Arc<dyn Storage>) {
    let clock = system.clock().clone();
    let show = move || show_for_ever(Arc::clone(&store), clock.clone());
    let _ = system.tasks().spawn_restarting("store size", show);
}

async fn show_for_ever(store: Arc<dyn Storage>, clock: Clock) {
    loop {
        show(&*store).await;
        clock.sleep(INTERVAL).await;
    }
}

async fn show(store: &dyn Storage) {
    match store.size_bytes().await {
        Ok(Some(bytes)) => {
            // kube-apiserver numbers its clusters, not their members, and there is one here.
            let size = metrics::gauge!("apiserver_storage_size_bytes", "storage_cluster_id" => "etcd-0");
            size.set(bytes as f64);
        }
        Ok(None) => {}
        Err(error) => tracing::debug!(%error, "the store does not tell its size"),
    }
}

#[cfg(test)]
mod tests {
    use metrics_exporter_prometheus::PrometheusBuilder;
    use trireme_storage::{EmbeddedOptions, EmbeddedStore};

    use super::*;

    #[tokio::test]
    async fn the_size_of_the_file_is_shown() {
        let recorder = PrometheusBuilder::new().build_recorder();
        let _guard = metrics::set_default_local_recorder(&recorder);
        let dir = tempfile::tempdir().expect("a directory");
        let store = EmbeddedStore::open(dir.path(), EmbeddedOptions::default()).expect("opened");
        show(&store).await;
        let page = recorder.handle().render();
        let line = "apiserver_storage_size_bytes{storage_cluster_id=\"etcd-0\"} ";
        let shown = page.lines().find_map(|found| found.strip_prefix(line));
        let bytes: u64 = shown.and_then(|bytes| bytes.parse().ok()).expect("it is shown");
        let files = std::fs::read_dir(dir.path()).expect("it is there");
        let on_disk: u64 = files
            .map(|file| file.and_then(|file| file.metadata()).expect("a file").len())
            .sum();
        assert_eq!(bytes, on_disk);
    }
}
