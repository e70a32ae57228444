//! URLs as Go's `net/url` reads them.

/// The parts of a URL.
#[derive(Debug, Default, PartialEq)]
pub struct GoUrl<'a> {
    /// The scheme, in small letters.
    pub scheme: String,
    /// The user, with a password if there is one.
    pub user: Option<&'a str>,
    /// The host, with a port if there is one.
    pub host: &'a str,
    /// The path, as it is written; empty for what has a scheme and no slash after it.
    pub path: &'a str,
    /// The query, without its question mark.
    pub query: &'a str,
    /// The fragment, without its sign.
    pub fragment: &'a str,
}

/// Takes a URL apart.
///
/// # Errors
/// In Go's words, if it is none.
pub fn parse(text: &str) -> Result<GoUrl<'_>, String> {
    let failed = |error: String| format!("parse {text:?}: {error}");
    if text.chars().any(|c| c.is_ascii_control()) {
        return Err(failed("net/url: invalid control character in URL".to_owned()));
    }
    let (rest, fragment) = text.split_once('#').unwrap_or((text, ""));
    let (scheme, rest) = split_scheme(rest).map_err(failed)?;
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let mut url = GoUrl {
        scheme: scheme.to_ascii_lowercase(),
        query,
        fragment,
        ..GoUrl::default()
    };
    let mut path = rest;
    if !rest.starts_with('/') {
        if !scheme.is_empty() {
            return Ok(url);
        }
        if rest.split('/').next().unwrap_or_default().contains(':') {
            return Err(failed("first path segment in URL cannot contain colon".to_owned()));
        }
    }
    if let Some(after) = rest
        .strip_prefix("//")
        .filter(|after| !scheme.is_empty() || !after.starts_with('/'))
    {
        let (authority, after) = after.split_at(after.find('/').unwrap_or(after.len()));
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        check_host(host).map_err(failed)?;
        (url.user, url.host, path) = (user, host, after);
    }
    check_escapes(path).map_err(failed)?;
    url.path = path;
    Ok(url)
}

fn split_scheme(text: &str) -> Result<(&str, &str), String> {
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if index > 0 => {}
            b':' if index == 0 => return Err("missing protocol scheme".to_owned()),
            b':' => {
                let (scheme, rest) = text.split_at(index);
                return Ok((scheme, rest.strip_prefix(':').unwrap_or(rest)));
            }
            _ => break,
        }
    }
    Ok(("", text))
}

fn check_host(host: &str) -> Result<(), String> {
    let (name, port) = if host.starts_with('[') {
        let Some((name, port)) = host.rsplit_once(']') else {
            return Err("missing ']' in host".to_owned());
        };
        (name.strip_prefix('[').unwrap_or(name), port)
    } else {
        host.split_at(host.rfind(':').unwrap_or(host.len()))
    };
    let is_port = port.is_empty()
        || port
            .strip_prefix(':')
            .is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    if !is_port {
        return Err(format!("invalid port {port:?} after host"));
    }
    if let Some(c) = name.chars().find(|c| " \"<>\\^`{|}".contains(*c)) {
        return Err(format!("invalid character {:?} in host name", c.to_string()));
    }
    check_escapes(name)
}

/// After a percent sign come two digits.
fn check_escapes(text: &str) -> Result<(), String> {
    for after in text.split('%').skip(1) {
        let digits: String = after.chars().take(2).collect();
        if digits.len() < 2 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(format!("invalid URL escape {:?}", format!("%{digits}")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        let parts =
            |text: &'static str| parse(text).map(|url| (url.scheme, url.user, url.host, url.query, url.fragment));
        let cases = [
            ("HTTPS://u:p@h:1/x?a=b#c", ("https", Some("u:p"), "h:1", "a=b", "c")),
            ("https://[::1]:443", ("https", None, "[::1]:443", "", "")),
            ("example.com/x", ("", None, "", "", "")),
            ("example.com:443/x", ("example.com", None, "", "", "")),
            ("//h/x", ("", None, "h", "", "")),
            ("https:///x", ("https", None, "", "", "")),
            ("", ("", None, "", "", "")),
        ];
        for (text, (scheme, user, host, query, fragment)) in cases {
            assert_eq!(
                parts(text),
                Ok((scheme.to_owned(), user, host, query, fragment)),
                "{text}"
            );
        }
    }

    #[test]
    fn invalid_urls_are_worded_as_in_go() {
        let cases = [
            ("10.0.0.1:443/x", "first path segment in URL cannot contain colon"),
            (":x", "missing protocol scheme"),
            ("https://h:port/", "invalid port \":port\" after host"),
            ("https://a b/", "invalid character \" \" in host name"),
            ("https://h/%zz", "invalid URL escape \"%zz\""),
            ("https://[::1", "missing ']' in host"),
        ];
        for (text, error) in cases {
            assert_eq!(parse(text), Err(format!("parse {text:?}: {error}")));
        }
    }
}
