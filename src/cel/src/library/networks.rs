//! IP addresses and blocks of them, read as strictly as Go's `net/netip` does.

use std::net::IpAddr;

use super::{Cost, FunctionResult, FunctionRow, GLOBAL, MEMBER, no_overload};
use crate::{
    meter::EvalError,
    value::{Cidr, Opaque, Value},
};

pub(super) const TABLE: &[FunctionRow] = &[
    ("ip", GLOBAL, Cost::Traversal(1), |args, _| match args {
        [Value::String(text)] => address(text.as_str()).map(|address| Value::Opaque(Opaque::Ip(address))),
        _ => no_overload("ip", args),
    }),
    ("ip", MEMBER, Cost::Fixed(1), |args, _| {
        of_cidr("ip", args, |cidr| Value::Opaque(Opaque::Ip(cidr.address)))
    }),
    ("isIP", GLOBAL, Cost::Traversal(1), |args, _| match args {
        [Value::String(text)] => Ok(Value::Bool(address(text.as_str()).is_ok())),
        _ => no_overload("isIP", args),
    }),
    ("ip.isCanonical", GLOBAL, Cost::Traversal(2), |args, _| match args {
        [Value::String(text)] => {
            address(text.as_str()).map(|address| Value::Bool(address.to_string() == text.as_str()))
        }
        _ => no_overload("ip.isCanonical", args),
    }),
    ("family", MEMBER, Cost::Fixed(1), |args, _| {
        of_ip("family", args, |ip| Value::Int(if ip.is_ipv4() { 4 } else { 6 }))
    }),
    ("isUnspecified", MEMBER, Cost::Fixed(1), |args, _| {
        of_ip("isUnspecified", args, |ip| Value::Bool(ip.is_unspecified()))
    }),
    ("isLoopback", MEMBER, Cost::Fixed(1), |args, _| {
        of_ip("isLoopback", args, |ip| Value::Bool(ip.is_loopback()))
    }),
    ("isLinkLocalMulticast", MEMBER, Cost::Fixed(1), |args, _| {
        of_ip("isLinkLocalMulticast", args, |ip| {
            Value::Bool(is_link_local_multicast(ip))
        })
    }),
    ("isLinkLocalUnicast", MEMBER, Cost::Fixed(1), |args, _| {
        of_ip("isLinkLocalUnicast", args, |ip| Value::Bool(is_link_local_unicast(ip)))
    }),
    ("isGlobalUnicast", MEMBER, Cost::Fixed(1), |args, _| {
        of_ip("isGlobalUnicast", args, |ip| {
            let is_broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
            let is_special = ip.is_unspecified() || ip.is_loopback() || ip.is_multicast() || is_link_local_unicast(ip);
            Value::Bool(!is_broadcast && !is_special)
        })
    }),
    ("cidr", GLOBAL, Cost::Traversal(1), |args, _| match args {
        [Value::String(text)] => cidr(text.as_str()).map(|cidr| Value::Opaque(Opaque::Cidr(cidr))),
        _ => no_overload("cidr", args),
    }),
    ("isCIDR", GLOBAL, Cost::Traversal(1), |args, _| match args {
        [Value::String(text)] => Ok(Value::Bool(cidr(text.as_str()).is_ok())),
        _ => no_overload("isCIDR", args),
    }),
    ("prefixLength", MEMBER, Cost::Fixed(1), |args, _| {
        of_cidr("prefixLength", args, |cidr| Value::Int(i64::from(cidr.prefix)))
    }),
    ("masked", MEMBER, Cost::Fixed(1), |args, _| {
        of_cidr("masked", args, |cidr| {
            let address = masked(cidr.address, cidr.prefix);
            Value::Opaque(Opaque::Cidr(Cidr { address, ..*cidr }))
        })
    }),
    (
        "containsIP",
        MEMBER,
        Cost::Containment { of_block: false },
        |args, _| match args {
            [Value::Opaque(Opaque::Cidr(block)), Value::Opaque(Opaque::Ip(ip))] => {
                Ok(Value::Bool(contains(block, *ip)))
            }
            [Value::Opaque(Opaque::Cidr(block)), Value::String(text)] => {
                Ok(Value::Bool(contains(block, address(text.as_str())?)))
            }
            _ => no_overload("containsIP", args),
        },
    ),
    (
        "containsCIDR",
        MEMBER,
        Cost::Containment { of_block: true },
        |args, _| {
            let (block, inner) = match args {
                [Value::Opaque(Opaque::Cidr(block)), Value::Opaque(Opaque::Cidr(inner))] => (block, *inner),
                [Value::Opaque(Opaque::Cidr(block)), Value::String(text)] => (block, cidr(text.as_str())?),
                _ => return no_overload("containsCIDR", args),
            };
            let is_within = contains(block, masked(inner.address, inner.prefix)) && block.prefix <= inner.prefix;
            Ok(Value::Bool(is_within))
        },
    ),
];

