//! A small pool of arbiters: the threads on which actors take their turns.

use std::collections::hash_map::DefaultHasher;
use std::future::Future;
use std::hash::{Hash as _, Hasher as _};
use std::io;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use actix_rt::{Arbiter, ArbiterHandle};

use crate::topology::Placement;

/// Runs `main` inside an actix system on a tokio runtime with `workers` threads. Arbiters can only be made in there.
pub fn run_system<F: Future>(workers: NonZeroUsize, main: F) -> io::Result<F::Output> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers.get())
        .thread_name("trireme-worker")
        .enable_all()
        .build()?;
    let system = actix_rt::System::with_tokio_rt(move || runtime);
    Ok(system.block_on(main))
}

/// The arbiters of one actor system.
#[derive(Debug)]
pub(crate) struct Arbiters {
    handles: Vec<ArbiterHandle>,
    next: AtomicUsize,
    threads: Mutex<Vec<Arbiter>>,
}

impl Arbiters {
    /// Starts the threads.
    pub(crate) fn start(count: NonZeroUsize) -> io::Result<Self> {
        let threads = (0..count.get())
            .map(|_| Arbiter::try_new())
            .collect::<io::Result<Vec<_>>>()?;
        let handles = threads.iter().map(Arbiter::handle).collect();
        Ok(Self {
            handles,
            next: AtomicUsize::new(0),
            threads: Mutex::new(threads),
        })
    }

    /// The arbiter for an actor.
    ///
    /// # Errors
    /// If the actor is to have a thread of its own and that cannot be started.
    pub(crate) fn place(&self, placement: Placement, instance: &str) -> io::Result<ArbiterHandle> {
        let number = match placement {
            Placement::RoundRobin => self.next.fetch_add(1, Ordering::Relaxed),
            Placement::ByInstance => {
                let mut hasher = DefaultHasher::new();
                instance.hash(&mut hasher);
                usize::try_from(hasher.finish() >> 32).unwrap_or_default()
            }
            Placement::OwnThread => {
                let arbiter = Arbiter::try_new()?;
                let handle = arbiter.handle();
                self.threads().push(arbiter);
                return Ok(handle);
            }
        };
        let handle = self.handles.get(number % self.handles.len());
        Ok(handle.expect("there is at least one arbiter").clone())
    }

    fn threads(&self) -> MutexGuard<'_, Vec<Arbiter>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops the threads and waits until they are gone. What still runs on them is dropped.
    pub(crate) fn stop_blocking(&self) {
        let threads = std::mem::take(&mut *self.threads());
        for arbiter in &threads {
            arbiter.stop();
        }
        for arbiter in threads {
            if arbiter.join().is_err() {
                tracing::error!("an arbiter thread panicked");
            }
        }
    }
}
