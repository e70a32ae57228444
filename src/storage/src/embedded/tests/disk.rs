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
        state.written.resize(place(len), 0);
        state.synced.resize(place(len), 0);
        state.pending.retain(|(offset, data)| offset + data.len() <= place(len));
        Ok(())
    }

    fn sync_data(&self) -> Result<(), io::Error> {
        let mut state = self.lock();
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
        let target = state
            .written
            .get_mut(start..start + data.len())
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        target.copy_from_slice(data);
        state.pending.push((start, data.to_vec()));
        Ok(())
    }
}
