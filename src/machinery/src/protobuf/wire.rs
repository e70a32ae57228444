//! The wire format: a message is a row of entries, each a tag and a value of one of a few types.

#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use super::ProtobufError;

/// The most bytes that a 64-bit number takes.
const MAX_VARINT_BYTES: u32 = 10;
const LARGEST_TAG: u64 = (1 << 29) - 1;

/// Reads the entries of one message. Groups, which no type of Kubernetes has, are skipped.
pub(super) struct WireReader<'a> {
    rest: &'a [u8],
}

/// One entry.
#[derive(Debug, Clone, Copy)]
pub(super) struct WireEntry<'a> {
    pub(super) tag: u32,
    value: Raw<'a>,
}

#[derive(Debug, Clone, Copy)]
enum Raw<'a> {
    Varint(u64),
    Fixed64([u8; 8]),
    Bytes(&'a [u8]),
    Fixed32,
}

impl<'a> WireReader<'a> {
    pub(super) fn new(rest: &'a [u8]) -> Self {
        Self { rest }
    }

    /// The next entry; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<WireEntry<'a>>, ProtobufError> {
        let mut open_groups = 0_usize;
        while !self.rest.is_empty() {
            let key = self.varint()?;
            let tag = u32::try_from(key >> 3)
                .ok()
                .filter(|tag| *tag > 0 && u64::from(*tag) <= LARGEST_TAG)
                .ok_or(ProtobufError::IllegalTag(key >> 3))?;
            let value = match key & 7 {
                0 => Raw::Varint(self.varint()?),
                1 => Raw::Fixed64(self.array()?),
                2 => {
                    let length = usize::try_from(self.varint()?).map_err(|_| ProtobufError::UnexpectedEnd)?;
                    Raw::Bytes(self.take(length)?)
                }
                3 => {
                    open_groups = open_groups.saturating_add(1);
                    continue;
                }
                4 => {
                    open_groups = open_groups.checked_sub(1).ok_or(ProtobufError::UnexpectedEndOfGroup)?;
                    continue;
                }
                5 => {
                    self.array::<4>()?;
                    Raw::Fixed32
                }
                other => return Err(ProtobufError::IllegalWireType(other)),
            };
            if open_groups == 0 {
                return Ok(Some(WireEntry { tag, value }));
            }
        }
        if open_groups == 0 {
            Ok(None)
        } else {
            Err(ProtobufError::UnexpectedEnd)
        }
    }

    /// The numbers of a packed list.
    pub(super) fn packed_varint(&mut self) -> Result<Option<u64>, ProtobufError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        self.varint().map(Some)
    }

    /// The doubles of a packed list.
    pub(super) fn packed_double(&mut self) -> Result<Option<f64>, ProtobufError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        self.array().map(|bytes| Some(f64::from_le_bytes(bytes)))
    }

    fn varint(&mut self) -> Result<u64, ProtobufError> {
        let mut number = 0_u64;
        for place in 0..MAX_VARINT_BYTES {
            let (&byte, rest) = self.rest.split_first().ok_or(ProtobufError::UnexpectedEnd)?;
            self.rest = rest;
            number |= u64::from(byte & 0x7f).wrapping_shl(place.saturating_mul(7));
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(ProtobufError::Overflow)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], ProtobufError> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or(ProtobufError::UnexpectedEnd)?;
        self.rest = rest;
        Ok(*bytes)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], ProtobufError> {
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or(ProtobufError::UnexpectedEnd)?;
        self.rest = rest;
        Ok(bytes)
    }
}

impl<'a> WireEntry<'a> {
    /// The value as bytes; `field` is for the error.
    pub(super) fn bytes(&self, field: &str) -> Result<&'a [u8], ProtobufError> {
        match self.value {
            Raw::Bytes(bytes) => Ok(bytes),
            _ => Err(self.mismatch(field)),
        }
    }

    /// The value as text.
    pub(super) fn text(&self, field: &str) -> Result<String, ProtobufError> {
        let text = std::str::from_utf8(self.bytes(field)?);
        text.map(str::to_owned)
            .map_err(|_| ProtobufError::InvalidText(field.to_owned()))
    }

    /// The value as a number of 64 bits.
    pub(super) fn varint(&self, field: &str) -> Result<u64, ProtobufError> {
        match self.value {
            Raw::Varint(number) => Ok(number),
            _ => Err(self.mismatch(field)),
        }
    }

    /// The value as a double.
    pub(super) fn double(&self, field: &str) -> Result<f64, ProtobufError> {
        match self.value {
            Raw::Fixed64(bytes) => Ok(f64::from_le_bytes(bytes)),
            _ => Err(self.mismatch(field)),
        }
    }

    /// The entries of a packed list, if that is what it may be.
    pub(super) fn packed(&self) -> Option<WireReader<'a>> {
        match self.value {
            Raw::Bytes(bytes) => Some(WireReader::new(bytes)),
            _ => None,
        }
    }

    fn mismatch(&self, field: &str) -> ProtobufError {
        ProtobufError::WrongWireType {
            found: match self.value {
                Raw::Varint(_) => 0,
                Raw::Fixed64(_) => 1,
                Raw::Bytes(_) => 2,
                Raw::Fixed32 => 5,
            },
            field: field.to_owned(),
        }
    }
}

/// A number as 32 bits, of which negative ones come extended to 64.
pub(super) fn int32(number: u64) -> i32 {
    let low = u32::try_from(number & u64::from(u32::MAX)).expect("32 bits remain");
    low.cast_signed()
}
