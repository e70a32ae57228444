//! Says of each APIService whether it is available: the duty `apiservice-availability`
//! (`kube-aggregator/pkg/controllers/status`).
//!
//! ```text
//! APIService ─► service there? ─► its port? ─► ready endpoints? ─► five tries of /apis/GROUP/VERSION ─► condition Available
//! ```
//! A local one is always available. Others are looked at when they, their service or its endpoints change, and every 30
//! seconds, as a server can go without anything here changing.

use std::{sync::Arc, time::Duration};

use futures_util::{StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use serde_json::{Value, json};
use trireme_cluster::Duty;
use trireme_duties::{Controller, LeaseTenure, ObjectChange, ReconcileResult};
use trireme_http::client::{ClientError, Protocols};
use trireme_machinery::{
    ApiError, GroupVersion,
    api_service::{LOCAL_MESSAGE, LOCAL_REASON},
    go_text::quote,
    webhook_address::{named_port, ready_endpoints},
};
use trireme_registry::{OwnObjects, RegistryHandle, item::parse, request::Freshness};

use crate::{
    api_service::{ApiService, ServiceTarget, condition},
    fetch::{MASTER, own_request},
    remote::{RemoteBackend, RemoteServers},
};

/// The interval at which servers are looked at that nothing is heard of.
const PERIOD: Duration = Duration::from_secs(30);
/// The delay before one is looked at again that did not answer.
const AGAIN: Duration = Duration::from_secs(2);
/// APIServices that are looked at at a time, as in kube-aggregator.
const AT_ONCE: usize = 5;
/// Tries of one server: with several instances behind a service, one that answers is enough.
const TRIES: usize = 5;
/// The time that a try may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The label by which endpoint slices belong to a service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// The status that an APIService is to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Availability {
    status: &'static str,
    reason: &'static str,
    message: String,
}

impl Availability {
    fn no(reason: &'static str, message: String) -> Self {
        Self {
            status: "False",
            reason,
            message,
        }
    }

    fn passed() -> Self {
        Self {
            status: "True",
            reason: "Passed",
            message: "all checks passed".to_owned(),
        }
    }

    /// That of one without a server of its own.
    fn local() -> Self {
        Self {
            status: "True",
            reason: LOCAL_REASON,
            message: LOCAL_MESSAGE.to_owned(),
        }
    }

    fn is_available(&self) -> bool {
        self.status == "True"
    }

    /// Reports whether an APIService that was available is so no longer.
    fn is_lost(&self, object: &Value) -> bool {
        let was_available = condition(object).is_some_and(|before| before["status"] == "True");
        was_available && !self.is_available()
    }

    /// The status with this condition, or nothing if the object has it. The time is that of the last change of the
    /// condition's own status.
    pub(crate) fn status_for(&self, object: &Value, now: &str) -> Option<Value> {
        let before = condition(object);
        let text = |field: &str| before.and_then(|before| before[field].as_str());
        let is_there = text("status") == Some(self.status)
            && text("reason") == Some(self.reason)
            && text("message") == Some(&self.message);
        let since = text("lastTransitionTime").filter(|_| text("status") == Some(self.status));
        (!is_there).then(|| {
            json!({ "conditions": [{
                "type": "Available",
                "status": self.status,
                "reason": self.reason,
                "message": self.message,
                "lastTransitionTime": since.unwrap_or(now),
            }] })
        })
    }
}

/// The duty. Its keys are names of APIServices.
pub struct AvailabilityController {
    objects: OwnObjects,
    services: RegistryHandle,
    slices: RegistryHandle,
    remote: RemoteServers,
}

impl AvailabilityController {
    /// Works on the registries of APIServices, services and endpoint slices.
    pub fn new(
        api_services: RegistryHandle,
        services: RegistryHandle,
        slices: RegistryHandle,
        remote: RemoteServers,
    ) -> Self {
        Self {
            objects: OwnObjects::new(api_services, "kube-apiserver"),
            services,
            slices,
            remote,
        }
    }

