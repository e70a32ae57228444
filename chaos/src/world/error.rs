//! The reasons that a world cannot do what it is asked for.

use std::io;
use std::time::Duration;

/// Nothing is shown about the server by any of these: the experiment itself could not be done.
#[derive(Debug, thiserror::Error)]
pub enum WorldError {
    /// A program is not installed.
    #[error("{program} is not installed; run: {install}")]
    Missing {
        /// The program.
        program: &'static str,
        /// The command that installs it.
        install: &'static str,
    },
    /// The server was not built.
    #[error("there is no {path}; run: {build}")]
    NotBuilt {
        /// The path where it should be.
        path: String,
        /// The command that builds it.
        build: &'static str,
    },
    /// A file, socket or process operation failed.
    #[error("cannot {0}")]
    Io(String, #[source] io::Error),
    /// A certificate could not be made.
    #[error("cannot make certificates")]
    Certificates(#[from] rcgen::Error),
    /// A process ended when it should have become ready.
    #[error("{part} ended ({status}) before it was {what}; its log ends:\n{log}")]
    Ended {
        /// The part of the world.
        part: String,
        /// The condition that was waited for.
        what: &'static str,
        /// The exit status of the process.
        status: String,
        /// The end of its log.
        log: String,
    },
    /// Something did not happen in time.
    #[error("{part} was not {what} within {patience:?}; its log ends:\n{log}")]
    NotInTime {
        /// The part of the world.
        part: String,
        /// The condition that was waited for.
        what: &'static str,
        /// The time.
        patience: Duration,
        /// The end of its log.
        log: String,
    },
    /// Something is asked of a process that does not run.
    #[error("{0} does not run")]
    NotRunning(String),
    /// There is no such part or link in this world.
    #[error("this world has no {0}")]
    NoSuch(String),
    /// etcd has refused something.
    #[error("etcd does not {0}")]
    Etcd(&'static str, #[source] etcd_client::Error),
    /// A replica could not be asked, or its answer is not what the contract says.
    #[error("{part} does not report {what}: {why}")]
    Answer {
        /// The part that was asked.
        part: String,
        /// The request to it.
        what: &'static str,
        /// The reason that there is no answer.
        why: String,
    },
    /// The Docker engine, or the program that speaks to it, has refused something.
    #[error("cannot {what}: {said}")]
    Docker {
        /// The request to it.
        what: &'static str,
        /// Its answer.
        said: String,
    },
    /// The world is of a kind that cannot do this.
    #[error("{0}")]
    Unsupported(String),
}

impl WorldError {
    /// For `map_err`: an I/O error with what was being done.
    pub(crate) fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |error| Self::Io(doing, error)
    }
}
