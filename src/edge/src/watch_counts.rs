//! The watches that are under way, by what they watch: a write costs more, the more of them get its event
//! (`k8s.io/apiserver/pkg/util/flowcontrol/watch_tracker.go`).

use std::{
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
};

use crate::request_info::RequestInfo;

/// The resource whose watches by one field are indexed, and that field: of its watches for one value few get an event.
const INDEXED: (&str, &str) = ("pods", "spec.nodeName");

/// The numbers of watches. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct WatchCounts(Arc<RwLock<HashMap<String, u32>>>);

/// A watch that is counted until this is dropped.
#[derive(Debug)]
pub(crate) struct CountedWatch {
    counts: WatchCounts,
    scope: String,
}

impl WatchCounts {
    /// Counts a watch; `None` for one that few events reach.
    pub(crate) fn begin(&self, watch: &RequestInfo) -> Option<CountedWatch> {
        let (resource, field) = INDEXED;
        let selected = || {
            watch
                .field_selector()
                .and_then(|selector| selector.requires_exact_match(field))
        };
        if watch.resource() == resource && selected().is_some_and(|value| !value.is_empty()) {
            return None;
        }
        let scope = scope(watch, watch.namespace(), watch.name());
        let mut counts = self.0.write().unwrap_or_else(PoisonError::into_inner);
        *counts.entry(scope.clone()).or_default() += 1;
        drop(counts);
        Some(CountedWatch {
            counts: self.clone(),
            scope,
        })
    }

    /// The watches that get the event of a write: those of all objects, of all in its namespace, and of this one.
    pub(crate) fn interested_in(&self, write: &RequestInfo) -> u32 {
        let counts = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if counts.is_empty() {
            return 0;
        }
        let of = |namespace, name| counts.get(&scope(write, namespace, name)).copied().unwrap_or_default();
        let (namespace, name) = (write.namespace(), write.name());
        let mut count = of("", "");
        if !namespace.is_empty() {
            count += of(namespace, "");
        }
        if !name.is_empty() {
            count += of(namespace, name);
        }
        count
    }
}

impl Drop for CountedWatch {
    fn drop(&mut self) {
        let mut counts = self.counts.0.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.scope) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.scope);
            }
        }
    }
}

/// Group, resource, namespace and name; none of them has a slash.
fn scope(info: &RequestInfo, namespace: &str, name: &str) -> String {
    [info.group(), info.resource(), namespace, name].join("/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::Query;

    fn info(method: &str, path: &str, query: &str) -> RequestInfo {
        let query = Query::parse(Some(query)).expect("a query");
        RequestInfo::parse(method, path, &query).expect("a request")
    }

    #[test]
    fn writes_count_the_watches_of_their_object_their_namespace_and_all() {
        let counts = WatchCounts::default();
        let watch = |path: &str, query: &str| counts.begin(&info("GET", path, &format!("watch=1&{query}")));
        let write = |path: &str| counts.interested_in(&info("PUT", path, ""));
        let pod = "/api/v1/namespaces/a/pods/x";
        assert_eq!(write(pod), 0);
        let begun = [
            watch("/api/v1/pods", ""),
            watch("/api/v1/pods", "fieldSelector=spec.nodeName%3D"),
            watch("/api/v1/namespaces/a/pods", "labelSelector=b%3Dc"),
            watch("/api/v1/namespaces/a/pods", "fieldSelector=metadata.name%3Dx"),
            watch("/api/v1/namespaces/b/pods", ""),
            watch("/apis/metrics.k8s.io/v1/namespaces/a/pods", ""),
        ];
        assert!(begun.iter().all(Option::is_some));
        let of_node = watch("/api/v1/pods", "fieldSelector=spec.nodeName%3Dn");
        assert!(of_node.is_none(), "watches of one node are indexed");
        assert_eq!(write(pod), 4);
        assert_eq!(write("/api/v1/namespaces/a/pods/x/status"), 4);
        assert_eq!(write("/api/v1/namespaces/a/pods/y"), 3);
        assert_eq!(write("/api/v1/namespaces/b/pods/x"), 3);
        let created = counts.interested_in(&info("POST", "/api/v1/namespaces/a/pods", ""));
        assert_eq!(created, 3, "a name that is in the body only is not known yet");
        drop(begun);
        assert_eq!(write(pod), 0);
        assert!(counts.0.read().expect("nobody panicked").is_empty());
    }
}