    async fn look(&self, name: &Arc<str>, term: &LeaseTenure) -> Result<ReconcileResult<Arc<str>>, ApiError> {
        let objects = self.objects.under(term.fence());
        let gauge = self.remote.gauge();
        let Some(item) = objects.find_item("", name, Freshness::Any).await? else {
            gauge.forget(name);
            return Ok(ReconcileResult::done());
        };
        let object = parse(&item)?;
        let Some(service) = ApiService::read(&object) else {
            return Ok(ReconcileResult::done());
        };
        let now = time(objects.registry().now());
        let availability = match &service.remote {
            Some(server) => self.of_remote(server, &service.group_version).await?,
            None => Availability::local(),
        };
        gauge.set(name, availability.is_available());
        if let Some(status) = availability.status_for(&object, &now) {
            objects.merge_status("", name, &status).await?;
            if availability.is_lost(&object) {
                let labels = [("name", name.to_string()), ("reason", availability.reason.to_owned())];
                metrics::counter!("aggregator_unavailable_apiservice_total", &labels).increment(1);
            }
        }
        Ok(match availability.reason {
            "FailedDiscoveryCheck" => ReconcileResult::again_after(AGAIN),
            _ => ReconcileResult::done(),
        })
    }

    async fn of_remote(&self, server: &ServiceTarget, version: &GroupVersion) -> Result<Availability, ApiError> {
        let (namespace, name, port) = server.key();
        let resolver = self.remote.resolver();
        let Some(service) = resolver.service(namespace, name).await? else {
            let message = format!("service/{name} in {} is not present", quote(namespace));
            return Ok(Availability::no("ServiceNotFound", message));
        };
        if service.pointer("/spec/type").and_then(Value::as_str) == Some("ClusterIP") {
            let slices = resolver.slices(namespace, name).await?;
            if let Some(missing) = missing_endpoints(&service, &slices, (namespace, name, port)) {
                return Ok(missing);
            }
        }
        Ok(match self.discover(server, version).await {
            Ok(()) => Availability::passed(),
            Err(why) => Availability::no("FailedDiscoveryCheck", why),
        })
    }

    /// Asks the server several times at once; one answer is enough.
    async fn discover(&self, server: &ServiceTarget, version: &GroupVersion) -> Result<(), String> {
        let path = format!("/apis/{version}");
        let mut tries: FuturesUnordered<_> = (0..TRIES).map(|_| self.try_once(server, &path)).collect();
        let mut last = Ok(());
        while let Some(tried) = tries.next().await {
            last = tried;
            if last.is_ok() {
                break;
            }
        }
        last
    }

    async fn try_once(&self, server: &ServiceTarget, path: &str) -> Result<(), String> {
        let backend = self.remote.backend_of(server).await?;
        let url = format!("{}{path}", backend.origin());
        let failing = |why: String| {
            // With several servers behind a service, the next check may reach one that answers.
            backend.retire_connections();
            format!("failing or missing response from {url}: {why}")
        };
        let request = own_request(MASTER, path, None).map_err(&failing)?;
        let answered = backend.send(request, Protocols::Any, Some(TIMEOUT)).await;
        let answered = answered.map_err(|error| failing(format!("Get \"{url}\": {}", in_words(&backend, &error))))?;
        match answered.status().is_success() {
            true => Ok(()),
            false => Err(failing(format!(
                "bad status from {url}: {}",
                answered.status().as_u16()
            ))),
        }
    }
}

fn in_words(backend: &RemoteBackend, error: &ClientError) -> String {
    match error {
        ClientError::Timeout { .. } => {
            "context deadline exceeded (Client.Timeout exceeded while awaiting headers)".to_owned()
        }
        _ => backend.failure(error),
    }
}

