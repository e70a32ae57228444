//! Fault 15: the wall clock of a replica is wrong while it runs, or when it starts.
//!
//! Proved by the time that the replica gives to what it makes, before, meanwhile and after.

use std::fmt;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use jiff::SignedDuration;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use super::{ActiveFault, Observation, Refusal, skip};
use crate::world::{Part, WallClock, World, WorldError, WorldSettings};

const HOUR_S: i64 = 3600;
const DAY_S: i64 = 24 * HOUR_S;
/// A clock that is no further off is right: creation times have no fractions, and answers take time.
const RIGHT: SignedDuration = SignedDuration::from_secs(2);
/// The least gain of a clock that goes twice as fast: more than counts as right, so that it cannot have been a jump.
const GAIN: SignedDuration = SignedDuration::from_secs(4);
/// The time limit for a clock to show its setting.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// A planned stop takes the shutdown delay and what open requests take.
const STOP_PATIENCE: Duration = Duration::from_secs(60);

/// The replica with a wrong wall clock, and its error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WrongClock {
    /// A replica's, whichever.
    OfReplica(Jump),
    /// That of the replica that leads the group.
    OfLeader(Jump),
    /// A replica that does not lead is stopped with SIGTERM and started with a clock that is a day back, at which time the
    /// certificates of its peers had not begun.
    BeforeCertificates,
}

impl WrongClock {
    /// Those that no client must notice: each way to be wrong, of the part for which it matters most.
    pub const JUMPS: [Self; 5] = [
        Self::OfReplica(Jump::HourAhead),
        Self::OfReplica(Jump::HourBack),
        Self::OfLeader(Jump::DayAhead),
        Self::OfLeader(Jump::DayBack),
        Self::OfReplica(Jump::Fast),
    ];

    /// All of them.
    pub const ALL: [Self; 6] = {
        let [a, b, c, d, e] = Self::JUMPS;
        [a, b, c, d, e, Self::BeforeCertificates]
    };

    /// The time until it is seen, in seconds.
    pub(super) fn hold_s(self) -> u64 {
        match self.jump() {
            Jump::Fast => 8,
            _ => 5,
        }
    }

    pub(super) fn prepare(self, settings: &mut WorldSettings) {
        settings.wall_clocks = true;
        settings.young_certificates |= self == Self::BeforeCertificates;
    }

    fn jump(self) -> Jump {
        match self {
            Self::OfReplica(jump) | Self::OfLeader(jump) => jump,
            Self::BeforeCertificates => Jump::DayBack,
        }
    }
}

impl fmt::Display for WrongClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OfReplica(jump) => write!(f, "the wall clock of a replica {jump}"),
            Self::OfLeader(jump) => write!(f, "the wall clock of the group's leader {jump}"),
            Self::BeforeCertificates => {
                f.write_str("a replica is started with a wall clock before its peers' certificates")
            }
        }
    }
}

/// The error of a wall clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Jump {
    /// It jumps an hour ahead.
    HourAhead,
    /// It jumps an hour back.
    HourBack,
    /// It jumps a day ahead.
    DayAhead,
    /// It jumps a day back.
    DayBack,
    /// It goes twice as fast.
    Fast,
}

impl Jump {
    fn setting(self) -> WallClock {
        match self {
            Self::HourAhead => WallClock::Off(HOUR_S),
            Self::HourBack => WallClock::Off(-HOUR_S),
            Self::DayAhead => WallClock::Off(DAY_S),
            Self::DayBack => WallClock::Off(-DAY_S),
            Self::Fast => WallClock::Fast,
        }
    }

    /// Returns true if a clock that is ahead by so much shows it.
    fn is_shown_by(self, lead: SignedDuration) -> bool {
        match self.setting() {
            WallClock::True => is_right(lead),
            WallClock::Off(seconds) => is_right(lead - SignedDuration::from_secs(seconds)),
            WallClock::Fast => lead >= GAIN,
        }
    }
}

impl fmt::Display for Jump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::HourAhead => "jumps an hour ahead",
            Self::HourBack => "jumps an hour back",
            Self::DayAhead => "jumps a day ahead",
            Self::DayBack => "jumps a day back",
            Self::Fast => "goes twice as fast",
        })
    }
}

fn is_right(lead: SignedDuration) -> bool {
    lead.abs() <= RIGHT
}

/// A clock that is wrong.
#[derive(Debug)]
struct Set {
    replica: usize,
    jump: Jump,
    since: Instant,
    /// The lead of the clock before.
    lead: SignedDuration,
    /// The replica was started with it.
    started: bool,
}

