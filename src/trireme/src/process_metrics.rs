//! Memory and CPU time of this process, under the names that dashboards of Kubernetes look for.

use std::fs;

use metrics::{counter, gauge};

/// Linux counts CPU time in hundredths of a second on every architecture that servers run on.
const TICKS_PER_SECOND: u64 = 100;

/// Looks at the process. Where there is no `/proc`, nothing is shown.
pub(crate) fn observe() {
    let read = |file: &str| fs::read_to_string(format!("/proc/self/{file}")).unwrap_or_default();
    if let Some(kib) = resident_kib(&read("status")) {
        gauge!("process_resident_memory_bytes").set(f64::from(kib) * 1024.0);
    }
    if let Some(ticks) = cpu_ticks(&read("stat")) {
        counter!("process_cpu_seconds_total").absolute(ticks / TICKS_PER_SECOND);
    }
}

fn resident_kib(status: &str) -> Option<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// User and system time, fields 14 and 15. The name in field 2 may have blanks and brackets, so counting begins behind its last
/// bracket.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some(next()?.saturating_add(next()?))
}

#[cfg(test)]
mod tests {
    use super::{cpu_ticks, resident_kib};

    #[test]
    fn the_kernels_texts_are_read() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 1 0 0 0 250 51 0 0 20 0 1 0 9 9 9";
        assert_eq!(cpu_ticks(stat), Some(301));
        assert_eq!(resident_kib("Name:\ta\nVmRSS:\t   1024 kB\n"), Some(1024));
        assert_eq!((cpu_ticks(""), resident_kib("")), (None, None));
    }
}
