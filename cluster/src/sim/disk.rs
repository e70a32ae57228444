//! A disk that loses what was not synced when its host crashes.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use rand_08::Rng as _;
use rand_08::rngs::StdRng;
use redb::StorageBackend;

#[derive(Debug, Default)]
struct DiskState {
    written: Vec<u8>,
    synced: Vec<u8>,
    /// Writes since the last sync, in order.
    pending: Vec<(usize, Vec<u8>)>,
    /// Its host has crashed, or the disk is broken: syncs fail, and what was not synced is lost.
    is_cut_off: bool,
}

/// Clones are the same disk.
#[derive(Debug, Clone, Default)]
pub(crate) struct SimDisk(Arc<Mutex<DiskState>>);

impl SimDisk {
    fn lock(&self) -> MutexGuard<'_, DiskState> {
        self.0.lock().expect("no holder panics")
    }

    /// From now on syncs fail.
    pub(crate) fn fail(&self) {
        self.lock().is_cut_off = true;
    }

    /// Cuts the power. Gives the disk as it is found afterwards: each write that was not synced is there or not.
    pub(crate) fn cut(&self, random: &mut StdRng) -> Self {
        let mut state = self.lock();
        state.is_cut_off = true;
        let mut image = state.synced.clone();
        for (offset, data) in &state.pending {
            let end = offset + data.len();
            if random.r#gen::<bool>() && end <= image.len() {
                image[*offset..end].copy_from_slice(data);
            }
        }
        let found = DiskState {
            written: image.clone(),
            synced: image,
            ..DiskState::default()
        };
        Self(Arc::new(Mutex::new(found)))
    }
}

fn place(offset: u64) -> usize {
    usize::try_from(offset).expect("test files are small")
}

impl StorageBackend for SimDisk {
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
        if state.is_cut_off {
            return Err(io::Error::other("the disk does not answer"));
        }
        let pending = std::mem::take(&mut state.pending);
        for (offset, data) in pending {
            state.synced[offset..offset + data.len()].copy_from_slice(&data);
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), io::Error> {
        let mut state = self.lock();
        let start = place(offset);
        let target = state.written.get_mut(start..start + data.len());
        target.ok_or(io::ErrorKind::UnexpectedEof)?.copy_from_slice(data);
        state.pending.push((start, data.to_vec()));
        Ok(())
    }
}
