//! The sizes of request bodies (`k8s.io/apiserver/pkg/endpoints/handlers/metrics`).

use std::{cell::RefCell, collections::HashMap, sync::Arc};

use metrics::{Histogram, Label, histogram};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder};
use trireme_machinery::GroupResource;
use trireme_registry::Verb;

use crate::{exchange::Exchange, request_info::RequestVerb};

const SIZES: &str = "apiserver_request_body_size_bytes";
/// Buckets of 100 kB, as far as bodies are taken.
const BUCKETS: u32 = 31;

pub(super) fn configure(builder: PrometheusBuilder) -> Result<PrometheusBuilder, BuildError> {
    let buckets: Vec<f64> = (0..BUCKETS).map(|bucket| 50e3 + 100e3 * f64::from(bucket)).collect();
    builder.set_buckets_for_metric(Matcher::Full(SIZES.to_owned()), &buckets)
}

/// Group, plural, verb.
type BodySeries = (Arc<str>, Arc<str>, &'static str);

thread_local! {
    static METERS: RefCell<HashMap<BodySeries, Histogram>> = RefCell::default();
}

/// Records the size of a body that has been read, if it is for a resource.
pub(crate) fn record_body(exchange: &Exchange, bytes: usize) {
    if let Some(definition) = exchange.resource.get() {
        record(&definition.resource, &exchange.info.verb, bytes);
    }
}

pub(super) fn record(resource: &GroupResource, verb: &RequestVerb, bytes: usize) {
    let verb = match verb {
        RequestVerb::Resource(Verb::Create) => "create",
        RequestVerb::Resource(Verb::Update) => "update",
        RequestVerb::Resource(Verb::Patch) => "patch",
        RequestVerb::Resource(Verb::Delete) => "delete",
        RequestVerb::Resource(Verb::DeleteCollection) => "delete_collection",
        _ => return,
    };
    let series = (Arc::clone(&resource.group), Arc::clone(&resource.resource), verb);
    METERS.with_borrow_mut(|known| {
        let sizes = known.entry(series).or_insert_with_key(|(group, resource, verb)| {
            let labels = vec![
                Label::new("group", Arc::clone(group)),
                Label::new("resource", Arc::clone(resource)),
                Label::from_static_parts("verb", verb),
            ];
            histogram!(SIZES, labels)
        });
        #[expect(clippy::cast_precision_loss, reason = "bodies are bounded")]
        sizes.record(bytes as f64);
    });
}
