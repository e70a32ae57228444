//! Counting rounds: which one a reader must wait for, and when the next may begin.

/// Rounds of reading the store's revision. A round serves the readers that came before it began, and no later ones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Rounds {
    /// The number of reads begun.
    pub(super) begun: u64,
    /// The number of reads ended.
    pub(super) ended: u64,
    /// The last one begun is that of a reader which reads for itself, and ends it.
    pub(super) is_alone: bool,
}

impl Rounds {
    /// The round that a reader who comes now waits for: one under way may have been answered already.
    pub(super) fn next(self) -> u64 {
        self.begun + 1
    }

    /// Begins a round if one is wanted and none is under way.
    pub(super) fn begin(&mut self, wanted: u64) -> bool {
        let begins = self.begun == self.ended && wanted > self.begun;
        if begins {
            self.begun += 1;
            self.is_alone = false;
        }
        begins
    }

    /// Begins a round that no reader waits for, if none is under way or wanted.
    pub(super) fn begin_alone(&mut self, wanted: u64) -> bool {
        let begins = self.begun == self.ended && wanted <= self.begun;
        if begins {
            self.begun += 1;
            self.is_alone = true;
        }
        begins
    }

    /// Ends the round under way.
    pub(super) fn end(&mut self) {
        self.ended = self.begun;
    }
}
