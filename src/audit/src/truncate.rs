//! Bounds on the size of events and batches: a large event loses its bodies, one that is still too large is lost.

use std::sync::Arc;

use crate::{event::AuditEvent, level::AuditLevel, metrics};

const PLUGIN: &str = "truncate";
const ANNOTATION: &str = "audit.k8s.io/truncated";

/// `--audit-…-truncate-…`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TruncateSettings {
    /// The most bytes of an event.
    pub max_event_bytes: usize,
    /// The most bytes of the events that are written at once.
    pub max_batch_bytes: usize,
}

/// The events in batches that keep to the bounds.
pub(crate) fn batches(events: Vec<Arc<AuditEvent>>, settings: TruncateSettings) -> Vec<Vec<Arc<AuditEvent>>> {
    let mut batches: Vec<Vec<Arc<AuditEvent>>> = Vec::new();
    let mut batch_bytes = 0;
    for event in events {
        let Some((event, bytes)) = bounded(event, settings.max_event_bytes) else {
            continue;
        };
        match batches.last_mut() {
            Some(batch) if batch_bytes + bytes <= settings.max_batch_bytes => {
                batch.push(event);
                batch_bytes += bytes;
            }
            _ => {
                batches.push(vec![event]);
                batch_bytes = bytes;
            }
        }
    }
    batches
}

/// The event or what is left of it, with its size.
fn bounded(event: Arc<AuditEvent>, max: usize) -> Option<(Arc<AuditEvent>, usize)> {
    let bytes = size(&event);
    if bytes <= max {
        return Some((event, bytes));
    }
    if event.request.level >= AuditLevel::Request {
        let truncated = truncated(&event);
        let bytes = size(&truncated);
        if bytes <= max {
            return Some((Arc::new(truncated), bytes));
        }
    }
    tracing::error!(audit_id = %event.request.id, bytes, "an audit event is too large even without bodies and is lost");
    metrics::observe_lost(PLUGIN, 1);
    None
}

fn truncated(event: &AuditEvent) -> AuditEvent {
    let mut event = event.clone();
    event.request_object = None;
    event.response_object = None;
    event.annotations.insert(ANNOTATION.to_owned(), "true".to_owned());
    event
}

fn size(event: &AuditEvent) -> usize {
    let mut written = Vec::new();
    event.write_json(&mut written);
    written.len()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::{event::tests::event, level::AuditStage};

    fn with_body(bytes: usize) -> Arc<AuditEvent> {
        let mut event = event(AuditStage::ResponseComplete);
        event.request_object = Some(Bytes::from(format!("\"{}\"", "x".repeat(bytes))));
        Arc::new(event)
    }

    fn settings(max_event_bytes: usize, max_batch_bytes: usize) -> TruncateSettings {
        TruncateSettings {
            max_event_bytes,
            max_batch_bytes,
        }
    }

    #[test]
    fn large_events_lose_their_bodies() {
        let batches = batches(vec![with_body(10), with_body(2000)], settings(1000, 10_000));
        assert_eq!(batches.len(), 1);
        let truncated: Vec<bool> = batches[0]
            .iter()
            .map(|e| e.annotations.contains_key(ANNOTATION))
            .collect();
        assert_eq!(truncated, [false, true]);
        assert!(batches[0][1].request_object.is_none() && batches[0][0].request_object.is_some());
    }

    #[test]
    fn batches_keep_to_their_bound() {
        let batches = batches(vec![with_body(10), with_body(10), with_body(10)], settings(1000, 1000));
        assert_eq!(batches.iter().map(Vec::len).collect::<Vec<_>>(), [2, 1]);
    }

    #[test]
    fn what_is_too_large_without_bodies_is_lost() {
        assert!(batches(vec![with_body(10)], settings(100, 1000)).is_empty());
    }
}
