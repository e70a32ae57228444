//! Users with passwords from a file: `password,user,uid,"group1,group2"` a line. kube-apiserver had this until 1.18; it is off
//! unless a file is named.

#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use std::{collections::HashSet, fmt};

use trireme_registry::request::UserInfo;

use crate::{
    authenticator::{Authenticator, BoxFuture, Credentials, Rejected},
    token_file::{Secret, TokenFileError, rows},
};

/// The users of a `--basic-auth-file`.
pub struct PasswordFile(Vec<(Secret, UserInfo)>);

impl PasswordFile {
    /// Reads the text of a file.
    ///
    /// # Errors
    /// For the first line that is not as it should be.
    pub fn parse(text: &str) -> Result<Self, TokenFileError> {
        let mut seen = HashSet::new();
        let rows = rows(text)?;
        for (number, _, user) in &rows {
            if !seen.insert(user.name.clone()) {
                return Err(TokenFileError::DuplicateUser(*number));
            }
        }
        Ok(Self(
            rows.into_iter().map(|(_, password, user)| (password, user)).collect(),
        ))
    }

    fn user(&self, name: &str, password: &str) -> Option<&UserInfo> {
        // Every line is compared, so that the time taken does not show whether there is such a user.
        let mut found = None;
        for (secret, user) in &self.0 {
            let is_password = bool::from(secret.is(password));
            if is_password && user.name == name {
                found = Some(user);
            }
        }
        found
    }
}

impl fmt::Debug for PasswordFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PasswordFile({} users)", self.0.len())
    }
}

impl Authenticator for PasswordFile {
    fn authenticate<'a>(&'a self, credentials: Credentials<'a>) -> BoxFuture<'a, Result<Option<UserInfo>, Rejected>> {
        let answer = credentials.password.map(|(name, password)| {
            let user = self.user(name, password).cloned();
            user.ok_or(Rejected("the user or the password is wrong"))
        });
        Box::pin(std::future::ready(answer.transpose()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_known_by_their_own_passwords() {
        let file = PasswordFile::parse("same,a,1,\"g,h\"\nsame,b,2\n").expect("in order");
        let user = |name, password| file.user(name, password).map(|user| user.groups.join("+"));
        assert_eq!(
            (user("a", "same"), user("b", "same")),
            (Some("g+h".to_owned()), Some(String::new()))
        );
        for (name, password) in [("c", "same"), ("a", "Same"), ("a", ""), ("", "same")] {
            assert_eq!(user(name, password), None, "{name:?} {password:?}");
        }
        assert_eq!(format!("{file:?}"), "PasswordFile(2 users)");
    }

    #[test]
    fn a_user_has_one_password() {
        assert_eq!(
            PasswordFile::parse("x,a,1\ny,a,2").err(),
            Some(TokenFileError::DuplicateUser(2))
        );
        assert_eq!(PasswordFile::parse(",a,1").err(), Some(TokenFileError::EmptyToken(1)));
    }
}
