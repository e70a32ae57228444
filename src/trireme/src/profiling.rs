//! CPU profiles of this process, by a timer whose signal interrupts whatever thread is busy and looks at its stack.
//!
//! The handler of that signal may interrupt anything, also the allocator or the loader while they hold a lock, so it
//! must neither allocate nor wait. It unwinds by the unwind tables through libgcc, which since GCC 12 and glibc 2.35 finds
//! them without a lock; older ones take the loader's lock, which the interrupted thread may hold. So threads that are in
//! one of the libraries of [`NEVER_INTERRUPTED`] are passed over: what they do there is missing from a profile, of a system
//! call its CPU time in the kernel. Frame pointers would do without tables, but the C and assembler code that we link
//! has none, and ours would be slower with them.

use std::io::Write as _;

use flate2::{Compression, write::GzEncoder};
use pprof::{Frames, ProfilerGuard, ProfilerGuardBuilder, Symbol, protos::Message as _};
use trireme_edge::profiling::{Profile, Profiler, ProfilerError};

/// Samples a second of CPU time, as in Go.
const FREQUENCY: i32 = 100;
/// Parts of the names of shared libraries: the allocator of the C library, the loader and the unwinder are in them.
const NEVER_INTERRUPTED: [&str; 5] = ["libc.", "libgcc_s.", "libpthread", "ld-linux", "vdso"];

/// Takes profiles, one at a time.
pub(crate) struct CpuProfiler;

struct Running(ProfilerGuard<'static>);

impl Profiler for CpuProfiler {
    fn begin(&self) -> Result<Box<dyn Profile>, ProfilerError> {
        let builder = ProfilerGuardBuilder::default()
            .frequency(FREQUENCY)
            .blocklist(&NEVER_INTERRUPTED);
        match builder.build() {
            Ok(guard) => Ok(Box::new(Running(guard))),
            Err(pprof::Error::Running) => Err(ProfilerError::Busy),
            Err(error) => Err(failed(error)),
        }
    }
}

impl Profile for Running {
    fn finish(self: Box<Self>) -> Result<Vec<u8>, ProfilerError> {
        let mut report = self.0.report();
        let report = report.frames_post_processor(drop_own_frames).build().map_err(failed)?;
        let profile = report.pprof().map_err(failed)?;
        let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
        gzip.write_all(&profile.encode_to_vec()).map_err(failed)?;
        gzip.finish().map_err(failed)
    }
}

/// Takes the signal handler off a stack: else it would be the function that all time is spent in.
fn drop_own_frames(stack: &mut Frames) {
    let own = stack
        .frames
        .iter()
        .take_while(|inlined| inlined.iter().all(is_of_the_profiler));
    let own = own.count();
    stack.frames.drain(..own);
}

fn is_of_the_profiler(symbol: &Symbol) -> bool {
    let (name, file) = (symbol.name(), symbol.filename());
    ["/pprof-", "/backtrace-"].iter().any(|crate_| file.contains(crate_))
        || ["pprof::", "<pprof::", "backtrace::"]
            .iter()
            .any(|room| name.starts_with(room))
}

fn failed(error: impl std::fmt::Display) -> ProfilerError {
    ProfilerError::Failed(error.to_string())
}
