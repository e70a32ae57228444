//! Warnings about addresses that are read but should be written otherwise
//! (`k8s.io/apimachinery/pkg/util/validation`).

use std::net::IpAddr;

use trireme_machinery::{go_text::quote, names};

/// An address that later versions will not read, or that is not in its usual form.
pub(crate) fn of_address(path: &str, ip: &str) -> Option<String> {
    let canonical = names::parse_ip_sloppy(ip)?.to_string();
    if ip.parse::<IpAddr>().is_err() || !names::ip(ip).is_empty() {
        return Some(nonstandard(path, "IP address", ip, &canonical));
    }
    (canonical != ip).then(|| off_form(path, "IPv6 address", ip, &canonical))
}

/// The same for a block of addresses.
pub(crate) fn of_range(path: &str, range: &str) -> Option<String> {
    let (address, length) = names::parse_cidr_sloppy(range)?;
    let canonical = format!("{address}/{length}");
    if !names::cidr(range).is_empty() {
        return Some(nonstandard(path, "CIDR value", range, &canonical));
    }
    (canonical != range).then(|| off_form(path, "IPv6 CIDR value", range, &canonical))
}

fn nonstandard(path: &str, what: &str, given: &str, canonical: &str) -> String {
    let (given, canonical) = (quote(given), quote(canonical));
    format!(
        "{path}: non-standard {what} {given} will be considered invalid in a future Kubernetes release: use {canonical}"
    )
}

fn off_form(path: &str, what: &str, given: &str, canonical: &str) -> String {
    format!(
        "{path}: {what} {} should be in RFC 5952 canonical format ({})",
        quote(given),
        quote(canonical)
    )
}