fn of_ip<'v>(name: &str, args: &[Value<'v>], result: fn(IpAddr) -> Value<'v>) -> FunctionResult<'v> {
    match args {
        [Value::Opaque(Opaque::Ip(address))] => Ok(result(*address)),
        _ => no_overload(name, args),
    }
}

fn of_cidr<'v>(name: &str, args: &[Value<'v>], result: fn(&Cidr) -> Value<'v>) -> FunctionResult<'v> {
    match args {
        [Value::Opaque(Opaque::Cidr(cidr))] => Ok(result(cidr)),
        _ => no_overload(name, args),
    }
}

fn address(text: &str) -> Result<IpAddr, EvalError> {
    let failed = |reason: String| Err(EvalError::failed(reason));
    if text.contains('%') && text.contains(':') {
        return failed(format!("IP address {text:?} with zone value is not allowed"));
    }
    match text.parse() {
        Ok(IpAddr::V6(ip)) if ip.to_ipv4_mapped().is_some() => {
            failed(format!("IPv4-mapped IPv6 address {text:?} is not allowed"))
        }
        Ok(ip) => Ok(ip),
        Err(_) => failed(format!(
            "IP Address {text:?} parse error during conversion from string: ParseAddr({text:?}): unable to parse IP"
        )),
    }
}

fn cidr(text: &str) -> Result<Cidr, EvalError> {
    // Said by the parser of Kubernetes and by the function that calls it.
    const FAILED: &str = "network address parse error during conversion from string";
    let failed = |reason: &str| EvalError::failed(format!("{FAILED}: {FAILED}: netip.ParsePrefix({text:?}): {reason}"));
    let (ip, length) = text.rsplit_once('/').ok_or_else(|| failed("no '/'"))?;
    let ip: IpAddr = ip.parse().map_err(|_| failed("unable to parse IP"))?;
    if matches!(ip, IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some()) {
        return Err(EvalError::failed(format!(
            "{FAILED}: IPv4-mapped IPv6 address {text:?} is not allowed"
        )));
    }
    let is_plain = length.bytes().all(|byte| byte.is_ascii_digit()) && (length == "0" || !length.starts_with('0'));
    let prefix: u8 = length
        .parse()
        .ok()
        .filter(|_| is_plain)
        .ok_or_else(|| failed("bad bits after slash"))?;
    let most = if ip.is_ipv4() { 32 } else { 128 };
    match prefix <= most {
        true => Ok(Cidr { address: ip, prefix }),
        false => Err(failed("prefix length out of range")),
    }
}

fn masked(address: IpAddr, prefix: u8) -> IpAddr {
    match address {
        IpAddr::V4(ip) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(prefix.min(32))).unwrap_or(0);
            IpAddr::V4((u32::from(ip) & mask).into())
        }
        IpAddr::V6(ip) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(prefix.min(128))).unwrap_or(0);
            IpAddr::V6((u128::from(ip) & mask).into())
        }
    }
}

fn contains(block: &Cidr, ip: IpAddr) -> bool {
    block.address.is_ipv4() == ip.is_ipv4() && masked(block.address, block.prefix) == masked(ip, block.prefix)
}

fn is_link_local_unicast(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

fn is_link_local_multicast(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.octets().starts_with(&[224, 0, 0]),
        IpAddr::V6(ip) => ip.segments()[0] & 0xff0f == 0xff02,
    }
}
