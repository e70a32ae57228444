//! The numbers that are held of a range, a bit each, laid out as kube-apiserver keeps them.

/// A set of offsets. At rest it is one big-endian number without leading zeroes (`big.Int` in Go), so that the other server
/// finds the same bits in it.
#[derive(Default)]
pub(super) struct Bitmap {
    /// Least significant first.
    bytes: Vec<u8>,
}

impl Bitmap {
    pub(super) fn from_bytes(big_endian: &[u8]) -> Self {
        Self {
            bytes: big_endian.iter().rev().copied().collect(),
        }
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let zeroes = self.bytes.iter().rev().take_while(|byte| **byte == 0).count();
        self.bytes.iter().rev().skip(zeroes).copied().collect()
    }

    pub(super) fn is_set(&self, offset: usize) -> bool {
        self.bytes
            .get(offset / 8)
            .is_some_and(|byte| byte & (1 << (offset % 8)) != 0)
    }

    pub(super) fn set(&mut self, offset: usize, held: bool) {
        if held && self.bytes.len() <= offset / 8 {
            self.bytes.resize(offset / 8 + 1, 0);
        }
        if let Some(byte) = self.bytes.get_mut(offset / 8) {
            let bit = 1 << (offset % 8);
            *byte = if held { *byte | bit } else { *byte & !bit };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_set_and_cleared_alone() {
        let mut bitmap = Bitmap::default();
        bitmap.set(9, true);
        bitmap.set(1, true);
        bitmap.set(30, true);
        bitmap.set(30, false);
        assert_eq!(bitmap.to_bytes(), [2, 2]);
        bitmap.set(9, false);
        assert!(bitmap.is_set(1) && !bitmap.is_set(9) && !bitmap.is_set(99));
        assert_eq!(bitmap.to_bytes(), [2]);
    }

    #[test]
    fn bits_are_where_they_were_after_a_rest() {
        let mut bitmap = Bitmap::default();
        for offset in [0, 8, 17] {
            bitmap.set(offset, true);
        }
        assert_eq!(bitmap.to_bytes(), [2, 1, 1]);
        let read = Bitmap::from_bytes(&bitmap.to_bytes());
        let held: Vec<usize> = (0..32).filter(|offset| read.is_set(*offset)).collect();
        assert_eq!(held, [0, 8, 17]);
    }
}
