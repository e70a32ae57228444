//! Node ports.

use std::{
    collections::HashSet,
    fmt,
    str::FromStr,
    sync::{Arc, LazyLock, Mutex, PoisonError},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use rand::Rng as _;
use serde_json::{Value, json};
use trireme_machinery::{
    ApiError, Reason, protobuf,
    schema::{Field, PatchStrategy, Presence, Shape, StringFormat, TypeDef, TypeId, TypeTable},
};
use trireme_storage::{Compare, PutOptions, Storage, WriteOutcome};

use super::{AllocateError, bitmap::Bitmap};
use crate::{encode, fence::WriteFence, store_error};

/// The number of times that a change of the bitmap is tried again because another replica was faster.
const ROUNDS: usize = 32;

/// A range of ports, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortRange {
    first: u16,
    last: u16,
}

/// The text is no range of ports.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("must be a range of ports such as 30000-32767")]
pub struct NotAPortRange;

impl FromStr for PortRange {
    type Err = NotAPortRange;

    fn from_str(text: &str) -> Result<Self, NotAPortRange> {
        let (first, last) = text.split_once('-').ok_or(NotAPortRange)?;
        let range = Self {
            first: first.parse().map_err(|_| NotAPortRange)?,
            last: last.parse().map_err(|_| NotAPortRange)?,
        };
        if range.first == 0 || range.first > range.last {
            Err(NotAPortRange)
        } else {
            Ok(range)
        }
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

impl PortRange {
    /// Reports whether a port is in the range.
    pub fn contains(&self, port: u16) -> bool {
        (self.first..=self.last).contains(&port)
    }

    fn size(&self) -> usize {
        usize::from(self.last - self.first) + 1
    }

    fn offset(&self, port: u16) -> usize {
        usize::from(port.saturating_sub(self.first))
    }

    /// The number of ports at the lower end of the range that are left to those that are asked for (KEP-3668); 0 if the
    /// range is too small for that.
    fn asked_for(&self) -> usize {
        let size = self.size();
        if size <= 16 { 0 } else { (size / 32).clamp(16, 128) }
    }

    /// The offset of a free port, from a random one on: above those that are left to what is asked for, and among
    /// these only if no other is free.
    fn any_free(&self, bitmap: &Bitmap) -> Option<usize> {
        let (asked_for, size) = (self.asked_for(), self.size());
        let start = rand::rng().random_range(asked_for..size);
        let mut offsets = (start..size).chain(asked_for..start).chain(0..asked_for);
        offsets.find(|offset| !bitmap.is_set(*offset))
    }
}

/// The turns of the changes of one process: if all were made at once, each but the first would find that another was faster.
#[derive(Default)]
struct ChangeTurns {
    turn: tokio::sync::Mutex<()>,
    /// The number of changes that the store failed, and its last error. Who has waited for one of these gets the error too, lest
    /// each waits for the store in turn.
    failed: Mutex<(u64, Option<ApiError>)>,
}

impl ChangeTurns {
    fn failed(&self) -> (u64, Option<ApiError>) {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note_failure(&self, error: &ApiError) {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        *failed = (failed.0 + 1, Some(error.clone()));
    }

    /// Makes a change when it is its turn.
    async fn wait_for<T>(&self, change: impl Future<Output = Result<T, AllocateError>>) -> Result<T, AllocateError> {
        let (failures, _) = self.failed();
        let _turn = self.turn.lock().await;
        if let (later, Some(error)) = self.failed()
            && later != failures
        {
            return Err(AllocateError::Store(error));
        }
        let changed = change.await;
        if let Err(AllocateError::Store(error)) = &changed {
            self.note_failure(error);
        }
        changed
    }
}

/// Hands out node ports of one range.
#[derive(Clone)]
pub struct PortAllocator {
    store: Arc<dyn Storage>,
    key: Arc<str>,
    range: PortRange,
    fence: Option<WriteFence>,
    turns: Arc<ChangeTurns>,
    /// The ports that are held for a trial: those that were when it began, and what it has taken.
    tried: Option<Arc<Mutex<Option<Bitmap>>>>,
}

impl PortAllocator {
    /// Keeps its bitmap at `key`, such as `/registry/ranges/servicenodeports`.
    pub fn new(store: Arc<dyn Storage>, key: &str, range: PortRange) -> Self {
        Self {
            store,
            key: key.into(),
            range,
            fence: None,
            turns: Arc::default(),
            tried: None,
        }
    }

    /// The same range, of which only this trial sees what it takes: for a dry run.
    #[must_use]
    pub fn trial(&self) -> Self {
        Self {
            tried: Some(Arc::default()),
            ..self.clone()
        }
    }

    /// The same range, of which is reserved and given back only as long as the fence holds.
    #[must_use]
    pub fn under(&self, fence: &WriteFence) -> Self {
        Self {
            fence: Some(fence.clone()),
            ..self.clone()
        }
    }

    /// The range.
    pub fn range(&self) -> PortRange {
        self.range
    }

    /// The ports that are held now.
    pub async fn held(&self) -> Result<HashSet<u16>, AllocateError> {
        let found = self.store.get(&self.key, None).await;
        let (found, _) = found.map_err(|error| AllocateError::Store(store_error(error)))?;
        let bitmap = self.bitmap(found.as_ref().map(|entry| &entry.value))?;
        let ports = self.range.first..=self.range.last;
        Ok(ports.filter(|port| bitmap.is_set(self.range.offset(*port))).collect())
    }

    /// Reserves a certain port.
    pub async fn reserve(&self, port: u16) -> Result<(), AllocateError> {
        if !self.range.contains(port) {
            return Err(AllocateError::PortOutside(self.range.to_string()));
        }
        let offset = self.range.offset(port);
        self.change(|bitmap| {
            if bitmap.is_set(offset) {
                return Err(AllocateError::PortTaken);
            }
            bitmap.set(offset, true);
            Ok(())
        })
        .await
    }

    /// Reserves any free port.
    pub async fn allocate(&self) -> Result<u16, AllocateError> {
        self.change(|bitmap| {
            let offset = self.range.any_free(bitmap).ok_or(AllocateError::Full)?;
            bitmap.set(offset, true);
            Ok(self.range.first + u16::try_from(offset).map_err(|_| AllocateError::Full)?)
        })
        .await
    }

    /// Gives ports back. One that is not held is no error.
    pub async fn release(&self, ports: &[u16]) -> Result<(), AllocateError> {
        if ports.is_empty() {
            return Ok(());
        }
        self.change(|bitmap| {
            for port in ports.iter().filter(|port| self.range.contains(**port)) {
                bitmap.set(self.range.offset(*port), false);
            }
            Ok(())
        })
        .await
    }

    async fn change<T>(&self, change: impl FnMut(&mut Bitmap) -> Result<T, AllocateError>) -> Result<T, AllocateError> {
        match &self.tried {
            Some(tried) => self.try_out(tried, change).await,
            None => self.turns.wait_for(self.change_stored(change)).await,
        }
    }

    async fn change_stored<T>(
        &self,
        mut change: impl FnMut(&mut Bitmap) -> Result<T, AllocateError>,
    ) -> Result<T, AllocateError> {
        let store = |error| AllocateError::Store(store_error(error));
        let (mut found, _) = self.store.get(&self.key, None).await.map_err(store)?;
        for _ in 0..ROUNDS {
            let mut bitmap = self.bitmap(found.as_ref().map(|entry| &entry.value))?;
            let result = change(&mut bitmap)?;
            let compare = found
                .as_ref()
                .map_or(Compare::Absent, |entry| Compare::ModRevision(entry.mod_revision));
            let object = json!({
                "apiVersion": "v1",
                "kind": "RangeAllocation",
                "metadata": {},
                "range": self.range.to_string(),
                "data": STANDARD.encode(bitmap.to_bytes()),
            });
            let bytes = Bytes::from(encode::object(&object));
            let options = PutOptions {
                fence: self.fence.as_ref().map(WriteFence::at),
                ..PutOptions::default()
            };
            let written = self.store.put(&self.key, bytes, compare, options).await;
            WriteFence::note(self.fence.as_ref(), &written);
            match written.map_err(store)? {
                WriteOutcome::Committed(_) => return Ok(result),
                WriteOutcome::Conflict(current) => found = current,
            }
        }
        let busy = ApiError::new(Reason::ServerTimeout, "ports are being allocated too often, try again");
        Err(AllocateError::Store(busy.with_retry_after(1)))
    }

    /// Changes what a trial has taken, and nothing that is stored.
    async fn try_out<T>(
        &self,
        tried: &Mutex<Option<Bitmap>>,
        mut change: impl FnMut(&mut Bitmap) -> Result<T, AllocateError>,
    ) -> Result<T, AllocateError> {
        let before = tried.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut bitmap = match before {
            Some(bitmap) => bitmap,
            None => {
                let found = self.store.get(&self.key, None).await;
                let (found, _) = found.map_err(|error| AllocateError::Store(store_error(error)))?;
                self.bitmap(found.as_ref().map(|entry| &entry.value))?
            }
        };
        let result = change(&mut bitmap);
        *tried.lock().unwrap_or_else(PoisonError::into_inner) = Some(bitmap);
        result
    }

    /// The ports that are held. What was stored for another range keeps the ports that both ranges have.
    fn bitmap(&self, stored: Option<&Bytes>) -> Result<Bitmap, AllocateError> {
        let mut bitmap = Bitmap::default();
        let Some(bytes) = stored else { return Ok(bitmap) };
        let (range, held) = decode(bytes).ok_or_else(|| {
            tracing::error!(key = %self.key, "the stored allocation of ports cannot be read");
            AllocateError::Store(ApiError::internal("the allocation of ports cannot be read"))
        })?;
        for port in (range.first..=range.last).filter(|port| held.is_set(range.offset(*port))) {
            if self.range.contains(port) {
                bitmap.set(self.range.offset(port), true);
            }
        }
        Ok(bitmap)
    }
}

/// Reads a `RangeAllocation`, in JSON or in kube-apiserver's envelope.
fn decode(stored: &[u8]) -> Option<(PortRange, Bitmap)> {
    let object: Value = if protobuf::is_enveloped(stored) {
        let (table, ty) = &*ALLOCATION;
        protobuf::decode(table, *ty, protobuf::envelope(stored).ok()?.raw).ok()?
    } else {
        serde_json::from_slice(stored).ok()?
    };
    let range = object.get("range")?.as_str()?.parse().ok()?;
    // No port held is no data.
    let data = object.get("data").and_then(Value::as_str).unwrap_or_default();
    Some((range, Bitmap::from_bytes(&STANDARD.decode(data).ok()?)))
}

/// The parts of `core/v1.RangeAllocation` that are read. No path serves it, so OpenAPI, where types come from, does not have it.
static ALLOCATION: LazyLock<(TypeTable, TypeId)> = LazyLock::new(|| {
    let field = |name: &str, tag, format| Field {
        name: name.to_owned(),
        shape: Shape::String(format),
        presence: Presence::OmitZero,
        required: false,
        default: None,
        patch: PatchStrategy::default(),
        tag,
    };
    let mut table = TypeTable::default();
    let id = table.define(TypeDef {
        name: "io.k8s.api.core.v1.RangeAllocation".to_owned(),
        fields: vec![
            field("range", 2, StringFormat::Plain),
            field("data", 3, StringFormat::Bytes),
        ],
        ..TypeDef::default()
    });
    (table, id)
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_have_both_their_ends() {
        let range: PortRange = "30000-30002".parse().expect("a range");
        assert_eq!(
            [29999, 30000, 30002, 30003].map(|port| range.contains(port)),
            [false, true, true, false]
        );
        assert_eq!((range.size(), range.offset(30002)), (3, 2));
        for text in ["", "1", "5-4", "0-9", "a-b", "1-70000"] {
            assert_eq!(text.parse::<PortRange>(), Err(NotAPortRange), "{text}");
        }
    }

    #[test]
    fn the_lower_part_is_left_to_what_is_asked_for() {
        let sizes = [
            ("30000-30015", 0),
            ("30000-30016", 16),
            ("30000-32767", 86),
            ("20000-32767", 128),
        ];
        for (text, asked_for) in sizes {
            let range: PortRange = text.parse().expect("a range");
            assert_eq!(range.asked_for(), asked_for, "{text}");
        }
        let range: PortRange = "30000-30099".parse().expect("a range");
        let mut bitmap = Bitmap::default();
        for handed_out in 0..range.size() {
            let offset = range.any_free(&bitmap).expect("a free port");
            assert_eq!(
                offset < range.asked_for(),
                handed_out >= 84,
                "port {handed_out} is {offset}"
            );
            bitmap.set(offset, true);
        }
        assert_eq!(range.any_free(&bitmap), None);
    }

    #[test]
    fn what_kube_apiserver_has_stored_is_read() {
        // Its form, with the node ports 30007 and 32767 held: an envelope, and in it the range and a big-endian number.
        let mut data = vec![0_u8; 346];
        data[0] = 0x80;
        data[345] = 0x80;
        let mut raw = vec![0x0a, 0x00, 0x12, 11];
        raw.extend_from_slice(b"30000-32767");
        raw.extend_from_slice(&[0x1a, 0xda, 0x02]);
        raw.extend_from_slice(&data);
        let mut stored = b"k8s\0\x0a\x15\x0a\x02v1\x12\x0fRangeAllocation\x12\xec\x02".to_vec();
        stored.extend_from_slice(&raw);
        stored.extend_from_slice(b"\x1a\0\"\0");
        let (range, bitmap) = decode(&stored).expect("it is an allocation");
        assert_eq!(range.to_string(), "30000-32767");
        let held: Vec<u16> = (30000..=32767)
            .filter(|port| bitmap.is_set(range.offset(*port)))
            .collect();
        assert_eq!(held, [30007, 32767]);
        assert_eq!(bitmap.to_bytes(), data);
    }
}
