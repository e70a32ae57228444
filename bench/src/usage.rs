//! CPU time and memory of a process, as the kernel counts them in `/proc`.

use std::fs;
use std::time::Duration;

use crate::failure::Failure;

/// Linux counts user and system time in hundredths of a second on every architecture that servers run on.
const TICK: Duration = Duration::from_millis(10);

/// User and system time of all threads since the process began, to 10 ms.
pub(crate) fn cpu_time(pid: u32) -> Result<Duration, Failure> {
    let stat = read(pid, "stat")?;
    let ticks =
        cpu_ticks(&stat).ok_or_else(|| Failure::Wrong(format!("/proc/{pid}/stat is not understood: {stat}")))?;
    Ok(TICK * u32::try_from(ticks).map_err(|_| Failure::Wrong("more CPU time than can be counted".to_owned()))?)
}

/// Fields 14 and 15. The name in field 2 may have blanks and brackets, so counting begins behind its last bracket.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

/// Memory in KiB: resident now, and at most since the process began or the peak was reset.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Memory {
    /// Resident now.
    pub(crate) rss_kib: u64,
    /// The peak.
    pub(crate) peak_kib: u64,
}

/// Resident memory of a process.
pub(crate) fn memory(pid: u32) -> Result<Memory, Failure> {
    let status = read(pid, "status")?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let number = line.and_then(|line| line.trim_start_matches(':').split_whitespace().next());
        number
            .and_then(|number| number.parse().ok())
            .ok_or_else(|| Failure::Wrong(format!("/proc/{pid}/status has no {name}")))
    };
    Ok(Memory {
        rss_kib: field("VmRSS")?,
        peak_kib: field("VmHWM")?,
    })
}

/// Makes the peak what is resident now.
pub(crate) fn reset_peak(pid: u32) -> Result<(), Failure> {
    fs::write(format!("/proc/{pid}/clear_refs"), "5").map_err(Failure::io("reset the peak of the server's memory"))
}

/// Waits until the resident memory has stopped moving, at most 5 s, and returns it.
pub(crate) async fn settled(pid: u32) -> Result<Memory, Failure> {
    let mut last = memory(pid)?;
    let mut quiet = 0;
    for _ in 0..50 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let now = memory(pid)?;
        // Half a percent is noise.
        let still = now.rss_kib.abs_diff(last.rss_kib) * 200 <= last.rss_kib;
        quiet = if still { quiet + 1 } else { 0 };
        last = now;
        if quiet == 10 {
            break;
        }
    }
    Ok(last)
}

fn read(pid: u32, file: &str) -> Result<String, Failure> {
    fs::read_to_string(format!("/proc/{pid}/{file}")).map_err(Failure::io(format!("read /proc/{pid}/{file}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_blanks_and_brackets_does_not_shift_the_fields() {
        let stat = "42 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 70 5 0 0 20 0 3 0 100 200 300";
        assert_eq!(cpu_ticks(stat), Some(75));
        assert_eq!(cpu_ticks("42 (cut) S 1 2"), None);
    }

    #[test]
    fn own_figures_are_there() {
        let own = memory(std::process::id()).unwrap();
        assert!(own.rss_kib > 100 && own.peak_kib >= own.rss_kib, "{own:?}");
        cpu_time(std::process::id()).unwrap();
    }
}
