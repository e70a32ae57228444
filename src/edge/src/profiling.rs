//! The edge's interface to a profiler. The composition root has one: only it may bring what stops threads to look at them.

/// Takes CPU profiles of this process.
pub trait Profiler: Send + Sync {
    /// Begins to take a profile.
    ///
    /// # Errors
    /// If one is being taken already, or the system does not let this process be sampled.
    fn begin(&self) -> Result<Box<dyn Profile>, ProfilerError>;
}

/// A profile that is being taken. Dropping it ends that.
pub trait Profile: Send {
    /// Ends it and gives the profile as `go tool pprof` reads it: protobuf, compressed with gzip. Looks the names of
    /// functions up and so takes CPU time; not to be called on a thread that serves.
    ///
    /// # Errors
    /// If the samples cannot be read.
    fn finish(self: Box<Self>) -> Result<Vec<u8>, ProfilerError>;
}

/// The reason that there is no profile.
#[derive(Debug, thiserror::Error)]
pub enum ProfilerError {
    /// There is one timer in a process.
    #[error("a CPU profile is being taken already")]
    Busy,
    /// Something else.
    #[error("the CPU cannot be profiled: {0}")]
    Failed(String),
}
