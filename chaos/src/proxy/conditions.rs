//! Conditions of a link: its effects on bytes.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A direction of a link. The one that dials is its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// From the one that dials to the one that listens.
    ToServer,
    /// Back.
    ToClient,
}

/// The effect on a connection when the network loses one of its segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnLoss {
    /// TCP sends it again: everything behind it stalls for one retransmission timeout, twice as long for each further
    /// loss in a row.
    #[default]
    Stall,
    /// A hop on the way gives the connection up: both ends see a reset.
    Reset,
}

/// The conditions of one direction. The default lets everything pass at once.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct LinkConditions {
    /// The delay of bytes.
    pub delay: Duration,
    /// The jitter of the delay, evenly distributed. Bytes never overtake each other.
    pub jitter: Duration,
    /// The number of bytes pass in a second, if that is limited.
    pub bytes_per_second: Option<u64>,
    /// The probability that a segment (of 1448 bytes at most) is lost: 0 to 1.
    pub loss: f64,
    /// The effect of a loss.
    pub on_loss: OnLoss,
    /// Nothing passes, neither bytes nor the end of a connection. What is sent meanwhile arrives after the blackhole, as
    /// TCP sends it again.
    pub blackhole: bool,
}

impl LinkConditions {
    /// Everything passes at once.
    pub const CLEAN: Self = Self {
        delay: Duration::ZERO,
        jitter: Duration::ZERO,
        bytes_per_second: None,
        loss: 0.0,
        on_loss: OnLoss::Stall,
        blackhole: false,
    };

    /// Takes `delay` ± `jitter`.
    pub fn delayed(delay: Duration, jitter: Duration) -> Self {
        Self {
            delay,
            jitter,
            ..Self::CLEAN
        }
    }

    /// Loses segments with this probability.
    pub fn lossy(loss: f64, on_loss: OnLoss) -> Self {
        Self {
            loss,
            on_loss,
            ..Self::CLEAN
        }
    }

    /// Nothing passes.
    pub fn blackhole() -> Self {
        Self {
            blackhole: true,
            ..Self::CLEAN
        }
    }

    /// Returns true if segments count: if not, larger pieces are handed on at once.
    pub(super) fn is_by_segment(&self) -> bool {
        self.loss > 0.0 || self.bytes_per_second.is_some()
    }
}

/// The treatment of a new connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Opening {
    /// The server.
    #[default]
    Pass,
    /// Nothing listens: `ECONNREFUSED`. Where one port serves several links (see
    /// [`Proxy::start_sorted`](super::Proxy::start_sorted)) it is accepted and reset instead.
    Refuse,
    /// It is accepted and reset.
    Reset,
    /// It is accepted, and then nothing happens until the link is healed.
    Hang,
}

/// Everything that a link does. The default is a perfect link.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Conditions {
    /// From the one that dials.
    pub to_server: LinkConditions,
    /// Back to it.
    pub to_client: LinkConditions,
    /// New connections.
    pub opening: Opening,
}

impl Conditions {
    /// The same in both directions.
    pub fn both(flow: LinkConditions) -> Self {
        Self {
            to_server: flow,
            to_client: flow,
            opening: Opening::Pass,
        }
    }

    /// Only one direction is touched.
    pub fn one_way(way: Way, flow: LinkConditions) -> Self {
        let clean = Self::default();
        match way {
            Way::ToServer => Self {
                to_server: flow,
                ..clean
            },
            Way::ToClient => Self {
                to_client: flow,
                ..clean
            },
        }
    }

    /// New connections find this; those that are open stay as they are.
    pub fn opening(opening: Opening) -> Self {
        Self {
            opening,
            ..Self::default()
        }
    }

    /// As a cut cable: nothing passes either way, on connections old and new.
    pub fn cut() -> Self {
        Self {
            opening: Opening::Hang,
            ..Self::both(LinkConditions::blackhole())
        }
    }

    pub(super) fn flow(&self, way: Way) -> &LinkConditions {
        match way {
            Way::ToServer => &self.to_server,
            Way::ToClient => &self.to_client,
        }
    }

    /// Returns true if a connection that is opened now has to wait: without the first packet's way there is no server.
    pub(super) fn holds_openings(&self) -> bool {
        self.opening == Opening::Hang || self.to_server.blackhole
    }
}