pub(super) async fn begin(
    world: &World,
    wrong: WrongClock,
    chance: &mut StdRng,
) -> Result<Box<dyn ActiveFault>, Refusal> {
    if !world.settings().wall_clocks {
        return skip("the wall clocks of the replicas cannot be set");
    }
    let leader = match wrong {
        WrongClock::OfReplica(_) => None,
        _ => world.settled_raft_leader().await,
    };
    let others: Vec<usize> = (0..world.replicas()).filter(|index| Some(*index) != leader).collect();
    let replica = match (wrong, leader) {
        (WrongClock::OfLeader(_), leader) => leader,
        // Of one that leads it would be more than a matter of its own.
        (WrongClock::BeforeCertificates, None) => None,
        _ => others.choose(chance).copied(),
    };
    let Some(replica) = replica else {
        return skip("no replica leads a group");
    };
    let mut clock = set(world, replica, wrong.jump()).await?;
    if wrong == WrongClock::BeforeCertificates {
        restart(world, Part::Replica(replica)).await?;
        clock.started = true;
    }
    Ok(Box::new(clock))
}

async fn restart(world: &World, part: Part) -> Result<(), WorldError> {
    world.terminate(part, STOP_PATIENCE).await?;
    world.launch(part).await?;
    world.wait_ready(part).await
}

async fn set(world: &World, replica: usize, jump: Jump) -> Result<Set, WorldError> {
    let lead = world.wall_clock_lead(replica).await?;
    world.set_wall_clock(replica, jump.setting())?;
    Ok(Set {
        replica,
        jump,
        since: Instant::now(),
        lead,
        started: false,
    })
}

impl Set {
    async fn look(&self, world: &World) -> Observation {
        let lead = match world.wall_clock_lead(self.replica).await {
            Ok(lead) => lead,
            Err(error) => return Observation::NotSeen(super::text_of(&error)),
        };
        let times = format!(
            "by the time that it gives, it is ahead by {:.1} s, {:.1} s after it was set; before it was {:.1} s",
            lead.as_secs_f64(),
            self.since.elapsed().as_secs_f64(),
            self.lead.as_secs_f64()
        );
        let shows = is_right(self.lead) && self.jump.is_shown_by(lead);
        if !self.started {
            return Observation::of(shows, times);
        }
        // It believes no certificate of its peers, nor they its connections, so it is on its own.
        let alone = self.has_quorum(world).await == Some(false);
        Observation::of(
            shows && alone,
            format!("{times}; it says that it has a quorum: {}", !alone),
        )
    }

    async fn has_quorum(&self, world: &World) -> Option<bool> {
        world.group_facts(self.replica).await.ok()?["quorum"].as_bool()
    }

    /// Waits until the clock is right, and the replica in the group that it has left. Says how far off the clock is then.
    async fn wait_until_right(&self, world: &World) -> Result<SignedDuration, WorldError> {
        let end = Instant::now() + PATIENCE;
        loop {
            let lead = world.wall_clock_lead(self.replica).await?;
            let returned = !self.started || self.has_quorum(world).await == Some(true);
            if is_right(lead) && returned {
                return Ok(lead);
            }
            if Instant::now() > end {
                return Err(WorldError::Answer {
                    part: Part::Replica(self.replica).to_string(),
                    what: "the right time in its group again",
                    why: format!(
                        "{PATIENCE:?} after its clock was set right it is ahead by {:.1} s, and has a quorum: {returned}",
                        lead.as_secs_f64()
                    ),
                });
            }
            sleep(LOOK_AGAIN).await;
        }
    }
}

impl ActiveFault for Set {
    fn targets(&self) -> Vec<String> {
        vec![Part::Replica(self.replica).to_string()]
    }

    fn observe<'a>(&'a mut self, world: &'a World) -> BoxFuture<'a, Observation> {
        Box::pin(self.look(world))
    }

    fn heal<'a>(&'a mut self, world: &'a World) -> BoxFuture<'a, Result<Vec<String>, WorldError>> {
        Box::pin(async {
            world.set_wall_clock(self.replica, WallClock::True)?;
            let lead = self.wait_until_right(world).await?;
            Ok(vec![format!("right again: ahead by {:.1} s", lead.as_secs_f64())])
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_somewhere_else_proves_nothing() {
        let seconds = SignedDuration::from_secs;
        assert!(Jump::HourAhead.is_shown_by(seconds(3600)));
        assert!(Jump::DayBack.is_shown_by(seconds(-86_401)));
        for lead in [0, -3600, 86_400, 3590] {
            assert!(!Jump::HourAhead.is_shown_by(seconds(lead)), "{lead}");
        }
        assert!(Jump::Fast.is_shown_by(seconds(4)));
        assert!(!Jump::Fast.is_shown_by(seconds(2)), "that counts as right");
    }
}
