//! Node ports.

use std::{collections::HashSet, fmt, str::FromStr, sync::Arc};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use rand::Rng as _;
use serde_json::{Value, json};
use trireme_machinery::{ApiError, Reason};
use trireme_storage::{Compare, PutOptions, Storage, WriteOutcome};

use super::AllocateError;
use crate::{encode, fence::Fence, store_error};

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
}

/// Hands out node ports of one range.
#[derive(Clone)]
pub struct PortAllocator {
    store: Arc<dyn Storage>,
    key: Arc<str>,
    range: PortRange,
    fence: Option<Fence>,
}

/// The ports that are held, a bit each.
struct Bitmap(Vec<u8>);

impl Bitmap {
    fn is_set(&self, offset: usize) -> bool {
        self.0
            .get(offset / 8)
            .is_some_and(|byte| byte & (1 << (offset % 8)) != 0)
    }

    fn set(&mut self, offset: usize, held: bool) {
        if let Some(byte) = self.0.get_mut(offset / 8) {
            let bit = 1 << (offset % 8);
            *byte = if held { *byte | bit } else { *byte & !bit };
        }
    }
}

impl PortAllocator {
    /// Keeps its bitmap at `key`, such as `/registry/ranges/servicenodeports`.
    pub fn new(store: Arc<dyn Storage>, key: &str, range: PortRange) -> Self {
        Self {
            store,
            key: key.into(),
            range,
            fence: None,
        }
    }

    /// The same range, of which is reserved and given back only as long as the fence holds.
    #[must_use]
    pub fn under(&self, fence: &Fence) -> Self {
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
        let size = self.range.size();
        self.change(|bitmap| {
            let start = rand::rng().random_range(0..size);
            let free = (start..size).chain(0..start).find(|offset| !bitmap.is_set(*offset));
            let offset = free.ok_or(AllocateError::Full)?;
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

    async fn change<T>(
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
                "data": STANDARD.encode(&bitmap.0),
            });
            let bytes = Bytes::from(encode::object(&object));
            let options = PutOptions {
                fence: self.fence.as_ref().map(Fence::at),
                ..PutOptions::default()
            };
            let written = self.store.put(&self.key, bytes, compare, options).await;
            Fence::note(self.fence.as_ref(), &written);
            match written.map_err(store)? {
                WriteOutcome::Committed(_) => return Ok(result),
                WriteOutcome::Conflict(current) => found = current,
            }
        }
        let busy = ApiError::new(Reason::ServerTimeout, "ports are being allocated too often, try again");
        Err(AllocateError::Store(busy.with_retry_after(1)))
    }

    /// The ports that are held. What was stored for another range keeps the ports that both ranges have.
    fn bitmap(&self, stored: Option<&Bytes>) -> Result<Bitmap, AllocateError> {
        let mut bitmap = Bitmap(vec![0; self.range.size().div_ceil(8)]);
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

fn decode(stored: &[u8]) -> Option<(PortRange, Bitmap)> {
    let object: Value = serde_json::from_slice(stored).ok()?;
    let range = object.get("range")?.as_str()?.parse().ok()?;
    // No port held is no data.
    let data = object.get("data").and_then(Value::as_str).unwrap_or_default();
    Some((range, Bitmap(STANDARD.decode(data).ok()?)))
}

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
    fn bits_are_set_and_cleared_alone() {
        let mut bitmap = Bitmap(vec![0; 2]);
        bitmap.set(9, true);
        bitmap.set(1, true);
        bitmap.set(9, false);
        assert_eq!(bitmap.0, [2, 0]);
        assert!(bitmap.is_set(1) && !bitmap.is_set(9) && !bitmap.is_set(99));
    }
}
