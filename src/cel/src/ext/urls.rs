//! URLs, as Go's `net/url` reads those of requests: absolute, or a path from the root.

use std::{collections::BTreeMap, fmt};

/// A URL.
#[derive(Debug, Clone)]
pub struct Url {
    text: String,
    /// In lower case.
    pub scheme: String,
    /// With the port.
    pub host: String,
    /// Escaped.
    pub path: String,
    query: String,
}

impl Url {
    /// Reads a URL.
    ///
    /// # Errors
    /// In Go's words, if the text is none.
    pub fn parse(text: &str) -> Result<Self, String> {
        Self::read(text).map_err(|reason| format!("parse {text:?}: {reason}"))
    }

    fn read(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("empty url".to_owned());
        }
        if text.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
            return Err("net/url: invalid control character in URL".to_owned());
        }
        let (scheme, rest) = split_scheme(text)?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut url = Self {
            text: text.to_owned(),
            scheme: scheme.to_ascii_lowercase(),
            host: String::new(),
            path: String::new(),
            query: query.to_owned(),
        };
        if !rest.starts_with('/') {
            // What follows a scheme without a slash is opaque.
            return match scheme.is_empty() {
                true => Err("invalid URI for request".to_owned()),
                false => Ok(url),
            };
        }
        let mut path = rest;
        if let Some(authority) = rest.strip_prefix("//").filter(|_| !scheme.is_empty()) {
            let (authority, after) = authority.split_at(authority.find('/').unwrap_or(authority.len()));
            url.host = host_of(authority)?;
            path = after;
        }
        check_escapes(path)?;
        url.path = escaped(path);
        Ok(url)
    }

    /// The host without its port and brackets.
    pub fn hostname(&self) -> &str {
        let host = split_port(&self.host).0;
        host.strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
            .unwrap_or(host)
    }

    /// The port, empty if there is none.
    pub fn port(&self) -> &str {
        split_port(&self.host).1
    }

    /// The parameters with their values; those that are malformed are left out.
    pub fn query(&self) -> BTreeMap<String, Vec<String>> {
        let mut parameters: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for pair in self
            .query
            .split('&')
            .filter(|pair| !pair.is_empty() && !pair.contains(';'))
        {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            if let (Some(key), Some(value)) = (decoded(key), decoded(value)) {
                parameters.entry(key).or_default().push(value);
            }
        }
        parameters
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn split_scheme(text: &str) -> Result<(&str, &str), String> {
    for (at, character) in text.char_indices() {
        match character {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if at > 0 => {}
            ':' if at == 0 => return Err("missing protocol scheme".to_owned()),
            ':' => {
                return Ok((
                    text.get(..at).unwrap_or_default(),
                    text.get(at + 1..).unwrap_or_default(),
                ));
            }
            _ => break,
        }
    }
    Ok(("", text))
}

fn host_of(authority: &str) -> Result<String, String> {
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    if !user
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c))
    {
        return Err("net/url: invalid userinfo".to_owned());
    }
    check_escapes(user)?;
    if let Some(address) = host.strip_prefix('[') {
        let (_, port) = address.split_once(']').ok_or("missing ']' in host")?;
        check_port(port)?;
        return Ok(host.to_owned());
    }
    if let Some(at) = host.rfind(':') {
        check_port(host.get(at..).unwrap_or_default())?;
    }
    let is_valid = |c: char| !c.is_ascii() || c.is_ascii_alphanumeric() || "-._~!$&'()*+,;=:[]<>\"%".contains(c);
    match host.chars().find(|c| !is_valid(*c)) {
        Some(wrong) => Err(format!("invalid character {:?} in host name", wrong.to_string())),
        None => decoded_host(host),
    }
}

fn decoded_host(host: &str) -> Result<String, String> {
    check_escapes(host)?;
    decoded(&host.replace('+', "%2B")).ok_or_else(|| "invalid URL escape in host".to_owned())
}

fn check_port(text: &str) -> Result<(), String> {
    match text.strip_prefix(':') {
        None if text.is_empty() => Ok(()),
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => Ok(()),
        _ => Err(format!("invalid port {text:?} after host")),
    }
}

fn split_port(host: &str) -> (&str, &str) {
    match host.rfind(':') {
        Some(at) if !host.get(at..).unwrap_or_default().contains(']') => (
            host.get(..at).unwrap_or_default(),
            host.get(at + 1..).unwrap_or_default(),
        ),
        _ => (host, ""),
    }
}

fn check_escapes(text: &str) -> Result<(), String> {
    let bytes = text.as_bytes();
    for (at, _) in text.match_indices('%') {
        let digits = bytes.get(at + 1..at + 3);
        if !digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) {
            let shown: String = text.get(at..).unwrap_or_default().chars().take(3).collect();
            return Err(format!("invalid URL escape {shown:?}"));
        }
    }
    Ok(())
}

fn escaped(path: &str) -> String {
    let mut text = String::with_capacity(path.len());
    for byte in path.bytes() {
        let is_plain = byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/%[]".contains(&byte);
        match is_plain {
            true => text.push(char::from(byte)),
            false => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digit = |byte: u8| char::from(byte).to_digit(16);
                u8::try_from(digit(rest.next()?)? * 16 + digit(rest.next()?)?).ok()?
            }
            byte => byte,
        });
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
