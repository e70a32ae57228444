//! Warnings about addresses that are read but should be written otherwise
//! (`k8s.io/apimachinery/pkg/util/validation`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde_json::Value;
use trireme_machinery::{go_text::quote, names};

use crate::values::{items, text};

/// The bits of an IPv6 address before the IPv4 address that is mapped into it.
const MAPPED_BITS: u8 = 96;

/// An address that is invalid by the strict rules, or that is not in its usual form (`GetWarningsForIP`).
pub(crate) fn of_address(path: &str, ip: &str) -> Option<String> {
    let canonical = names::parse_ip_sloppy(ip)?.to_string();
    if !names::ip(ip).is_empty() {
        return Some(nonstandard(path, "IP address", ip, &canonical));
    }
    (canonical != ip).then(|| off_form(path, "IPv6 address", ip, &canonical))
}

/// The same for a block of addresses (`GetWarningsForCIDR`).
pub(crate) fn of_range(path: &str, range: &str) -> Vec<String> {
    let Some((address, length)) = names::parse_cidr_sloppy(range) else {
        return Vec::new();
    };
    let (network, network_length) = network_of(address, length, range.contains(':'));
    let usual = format!("{network}/{network_length}");
    let mut warnings = Vec::new();
    if network != address {
        let width = if range.contains(':') { 128 } else { 32 };
        warnings.push(format!(
            "{path}: CIDR value {} is ambiguous in this context (should be {} or {}?)",
            quote(range),
            quote(&usual),
            quote(&format!("{address}/{width}"))
        ));
    }
    if has_odd_notation(range) {
        warnings.push(nonstandard(path, "CIDR value", range, &usual));
    }
    if warnings.is_empty() && usual != range {
        warnings.push(off_form(path, "IPv6 CIDR value", range, &usual));
    }
    warnings
}

/// Returns true if a block has leading zeros or an IPv4 address that is mapped into IPv6.
fn has_odd_notation(range: &str) -> bool {
    let (address, length) = range.split_once('/').unwrap_or((range, ""));
    !names::ip(address).is_empty() || (length.len() > 1 && length.starts_with('0'))
}

/// The first address of a block, and its length as the network is written; of one written as IPv6, an IPv4 address was
/// mapped.
pub(crate) fn network_of(address: IpAddr, length: u8, is_written_as_v6: bool) -> (IpAddr, u8) {
    match address {
        IpAddr::V4(v4) if is_written_as_v6 => {
            let network = masked_v6(v4.to_ipv6_mapped(), length);
            match network.to_ipv4_mapped() {
                Some(v4) => (v4.into(), length.saturating_sub(MAPPED_BITS)),
                None => (network.into(), length),
            }
        }
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(length.min(32))).unwrap_or(0);
            (Ipv4Addr::from_bits(v4.to_bits() & mask).into(), length)
        }
        IpAddr::V6(v6) => (masked_v6(v6, length).into(), length),
    }
}

fn masked_v6(v6: Ipv6Addr, length: u8) -> Ipv6Addr {
    let mask = u128::MAX.checked_shl(128 - u32::from(length.min(128))).unwrap_or(0);
    Ipv6Addr::from_bits(v6.to_bits() & mask)
}

fn nonstandard(path: &str, what: &str, given: &str, usual: &str) -> String {
    let (given, usual) = (quote(given), quote(usual));
    format!("{path}: non-standard {what} {given} is invalid: use {usual}")
}

fn off_form(path: &str, what: &str, given: &str, usual: &str) -> String {
    format!(
        "{path}: {what} {} should be in RFC 5952 canonical format ({})",
        quote(given),
        quote(usual)
    )
}

/// Warns of the addresses in the status of a service or an ingress.
pub(crate) fn of_status(object: &Value) -> Vec<String> {
    let points = object
        .pointer("/status/loadBalancer")
        .map_or(&[][..], |balancer| items(balancer, "ingress"));
    let points = points.iter().map(|point| text(point, "ip")).enumerate();
    points
        .filter_map(|(index, ip)| of_address(&format!("status.loadBalancer.ingress[{index}]"), ip))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_that_mean_a_single_address_or_are_written_oddly_are_warned_of() {
        let cases: [(&str, &[&str]); 7] = [
            ("10.0.0.0/8", &[]),
            (
                "10.0.0.1/8",
                &[
                    r#"p: CIDR value "10.0.0.1/8" is ambiguous in this context (should be "10.0.0.0/8" or "10.0.0.1/32"?)"#,
                ],
            ),
            (
                "10.00.0.0/08",
                &[r#"p: non-standard CIDR value "10.00.0.0/08" is invalid: use "10.0.0.0/8""#],
            ),
            (
                "FD00::1/64",
                &[
                    r#"p: CIDR value "FD00::1/64" is ambiguous in this context (should be "fd00::/64" or "fd00::1/128"?)"#,
                ],
            ),
            (
                "FD00::/64",
                &[r#"p: IPv6 CIDR value "FD00::/64" should be in RFC 5952 canonical format ("fd00::/64")"#],
            ),
            (
                "::ffff:10.0.0.0/104",
                &[r#"p: non-standard CIDR value "::ffff:10.0.0.0/104" is invalid: use "10.0.0.0/8""#],
            ),
            ("x", &[]),
        ];
        for (range, warnings) in cases {
            assert_eq!(of_range("p", range), warnings, "{range}");
        }
    }
}
