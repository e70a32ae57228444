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

    /// Begins a message, whose entries are appended up to its [`end`](Self::end); gives back where it starts.
    pub(super) fn begin(&mut self, tag: u32) -> usize {
        self.key(tag, BYTES);
        self.out.push(0);
        self.out.len()
    }

    /// Ends a message. Most are shorter than 128 bytes, whose length takes one byte; a longer one is moved.
    pub(super) fn end(&mut self, start: usize) {
        let length = self.out.len() - start;
        if length < 0x80 {
            if let Some(place) = self.out.get_mut(start - 1) {
                *place = low_bits(length as u64);
            }
            return;
        }
        // The length is written behind the message and both change places.
        let end = self.out.len();
        self.number(length as u64);
        let digits = self.out.len() - end;
        let mut number = [0_u8; 10];
        if let (Some(number), Some(written)) = (number.get_mut(..digits), self.out.get(end..)) {
            number.copy_from_slice(written);
        }
        self.out.copy_within(start..end, start - 1 + digits);
        self.out.truncate(end - 1 + digits);
        if let (Some(place), Some(number)) = (self.out.get_mut(start - 1..start - 1 + digits), number.get(..digits)) {
            place.copy_from_slice(number);
        }
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
