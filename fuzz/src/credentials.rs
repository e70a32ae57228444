//! Credentials: `Authorization` headers, token files and client certificates. What holds: a token is what stands in the
//! header between spaces; a file that is read knows each of its users by the whole token only and never shows one.

use trireme_auth::{CertificateIdentity, TokenFile};

/// Checks the input as each of them.
pub fn check(data: &[u8]) {
    if let Ok(identity) = CertificateIdentity::from_der(data) {
        assert_eq!(identity.fingerprint.len(), 64);
    }
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Some(token) = trireme_edge::testing::bearer_token(text) {
        assert!(!token.is_empty() && text.contains(token) && !token.contains(' '));
    }
    match TokenFile::parse(text) {
        Ok(file) => lines(&file, text),
        Err(error) => assert!(error.to_string().starts_with("line ")),
    }
}

/// Lines without quotation marks say themselves what their token is.
fn lines(file: &TokenFile, text: &str) {
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    assert_eq!(format!("{file:?}"), format!("TokenFile({} tokens)", lines().count()));
    for line in lines().filter(|line| !line.contains('"')) {
        let mut columns = line.split(',').map(str::trim);
        let (token, name) = (columns.next().unwrap_or_default(), columns.next().unwrap_or_default());
        assert_eq!(user(file, token).as_deref(), Some(name));
        let longer = format!("{token}\u{1}");
        assert!(user(file, &longer).is_none() || text.contains(&longer));
    }
}

fn user(file: &TokenFile, token: &str) -> Option<String> {
    file.user(token).map(|user| user.name.clone())
}
