//! The tables under `/debug/api_priority_and_fairness` (`apf_controller_debug.go`).

use std::{
    fmt::{self, Write as _},
    sync::atomic::{AtomicU64, Ordering},
};

use super::{
    controller::{FlowLevel, LevelTable},
    messages::{Dump, WaitingRequest},
    queues::QueueState,
};

/// The queues of a level, and what waits in them.
#[derive(Debug, Clone, Default)]
pub(crate) struct QueuesDump {
    pub(crate) queues: Vec<(QueueState, Vec<WaitingRequest>)>,
}

/// A table of what the levels are at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowDump {
    /// `dump_priority_levels`
    PriorityLevels,
    /// `dump_queues`
    Queues,
    /// `dump_requests`: those that wait, and those that are worked on.
    Requests,
    /// `dump_requests?includeRequestDetails`: the same with who asks for what.
    RequestDetails,
}

impl FlowDump {
    fn columns(self) -> &'static str {
        match self {
            Self::PriorityLevels => {
                "PriorityLevelName, ActiveQueues, IsIdle, IsQuiescing, WaitingRequests, ExecutingRequests, DispatchedRequests, \
                 RejectedRequests, TimedoutRequests, CancelledRequests\n"
            }
            Self::Queues => {
                "PriorityLevelName, Index, PendingRequests, ExecutingRequests, SeatsInUse, NextDispatchR, InitialSeatsSum, \
                 MaxSeatsSum, TotalWorkSum\n"
            }
            Self::Requests => {
                "PriorityLevelName, FlowSchemaName, QueueIndex, RequestIndexInQueue, FlowDistingsher, ArriveTime, InitialSeats, \
                 FinalSeats, AdditionalLatency, StartTime\n"
            }
            Self::RequestDetails => {
                "PriorityLevelName, FlowSchemaName, QueueIndex, RequestIndexInQueue, FlowDistingsher, ArriveTime, InitialSeats, \
                 FinalSeats, AdditionalLatency, StartTime, UserName, Verb, APIPath, Namespace, Name, APIVersion, Resource, \
                 SubResource\n"
            }
        }
    }
}

impl FlowDump {
    /// Renders the table, one line a level, queue or request.
    pub(crate) async fn render(self, table: &LevelTable) -> String {
        let mut text = self.columns().to_owned();
        for level in &table.levels {
            // A level that does not answer now has nothing to show.
            let queues = level.actor.ask(Dump).await.unwrap_or_default();
            // Writing to a string cannot fail.
            let _ = match self {
                Self::PriorityLevels => level_line(&mut text, level, &queues),
                Self::Queues => queue_lines(&mut text, level, &queues),
                Self::Requests => request_lines(&mut text, level, &queues, false),
                Self::RequestDetails => request_lines(&mut text, level, &queues, true),
            };
        }
        text
    }
}

fn level_line(text: &mut String, level: &FlowLevel, queues: &QueuesDump) -> fmt::Result {
    let counters = &level.counters;
    let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
    writeln!(
        text,
        "{}, {}, {}, {}, {}, {}, {}, {}, {}, {}",
        level.name,
        queues.queues.len(),
        level.seats.is_idle(),
        level.is_quiescing,
        count(&counters.waiting),
        level.seats.executing(),
        level.seats.dispatched_so_far(),
        count(&counters.rejected),
        count(&counters.timed_out),
        count(&counters.cancelled),
    )
}

fn queue_lines(text: &mut String, level: &FlowLevel, queues: &QueuesDump) -> fmt::Result {
    for (queue, _) in &queues.queues {
        writeln!(
            text,
            "{}, {}, {}, {}, {}, {:.8}ss, {}, {}, {:.8}ss",
            level.name,
            queue.index,
            queue.pending,
            queue.executing,
            queue.seats_in_use,
            queue.next_start_seconds,
            queue.waiting_seats,
            queue.waiting_seats,
            queue.waiting_work_seconds,
        )?;
    }
    Ok(())
}

fn request_lines(text: &mut String, level: &FlowLevel, queues: &QueuesDump, has_details: bool) -> fmt::Result {
    for (queue, waiting) in &queues.queues {
        for (place, request) in waiting.iter().enumerate() {
            write!(
                text,
                "{}, {}, {}, {place}, {}, {}, {}, 0, 0s, -",
                level.name,
                request.schema,
                queue.index,
                request.distinguisher,
                request.arrived.to_micro_string(),
                request.seats
            )?;
            if has_details {
                write!(text, ", {}", request.details)?;
            }
            text.push('\n');
        }
    }
    Ok(())
}
