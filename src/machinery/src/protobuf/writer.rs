//! The wire format, written: entries are appended, and a message's length is put before it once it is known.

const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const BYTES: u64 = 2;

/// Appends entries to a message.
#[derive(Default)]
pub(super) struct WireWriter {
    pub(super) out: Vec<u8>,
}

impl WireWriter {
    pub(super) fn varint(&mut self, tag: u32, number: u64) {
        self.key(tag, VARINT);
        self.number(number);
    }

    pub(super) fn double(&mut self, tag: u32, number: f64) {
        self.key(tag, FIXED64);
        self.out.extend_from_slice(&number.to_le_bytes());
    }

    pub(super) fn bytes(&mut self, tag: u32, bytes: &[u8]) {
        self.head(tag, bytes.len());
        self.out.extend_from_slice(bytes);
    }

    /// Appends what stands before so many bytes.
    pub(super) fn head(&mut self, tag: u32, length: usize) {
        self.key(tag, BYTES);
        self.number(length as u64);
    }

    /// Appends a message that `write` makes. Most are shorter than 128 bytes, whose length takes one byte; a longer
    /// one is moved.
    pub(super) fn message<E>(&mut self, tag: u32, write: impl FnOnce(&mut Self) -> Result<(), E>) -> Result<(), E> {
        self.key(tag, BYTES);
        self.out.push(0);
        let start = self.out.len();
        write(self)?;
        let mut length = self.out.len() - start;
        let mut digits = [0_u8; 10];
        let mut used = 0;
        for digit in &mut digits {
            *digit = low_bits(length as u64);
            used += 1;
            length >>= 7;
            if length == 0 {
                break;
            }
            *digit |= 0x80;
        }
        let digits = digits.iter().take(used).copied();
        self.out.splice(start - 1..start, digits);
        Ok(())
    }

    fn key(&mut self, tag: u32, wire_type: u64) {
        self.number(u64::from(tag) << 3 | wire_type);
    }

    fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.out.push(low_bits(number) | 0x80);
            number >>= 7;
        }
        self.out.push(low_bits(number));
    }
}

/// The seven lowest bits.
fn low_bits(number: u64) -> u8 {
    number.to_le_bytes()[0] & 0x7f
}
