//! Amounts of work: enough for a steady figure, for a first look, or for a test that only wants every row.

use std::time::Duration;

use clap::ValueEnum;

/// The three sizes of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Size {
    /// The size that the figures in docs/performance.md are taken with; `all` takes up to 12 minutes
    Full,
    /// A first look; `all` takes up to 2 minutes
    Quick,
    /// Every row, no figure worth keeping; for tests
    Tiny,
}

/// The amounts that a size stands for.
#[derive(Debug, Clone)]
pub(crate) struct Sizes {
    /// Not measured, before each window.
    pub(crate) warm_up: Duration,
    /// Measured.
    pub(crate) window: Duration,
    /// Operations that are measured in place of a window.
    pub(crate) times: Option<u64>,
    /// Pods that are read.
    pub(crate) pods: u64,
    /// Config maps that memory and restart are measured with.
    pub(crate) config_maps: u64,
    /// Definitions of custom resources.
    pub(crate) definitions: u64,
    /// Watchers of changing config maps.
    pub(crate) watchers: &'static [usize],
    /// Watchers of one node each.
    pub(crate) node_watchers: &'static [usize],
    /// Watches that nothing happens on.
    pub(crate) idle_watches: usize,
    /// Events that watchers get together.
    pub(crate) watched_events: u64,
    /// The most of them a second.
    pub(crate) watched_events_per_s: u32,
    /// The number of starts that are timed.
    pub(crate) starts: usize,
}

impl Size {
    /// Its amounts.
    pub(crate) fn sizes(self) -> Sizes {
        match self {
            Self::Full => Sizes {
                warm_up: Duration::from_secs(1),
                window: Duration::from_secs(6),
                times: None,
                pods: 10_000,
                config_maps: 100_000,
                definitions: 1_000,
                watchers: &[100, 1_000],
                node_watchers: &[100, 10_000],
                idle_watches: 1_000,
                watched_events: 300_000,
                watched_events_per_s: 25_000,
                starts: 5,
            },
            Self::Quick => Sizes {
                warm_up: Duration::from_millis(300),
                window: Duration::from_millis(1500),
                times: None,
                pods: 2_000,
                config_maps: 5_000,
                definitions: 100,
                watchers: &[100],
                node_watchers: &[100, 1_000],
                idle_watches: 500,
                watched_events: 50_000,
                watched_events_per_s: 25_000,
                starts: 2,
            },
            Self::Tiny => Sizes {
                warm_up: Duration::from_millis(20),
                window: Duration::from_millis(150),
                times: None,
                pods: 100,
                config_maps: 100,
                definitions: 5,
                watchers: &[10],
                node_watchers: &[5, 20],
                idle_watches: 20,
                watched_events: 200,
                watched_events_per_s: 10_000,
                starts: 1,
            },
        }
    }
}
