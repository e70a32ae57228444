//! The receiver of a scenario that has one: its script, and what it is to have received.

use std::collections::HashMap;

use serde_json::Value;

use super::{StepDifference, compare, normal::Normalizer, variables::substitute};
use crate::receiver::Receiver;

/// The recorded script, and the requests that came.
#[derive(Debug, Clone)]
pub(super) struct Script {
    entries: Value,
    received: Value,
    is_sorted: bool,
    /// Each different request counts once: caches may ask as well.
    is_distinct: bool,
}

impl Script {
    /// That of a scenario, if it has one.
    pub(super) fn of(scenario: &Value) -> Option<Self> {
        scenario["receiver"].as_array()?;
        let is_distinct = scenario["receivedDistinct"] == true;
        Some(Self {
            entries: scenario["receiver"].clone(),
            received: scenario["received"].clone(),
            is_sorted: is_distinct || scenario["receivedSorted"] == true,
            is_distinct,
        })
    }

    /// Starts the receiver, and names it in the variables of the scenario.
    pub(super) fn start(&self, namespace: &str, variables: &mut HashMap<String, String>) -> Receiver {
        let script = substitute(&self.entries, variables);
        let script = script.as_array().cloned().unwrap_or_default();
        let receiver = Receiver::start(script, namespace, None).expect("a free port");
        variables.extend([
            ("hook".to_owned(), format!("https://127.0.0.1:{}", receiver.port())),
            ("hookPort".to_owned(), receiver.port().to_string()),
            ("hookCA".to_owned(), receiver.ca_bundle()),
            ("otherCA".to_owned(), receiver.other_ca_bundle()),
        ]);
        receiver
    }

    /// The difference of what came, as one of a step after the last.
    pub(super) fn difference(
        &self,
        receiver: &Receiver,
        normalizer: &Normalizer,
        step: usize,
    ) -> impl Iterator<Item = StepDifference> {
        let prepared = |requests: &Value| {
            let mut requests = normalizer.apply(requests).as_array().cloned().unwrap_or_default();
            if self.is_sorted {
                requests.sort_by_cached_key(Value::to_string);
            }
            if self.is_distinct {
                requests.dedup();
            }
            Value::from(requests)
        };
        let mut differences = Vec::new();
        let received = Value::from(receiver.received());
        compare(&prepared(&self.received), &prepared(&received), "", &mut differences);
        differences.into_iter().map(move |difference| StepDifference {
            step,
            text: format!("the receiver got other requests: {difference}"),
        })
    }
}
