//! A disk for tests: what was synced survives a power cut, what was only written may or may not,
//! and a sync can be held up.

use std::{
    collections::hash_map::RandomState,
    hash::{BuildHasher, Hasher},
    io,
    sync::{Arc, Condvar, Mutex, MutexGuard},
};

use redb::StorageBackend;

#[derive(Debug, Default)]
struct State {
    written: Vec<u8>,
    synced: Vec<u8>,
    /// Writes since the last sync, in order.
    pending: Vec<(usize, Vec<u8>)>,
    held: bool,
    waiting: usize,
    fails: Option<DiskFailure>,
    /// The contents of the disk at the beginning of the record, and the writes to it since.
    record: Option<(Vec<u8>, Vec<DiskStep>)>,
}

/// The way in which a disk fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DiskFailure {
    /// There is no space for what is written.
    Full,
    /// There is no space for 64 KiB in one piece.
    AlmostFull,
    /// It cannot be synced.
    Unsynced,
}

/// A change of the disk.
#[derive(Debug, Clone)]
enum DiskStep {
    Write(usize, Vec<u8>),
    SetLen(usize),
    Sync,
}

/// See the module's header. Clones are the same disk.
#[derive(Debug, Clone, Default)]
pub(super) struct TestDisk {
    state: Arc<(Mutex<State>, Condvar)>,
}

impl TestDisk {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.0.lock().expect("no holder panics")
    }

    /// The disk as it would be found if the power went now: each write that was not synced has been
    /// lost with a chance of one half.
    pub(super) fn after_power_cut(&self) -> Self {
        let state = self.lock();
        let coin = RandomState::new();
        let mut image = state.synced.clone();
        for (number, (offset, data)) in state.pending.iter().enumerate() {
            let mut hasher = coin.build_hasher();
            hasher.write_usize(number);
            if hasher.finish().is_multiple_of(2) {
                let end = offset + data.len();
                image.resize(image.len().max(end), 0);
                image[*offset..end].copy_from_slice(data);
            }
        }
        let found = State {
            written: image.clone(),
            synced: image,
            ..State::default()
        };
        Self {
            state: Arc::new((Mutex::new(found), Condvar::new())),
        }
    }

    /// From now on the disk fails; with `None` it is well again.
    pub(super) fn fail(&self, how: Option<DiskFailure>) {
        self.lock().fails = how;
    }

    /// Records all that is done to the disk from now on.
    pub(super) fn record(&self) {
        let mut state = self.lock();
        state.record = Some((state.synced.clone(), Vec::new()));
    }

    /// The number of changes that were recorded.
    pub(super) fn steps(&self) -> usize {
        self.lock().record.as_ref().map_or(0, |(_, steps)| steps.len())
    }

    /// The disk as it would be found if the power had gone after so many recorded changes. Of the writes since the last
    /// sync before it every second one is there, or the others, or half of each.
    pub(super) fn crashed_at(&self, steps: usize, which: usize) -> Self {
        let state = self.lock();
        let (before, record) = state.record.as_ref().expect("it is recorded");
        let (mut written, mut synced, mut pending) = (before.clone(), before.clone(), Vec::new());
        for step in &record[..steps] {
            match step {
                DiskStep::SetLen(len) => {
                    written.resize(*len, 0);
                    synced.resize(*len, 0);
                    pending.retain(|(offset, data): &(usize, Vec<u8>)| offset + data.len() <= *len);
                }
                DiskStep::Write(offset, data) => {
                    written[*offset..offset + data.len()].copy_from_slice(data);
                    pending.push((*offset, data.clone()));
                }
                DiskStep::Sync => {
                    synced.clone_from(&written);
                    pending.clear();
                }
            }
        }
        for (number, (offset, data)) in pending.iter().enumerate() {
            let kept = match which {
                0 | 1 if number % 2 == which => data.as_slice(),
                2 => data.split_at(data.len() / 2).0,
                _ => &[],
            };
            synced[*offset..offset + kept.len()].copy_from_slice(kept);
        }
        let found = State {
            written: synced.clone(),
            synced,
            ..State::default()
        };
        Self {
            state: Arc::new((Mutex::new(found), Condvar::new())),
        }
    }

    /// Lets syncs hang until [`Self::release`].
    pub(super) fn hold(&self) {
        self.lock().held = true;
    }

    pub(super) fn release(&self) {
        self.lock().held = false;
        self.state.1.notify_all();
    }

    /// Blocks until a sync hangs.
    pub(super) fn wait_for_held_sync(&self) {
        let state = self.lock();
        drop(
            self.state
                .1
                .wait_while(state, |state| state.waiting == 0)
                .expect("no holder panics"),
        );
    }
}

impl State {
    /// Fails if the disk does, and records a change.
    fn step(&mut self, step: DiskStep) -> io::Result<()> {
        match (self.fails, &step) {
            (Some(DiskFailure::Full), DiskStep::Write(..) | DiskStep::SetLen(_)) => {
                return Err(io::ErrorKind::StorageFull.into());
            }
            (Some(DiskFailure::AlmostFull), DiskStep::Write(_, data)) if data.len() >= 1 << 16 => {
                return Err(io::ErrorKind::StorageFull.into());
            }
            (Some(DiskFailure::Unsynced), DiskStep::Sync) => return Err(io::Error::other("the disk is broken")),
            _ => {}
        }
        if let Some((_, steps)) = &mut self.record {
            steps.push(step);
        }
        Ok(())
    }
}

fn place(offset: u64) -> usize {
    usize::try_from(offset).expect("test files are small")
}

impl StorageBackend for TestDisk {
    fn len(&self) -> Result<u64, io::Error> {
        Ok(u64::try_from(self.lock().written.len()).expect("a length"))
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), io::Error> {
        let state = self.lock();
        let found = state.written.get(place(offset)..place(offset) + out.len());
        out.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> Result<(), io::Error> {
        // File systems journal sizes: a resize is as durable as if it were synced.
        let mut state = self.lock();
        state.step(DiskStep::SetLen(place(len)))?;
        state.written.resize(place(len), 0);
        state.synced.resize(place(len), 0);
        state.pending.retain(|(offset, data)| offset + data.len() <= place(len));
        Ok(())
    }

    fn sync_data(&self) -> Result<(), io::Error> {
        let mut state = self.lock();
        state.step(DiskStep::Sync)?;
        state.waiting += 1;
        self.state.1.notify_all();
        state = self
            .state
            .1
            .wait_while(state, |state| state.held)
            .expect("no holder panics");
        state.waiting -= 1;
        state.synced = state.written.clone();
        state.pending.clear();
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), io::Error> {
        let mut state = self.lock();
        let start = place(offset);
        state.step(DiskStep::Write(start, data.to_vec()))?;
        let target = state
            .written
            .get_mut(start..start + data.len())
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        target.copy_from_slice(data);
        state.pending.push((start, data.to_vec()));
        Ok(())
    }
}
