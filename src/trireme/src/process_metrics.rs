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
    let stat = read("stat");
    if let Some(ticks) = cpu_ticks(&stat) {
        counter!("process_cpu_seconds_total").absolute(ticks / TICKS_PER_SECOND);
    }
    if let Some(bytes) = virtual_bytes(&stat) {
        gauge!("process_virtual_memory_bytes").set(bytes as f64);
    }
    if let Ok(open) = fs::read_dir("/proc/self/fd") {
        gauge!("process_open_fds").set(open.count() as f64);
    }
    if let Some(most) = most_files(&read("limits")) {
        gauge!("process_max_fds").set(most as f64);
    }
    let boot = fs::read_to_string("/proc/stat").unwrap_or_default();
    if let (Some(boot), Some(ticks)) = (boot_seconds(&boot), start_ticks(&stat)) {
        let seconds = boot as f64 + ticks as f64 / TICKS_PER_SECOND as f64;
        gauge!("process_start_time_seconds").set(seconds);
    }
}

fn resident_kib(status: &str) -> Option<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// User and system time.
fn cpu_ticks(stat: &str) -> Option<u64> {
    Some(field(stat, 14)?.saturating_add(field(stat, 15)?))
}

/// The start of the process after that of the machine.
fn start_ticks(stat: &str) -> Option<u64> {
    field(stat, 22)
}

fn virtual_bytes(stat: &str) -> Option<u64> {
    field(stat, 23)
}

/// A field by its number in `proc_pid_stat(5)`, from the third on. The name in field 2 may have blanks and brackets, so counting begins
/// behind its last bracket.
fn field(stat: &str, number: usize) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(number.checked_sub(3)?)?.parse().ok()
}

/// The soft limit on open files.
fn most_files(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The start of the machine in seconds since 1970.
fn boot_seconds(stat: &str) -> Option<u64> {
    stat.lines()
        .find_map(|line| line.strip_prefix("btime "))?
        .trim()
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::{boot_seconds, cpu_ticks, most_files, resident_kib, start_ticks, virtual_bytes};

    #[test]
    fn the_kernels_texts_are_read() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 1 0 0 0 250 51 0 0 20 0 1 0 8 9 9";
        assert_eq!(cpu_ticks(stat), Some(301));
        assert_eq!(resident_kib("Name:\ta\nVmRSS:\t   1024 kB\n"), Some(1024));
        assert_eq!((start_ticks(stat), virtual_bytes(stat)), (Some(8), Some(9)));
        assert_eq!((cpu_ticks(""), resident_kib("")), (None, None));
        let limits = "Limit  Soft Limit  Hard Limit\nMax open files            1024                 4096                 files\n";
        assert_eq!(most_files(limits), Some(1024));
        assert_eq!(boot_seconds("cpu 1 2\nbtime 1700000000\n"), Some(1_700_000_000));
    }
}
