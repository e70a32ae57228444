//! Values of settings from their text: durations as Go writes them, address ranges, port ranges.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::time::Duration;

use trireme_edge::VersionInfo;

/// A range of addresses, `10.96.0.0/12`; the host part is zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IpRange {
    network: IpAddr,
    prefix: u8,
}

impl IpRange {
    /// Reads `10.96.0.0/12` or `fd00::/108`; the host part is cut off. The range has at least 8 addresses, fewer than 2^31 for
    /// IPv4 and no more than a /64 for IPv6, as in kube-apiserver.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (address, prefix) = text.split_once('/')?;
        let (address, prefix) = (address.parse::<IpAddr>().ok()?, prefix.parse::<u8>().ok()?);
        let network = match address {
            IpAddr::V4(ip) if (2..=29).contains(&prefix) => {
                IpAddr::V4(Ipv4Addr::from_bits(ip.to_bits() & (u32::MAX << (32 - prefix))))
            }
            IpAddr::V6(ip) if (64..=125).contains(&prefix) => {
                IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() & (u128::MAX << (128 - prefix))))
            }
            _ => return None,
        };
        Some(Self { network, prefix })
    }

    /// Reads one range, or one of each family, separated by a comma; that of the default family comes first.
    pub(crate) fn parse_list(text: &str) -> Option<Vec<Self>> {
        let ranges: Vec<Self> = text
            .split(',')
            .map(|part| Self::parse(part.trim()))
            .collect::<Option<_>>()?;
        match ranges.as_slice() {
            [_] => Some(ranges),
            [first, second] if first.network.is_ipv4() != second.network.is_ipv4() => Some(ranges),
            _ => None,
        }
    }

    /// The address after the network's own: that of the service `default/kubernetes`.
    pub(crate) fn first_address(&self) -> IpAddr {
        match self.network {
            IpAddr::V4(ip) => IpAddr::V4(Ipv4Addr::from_bits(ip.to_bits() | 1)),
            IpAddr::V6(ip) => IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() | 1)),
        }
    }
}

impl fmt::Display for IpRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network, self.prefix)
    }
}

/// `30000-32767` or `30000+2767`.
pub(super) fn port_range(text: &str) -> Option<RangeInclusive<u16>> {
    let range = if let Some((first, last)) = text.split_once('-') {
        port(first)?..=port(last)?
    } else {
        let (first, more) = text.split_once('+')?;
        let first = port(first)?;
        first..=first.checked_add(more.parse().ok()?)?
    };
    (!range.is_empty()).then_some(range)
}

/// The version to report, which is of this build's release, as kube-apiserver insists; `None` for `false`, the value of a flag that
/// has nothing printed. Fails with what is allowed.
pub(super) fn reported_version(text: &str) -> Result<Option<String>, String> {
    let built = VersionInfo::default();
    let asked = VersionInfo {
        git_version: text.to_owned(),
        ..VersionInfo::default()
    };
    let is_version = text.strip_prefix('v').is_some_and(|rest| {
        rest.bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-.+".contains(&byte))
    });
    match text {
        "false" => Ok(None),
        _ if is_version && asked.release() == built.release() => Ok(Some(text.to_owned())),
        _ => Err(format!(
            "give v{0}, with a suffix after - or + if you like, such as v{0}-custom",
            built.release()
        )),
    }
}

/// A port from 1 on.
pub(super) fn port(text: &str) -> Option<u16> {
    text.parse().ok().filter(|port| *port != 0)
}

/// The parts of a comma-separated list.
pub(super) fn list(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|part| !part.is_empty())
}

/// A duration as Go writes it: `1h30m`, `1.5s`, `300ms`, `0`; not negative.
pub(super) fn duration(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest.is_empty() {
        return None;
    }
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let number_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(number_end);
        let unit_end = tail
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        total = total.checked_add(part(number, unit)?)?;
        rest = tail;
    }
    Some(total)
}

fn part(number: &str, unit: &str) -> Option<Duration> {
    let unit_nanos: u64 = match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let mut nanos = whole.checked_mul(unit_nanos)?;
    // Digits below a nanosecond are dropped, as Go does; 13 digits resolve every unit.
    let mut scale = unit_nanos;
    for digit in fraction.chars().take(13) {
        let digit = u64::from(digit.to_digit(10)?);
        nanos = nanos.checked_add(u64::try_from(u128::from(scale) * u128::from(digit) / 10).ok()?)?;
        scale /= 10;
    }
    Some(Duration::from_nanos(nanos))
}
