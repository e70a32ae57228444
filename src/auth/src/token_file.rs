//! Static bearer tokens from a file: `token,user,uid,"group1,group2"` a line.

#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use std::{collections::HashSet, fmt};

use subtle::{Choice, ConstantTimeEq};
use trireme_registry::request::UserInfo;
use zeroize::Zeroizing;

/// The users of a `--token-auth-file`.
pub struct TokenFile(Vec<(Secret, UserInfo)>);

/// A token or password that is compared in constant time, never shown, and overwritten when it is given up.
pub(crate) struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    fn of(text: &str) -> Self {
        Self(Zeroizing::new(text.as_bytes().to_vec()))
    }

    pub(crate) fn is(&self, text: &str) -> Choice {
        self.0.ct_eq(text.as_bytes())
    }
}

/// A file of tokens or passwords that cannot be used. Never names one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenFileError {
    /// Fewer than three columns.
    #[error("line {0}: there must be at least a token or password, a user name and a uid")]
    Columns(usize),
    /// No token in the first column.
    #[error("line {0}: the token or password is empty")]
    EmptyToken(usize),
    /// No user in the second column.
    #[error("line {0}: the user name is empty")]
    EmptyUser(usize),
    /// A token that an earlier line has, too.
    #[error("line {0}: the token has been given before")]
    Duplicate(usize),
    /// A user who has a password already.
    #[error("line {0}: the user has been given before")]
    DuplicateUser(usize),
    /// A quotation mark where none may be, or none where one must be.
    #[error("line {0}: unbalanced quotation marks")]
    Quotes(usize),
}

impl TokenFile {
    /// Reads the text of a file.
    ///
    /// # Errors
    /// For the first line that is not as it should be.
    pub fn parse(text: &str) -> Result<Self, TokenFileError> {
        let mut seen: HashSet<&[u8]> = HashSet::new();
        let rows = rows(text)?;
        for (number, token, _) in &rows {
            if !seen.insert(&token.0) {
                return Err(TokenFileError::Duplicate(*number));
            }
        }
        Ok(Self(rows.into_iter().map(|(_, token, user)| (token, user)).collect()))
    }

    /// The token's user.
    pub fn user(&self, token: &str) -> Option<&UserInfo> {
        // Every line is compared, so that the time taken does not show the place of a match.
        let mut found = None;
        for (secret, user) in &self.0 {
            if bool::from(secret.is(token)) {
                found = Some(user);
            }
        }
        found
    }
}

impl fmt::Debug for TokenFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenFile({} tokens)", self.0.len())
    }
}

/// The lines of a file: their numbers, secrets and users.
pub(crate) fn rows(text: &str) -> Result<Vec<(usize, Secret, UserInfo)>, TokenFileError> {
    let mut users = Vec::new();
    for (number, line) in text
        .lines()
        .enumerate()
        .map(|(index, line)| (index.saturating_add(1), line.trim()))
    {
        if line.is_empty() {
            continue;
        }
        let mut columns = columns(line).ok_or(TokenFileError::Quotes(number))?.into_iter();
        let (Some(secret), Some(name), Some(uid)) = (columns.next(), columns.next(), columns.next()) else {
            return Err(TokenFileError::Columns(number));
        };
        let secret = Secret::of(&secret);
        if secret.0.is_empty() {
            return Err(TokenFileError::EmptyToken(number));
        }
        if name.is_empty() {
            return Err(TokenFileError::EmptyUser(number));
        }
        let groups = columns.next().map_or_else(Vec::new, |groups| list(&groups));
        let user = UserInfo {
            name: name.as_str().to_owned(),
            uid: uid.as_str().to_owned(),
            groups,
            ..UserInfo::default()
        };
        users.push((number, secret, user));
    }
    Ok(users)
}

fn list(text: &str) -> Vec<String> {
    text.split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .map(str::to_owned)
        .collect()
}

/// The columns of a line of comma-separated values; `None` if its quotation marks do not match.
fn columns(line: &str) -> Option<Vec<Zeroizing<String>>> {
    let mut out = Vec::new();
    let mut rest = line;
    loop {
        let (column, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted_column(quoted)?,
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                let (column, after) = rest.split_at(end);
                if column.contains('"') {
                    return None;
                }
                (Zeroizing::new(column.to_owned()), after)
            }
        };
        out.push(Zeroizing::new(column.trim().to_owned()));
        match after.strip_prefix(',') {
            Some(next) => rest = next,
            None if after.is_empty() => return Some(out),
            None => return None,
        }
    }
}

/// Reads up to the closing quotation mark; a doubled one stands for itself.
fn quoted_column(mut rest: &str) -> Option<(Zeroizing<String>, &str)> {
    let mut column = Zeroizing::new(String::with_capacity(rest.len()));
    loop {
        let (text, after) = rest.split_once('"')?;
        column.push_str(text);
        match after.strip_prefix('"') {
            Some(next) => {
                column.push('"');
                rest = next;
            }
            None => return Some((column, after)),
        }
    }
}

#[cfg(test)]
mod tests {
    use zeroize::ZeroizeOnDrop;

    use super::*;

    #[test]
    fn users_are_found_by_their_whole_token() {
        let file = TokenFile::parse("t1,admin,u1,\"system:masters,ops\"\n\nt2,bob,u2\nt3,\"a \"\"b\"\"\",u3,dev\n");
        let file = file.expect("this file is in order");
        let user = |token| {
            file.user(token)
                .map(|u| (u.name.as_str(), u.uid.as_str(), u.groups.join("+")))
        };
        assert_eq!(user("t1"), Some(("admin", "u1", "system:masters+ops".into())));
        assert_eq!(user("t2"), Some(("bob", "u2", String::new())));
        assert_eq!(user("t3"), Some((r#"a "b""#, "u3", "dev".into())));
        for token in ["", "t", "t11", "T1", "t1 "] {
            assert_eq!(user(token), None, "{token:?}");
        }
    }

    #[test]
    fn errors_name_the_line_and_never_the_token() {
        let cases = [
            ("secret,a,1\nsecret", TokenFileError::Columns(2)),
            ("secret,a", TokenFileError::Columns(1)),
            (",a,1", TokenFileError::EmptyToken(1)),
            ("secret,,1", TokenFileError::EmptyUser(1)),
            ("secret,a,1\nsecret,b,2", TokenFileError::Duplicate(2)),
            ("secret,a,1,\"x", TokenFileError::Quotes(1)),
            ("secret,a,1,\"x\"y", TokenFileError::Quotes(1)),
            ("secret,a\"b,1", TokenFileError::Quotes(1)),
        ];
        for (text, error) in cases {
            let found = TokenFile::parse(text).err();
            assert_eq!(found.as_ref(), Some(&error), "{text:?}");
            assert!(!error.to_string().contains("secret"));
        }
    }

    #[test]
    fn debug_output_holds_no_token() {
        let file = TokenFile::parse("hush,a,1").expect("this file is in order");
        assert_eq!(format!("{file:?}"), "TokenFile(1 tokens)");
    }

    #[test]
    fn tokens_and_passwords_are_overwritten_when_they_are_given_up() {
        fn overwritten<T: ZeroizeOnDrop>(_: &T) {}
        let Secret(token) = Secret::of("hush");
        overwritten(&token);
        overwritten(&columns("hush,a,1").expect("three columns"));
        let (quoted, _) = quoted_column("hush\"").expect("it ends");
        overwritten(&quoted);
    }
}
