//! The levels and stages of records.

use serde::Serialize;

/// The part of a request that is recorded; each level has all of the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum AuditLevel {
    /// Nothing.
    None,
    /// User, time, object, verb, outcome.
    Metadata,
    /// And the body of the request.
    Request,
    /// And the body of the answer.
    RequestResponse,
}

impl AuditLevel {
    pub(crate) const ALL: [Self; 4] = [Self::None, Self::Metadata, Self::Request, Self::RequestResponse];

    /// The level as policies and events name it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Metadata => "Metadata",
            Self::Request => "Request",
            Self::RequestResponse => "RequestResponse",
        }
    }

    pub(crate) fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.name() == name)
    }
}

/// A moment of a request at which it is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum AuditStage {
    /// The user is known, nothing was done.
    RequestReceived,
    /// The head of an answer is there whose body may take any time.
    ResponseStarted,
    /// The answer is complete.
    ResponseComplete,
    /// The handler has panicked.
    Panic,
}

impl AuditStage {
    pub(crate) const ALL: [Self; 4] = [
        Self::RequestReceived,
        Self::ResponseStarted,
        Self::ResponseComplete,
        Self::Panic,
    ];

    /// The stage as policies and events name it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RequestReceived => "RequestReceived",
            Self::ResponseStarted => "ResponseStarted",
            Self::ResponseComplete => "ResponseComplete",
            Self::Panic => "Panic",
        }
    }

    pub(crate) fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|stage| stage.name() == name)
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// A set of stages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stages(u8);

impl Stages {
    /// Returns true if the stage is in it.
    pub const fn contains(self, stage: AuditStage) -> bool {
        self.0 & stage.bit() != 0
    }

    pub(crate) const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl FromIterator<AuditStage> for Stages {
    fn from_iter<I: IntoIterator<Item = AuditStage>>(stages: I) -> Self {
        Self(stages.into_iter().fold(0, |set, stage| set | stage.bit()))
    }
}
