//! IP addresses and CIDR blocks, as strictly and as leniently as Kubernetes has read them over time.
//!
//! *Sloppy* is what old objects may hold: octets with leading zeros (read as decimal), IPv4-mapped IPv6.
//! New values must be strict; newer fields must also be in canonical form.

use crate::go_text::quote;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const INVALID_IP: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
const INVALID_CIDR: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";

/// Reads an address as leniently as stored objects need it; IPv4-mapped IPv6 becomes IPv4.
pub fn parse_ip_sloppy(text: &str) -> Option<IpAddr> {
    if text.contains(':') {
        let groups: Vec<String> = text.split(':').map(without_zeros).collect();
        let address: Ipv6Addr = groups.join(":").parse().ok()?;
        return Some(address.to_ipv4_mapped().map_or(IpAddr::V6(address), IpAddr::V4));
    }
    let address: Ipv4Addr = without_zeros(text).parse().ok()?;
    Some(IpAddr::V4(address))
}

/// A group of an IPv6 address or the octets of an IPv4 address, without leading zeros.
fn without_zeros(group: &str) -> String {
    let stripped: Vec<&str> = group
        .split('.')
        .map(|part| match part.trim_start_matches('0') {
            "" if !part.is_empty() => "0",
            rest => rest,
        })
        .collect();
    stripped.join(".")
}

/// Reads a block as leniently as stored objects need it: the address as written, and the prefix length.
pub fn parse_cidr_sloppy(text: &str) -> Option<(IpAddr, u8)> {
    let (address, length) = text.split_once('/')?;
    let address_value = parse_ip_sloppy(address)?;
    if length.is_empty() || !length.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let length: u8 = length.parse().ok()?;
    let max = if address.contains(':') { 128 } else { 32 };
    (length <= max).then_some((address_value, length))
}

fn is_mapped(text: &str) -> bool {
    text.parse::<Ipv6Addr>().is_ok_and(|a| a.to_ipv4_mapped().is_some())
}

/// An address in a field that has always been there: strict, in any form.
pub fn ip(value: &str) -> Vec<String> {
    if parse_ip_sloppy(value).is_none() {
        return vec![INVALID_IP.to_owned()];
    }
    if value.parse::<IpAddr>().is_err() {
        return vec!["must not have leading 0s".to_owned()];
    }
    if is_mapped(value) {
        return vec!["must not be an IPv4-mapped IPv6 address".to_owned()];
    }
    Vec::new()
}

/// An address in a newer field: strict and canonical.
pub fn canonical_ip(value: &str) -> Vec<String> {
    let errors = ip(value);
    if !errors.is_empty() {
        return errors;
    }
    not_canonical(value, parse_ip_sloppy(value).map(|a| a.to_string()))
}

fn not_canonical(value: &str, canonical: Option<String>) -> Vec<String> {
    match canonical {
        Some(canonical) if canonical != value => vec![format!("must be in canonical form ({})", quote(&canonical))],
        _ => Vec::new(),
    }
}

/// A block in a field that has always been there: strict, in any form.
pub fn cidr(value: &str) -> Vec<String> {
    let Some((address, length)) = parse_cidr_sloppy(value) else {
        return vec![INVALID_CIDR.to_owned()];
    };
    let (address_text, length_text) = value.split_once('/').unwrap_or((value, ""));
    if address_text.parse::<IpAddr>().is_err() || (length_text.len() > 1 && length_text.starts_with('0')) {
        return vec!["must not have leading 0s in IP or prefix length".to_owned()];
    }
    if is_mapped(address_text) {
        return vec!["must not have an IPv4-mapped IPv6 address".to_owned()];
    }
    if masked(address, length) != address {
        return vec!["must not have bits set beyond the prefix length".to_owned()];
    }
    Vec::new()
}

/// A block in a newer field: strict and canonical.
pub fn canonical_cidr(value: &str) -> Vec<String> {
    let errors = cidr(value);
    if !errors.is_empty() {
        return errors;
    }
    not_canonical(
        value,
        parse_cidr_sloppy(value).map(|(address, length)| format!("{}/{length}", masked(address, length))),
    )
}

fn masked(address: IpAddr, length: u8) -> IpAddr {
    match address {
        IpAddr::V4(a) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(length.min(32))).unwrap_or(0);
            IpAddr::V4(Ipv4Addr::from(u32::from(a) & mask))
        }
        IpAddr::V6(a) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(length.min(128))).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from(u128::from(a) & mask))
        }
    }
}

/// Returns true if an address that is already stored may stay.
pub fn is_legacy_ip(value: &str) -> bool {
    parse_ip_sloppy(value).is_some()
}
