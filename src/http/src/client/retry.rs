//! The pace at which a call to a webhook is tried again.

use std::time::Duration;

/// The attempts are one more.
const RETRIES: usize = 4;
const FACTOR: f64 = 1.5;
const JITTER: f64 = 0.2;

/// The waits between five attempts, each half as long again as the one before and up to a fifth longer by chance
/// (`webhook.DefaultRetryBackoffWithInitialDelay`).
#[derive(Debug)]
pub struct RetryWaits {
    next: Duration,
    left: usize,
}

impl RetryWaits {
    /// Begins with this wait.
    pub fn beginning_with(first: Duration) -> Self {
        Self {
            next: first,
            left: RETRIES,
        }
    }
}

impl Iterator for RetryWaits {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.left = self.left.checked_sub(1)?;
        let wait = self.next.mul_f64(1.0 + JITTER * rand::random::<f64>());
        self.next = self.next.mul_f64(FACTOR);
        Some(wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_waits_grow_by_half() {
        let waits: Vec<f64> = RetryWaits::beginning_with(Duration::from_secs(1))
            .map(|wait| wait.as_secs_f64())
            .collect();
        assert_eq!(waits.len(), 4);
        for (wait, least) in waits.iter().zip([1.0, 1.5, 2.25, 3.375]) {
            assert!((least..least * 1.2).contains(wait), "{waits:?}");
        }
    }
}