/// A moment as conditions have it.
fn time(now: jiff::Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The reason why a service leads nowhere, as far as can be seen without going there.
fn missing_endpoints(
    service: &Value,
    slices: &[Value],
    (namespace, name, port): (&str, &str, u16),
) -> Option<Availability> {
    let namespace = quote(namespace);
    let ports = service.pointer("/spec/ports").and_then(Value::as_array);
    let mut ports = ports.into_iter().flatten();
    let Some(known) = ports.find(|known| known["port"] == port) else {
        let message = format!("service/{name} in {namespace} is not listening on port {port}");
        return Some(Availability::no("ServicePortError", message));
    };
    if slices.is_empty() {
        let message = format!("cannot find endpointslices for service/{name} in {namespace}");
        return Some(Availability::no("EndpointsNotFound", message));
    }
    let port_name = known["name"].as_str().unwrap_or_default();
    let leads_there = |slice: &Value| ready_endpoints(slice).next().is_some() && named_port(slice, port_name).is_some();
    if slices.iter().any(leads_there) {
        return None;
    }
    let port_name = quote(port_name);
    let message =
        format!("endpointslices for service/{name} in {namespace} have no addresses with port name {port_name}");
    Some(Availability::no("MissingEndpoints", message))
}

impl Controller for AvailabilityController {
    type Key = Arc<str>;

    fn duty(&self) -> Duty {
        Duty::named("apiservice-availability")
    }

    fn period(&self) -> Duration {
        PERIOD
    }

    fn at_once(&self) -> usize {
        AT_ONCE
    }

    fn release(&self) {
        self.remote.gauge().clear();
    }

    fn watched(&self) -> Vec<RegistryHandle> {
        vec![
            self.objects.registry().clone(),
            self.services.clone(),
            self.slices.clone(),
        ]
    }

    fn concerned(&self, change: &ObjectChange) -> Vec<Arc<str>> {
        let item = &change.item;
        let service = match &*change.info.resource.resource {
            "apiservices" => return vec![item.name().into()],
            "services" => item.name(),
            _ => match item.labels.iter().find(|(label, _)| **label == *SERVICE_NAME) {
                Some((_, service)) => service,
                None => return Vec::new(),
            },
        };
        let services = self.remote.services().load();
        let behind = services.iter().filter(|(_, known)| {
            let server = known.remote.as_ref();
            server.is_some_and(|server| server.key().0 == item.namespace() && server.key().1 == service)
        });
        behind.map(|(key, _)| (**key).into()).collect()
    }

    fn run<'a>(
        &'a self,
        key: &'a Arc<str>,
        term: &'a LeaseTenure,
    ) -> BoxFuture<'a, Result<ReconcileResult<Arc<str>>, ApiError>> {
        Box::pin(self.look(key, term))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_condition_is_that_of_its_last_change() {
        let object = json!({"status": {"conditions": [{
            "type": "Available", "status": "False", "reason": "ServiceNotFound", "message": "m", "lastTransitionTime": "then",
        }]}});
        let time = |availability: Availability| {
            let status = availability.status_for(&object, "now")?;
            status["conditions"][0]["lastTransitionTime"]
                .as_str()
                .map(str::to_owned)
        };
        assert_eq!(time(Availability::no("ServiceNotFound", "m".to_owned())), None);
        let other = Availability::no("MissingEndpoints", "m".to_owned());
        assert_eq!(time(other).as_deref(), Some("then"));
        assert_eq!(time(Availability::passed()).as_deref(), Some("now"));
    }

    #[test]
    fn a_local_service_is_available_whatever_its_status_says() {
        let object = |condition: Value| json!({"status": {"conditions": [condition]}});
        let local = Availability::local();
        let status = local.status_for(&json!({}), "now").expect("a status");
        assert_eq!(status, trireme_machinery::api_service::local_status("now"));
        let condition = &status["conditions"][0];
        assert_eq!(local.status_for(&object(condition.clone()), "later"), None);
        for (field, value) in [("status", "False"), ("reason", "Passed"), ("message", "")] {
            let mut changed = condition.clone();
            changed[field] = value.into();
            let restored = local.status_for(&object(changed), "later").expect("a status");
            let since = if field == "status" { "later" } else { "now" };
            assert_eq!(restored["conditions"][0]["status"], "True");
            assert_eq!(restored["conditions"][0]["lastTransitionTime"], since);
        }
    }

    #[test]
    fn only_one_that_was_available_is_lost() {
        let of = |status: &str| json!({"status": {"conditions": [{"type": "Available", "status": status}]}});
        let missing = Availability::no("ServiceNotFound", String::new());
        for (before, is_lost) in [
            (of("True"), true),
            (of("False"), false),
            (of("Unknown"), false),
            (json!({}), false),
        ] {
            assert_eq!(missing.is_lost(&before), is_lost, "{before}");
            assert!(!Availability::passed().is_lost(&before));
        }
    }

    #[test]
    fn a_service_leads_nowhere_for_a_reason() {
        let service = json!({"spec": {"ports": [{"port": 443, "name": "https"}]}});
        let slice = |name: &str, ready: bool| json!({"ports": [{"name": name, "port": 1}], "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": ready}}]});
        let check = |slices: &[Value], port| {
            missing_endpoints(&service, slices, ("ns", "s", port)).map(|missing| (missing.reason, missing.message))
        };
        let text = |reason, message: &str| Some((reason, message.to_owned()));
        assert_eq!(check(&[slice("https", true)], 443), None);
        assert_eq!(
            check(&[slice("https", true)], 80),
            text("ServicePortError", "service/s in \"ns\" is not listening on port 80")
        );
        assert_eq!(
            check(&[], 443),
            text(
                "EndpointsNotFound",
                "cannot find endpointslices for service/s in \"ns\""
            )
        );
        for slices in [[slice("https", false)], [slice("other", true)]] {
            let message = "endpointslices for service/s in \"ns\" have no addresses with port name \"https\"";
            assert_eq!(check(&slices, 443), text("MissingEndpoints", message));
        }
    }
}
