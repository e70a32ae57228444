//! Bearer tokens: the trait of everything that can say whose a token is, several of these in a row, and the authenticator
//! of requests that bring one.
//!
//! Requests and `TokenReview`s ask the same [`TokenAuthenticator`], so that a token that a review calls good is accepted
//! here. Promise: nothing that is said of a token shows it.

#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use std::{fmt, sync::Arc};

use trireme_machinery::go_text::{aggregate_errors, quote};
use trireme_registry::request::UserInfo;

use crate::{
    authenticator::{Authenticator, BoxFuture, Credentials, Rejected},
    token_notes::TokenNotes,
    union::authenticated,
};

/// The user of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenHolder {
    /// The user.
    pub user: UserInfo,
    /// For which of the audiences that were asked for the token is good: one at least.
    pub audiences: Vec<String>,
    /// Notes on the token.
    pub notes: TokenNotes,
}

impl TokenHolder {
    /// The holder of a token of which nothing else is known.
    pub fn new(user: UserInfo, audiences: Vec<String>) -> Self {
        Self {
            user,
            audiences,
            notes: TokenNotes::default(),
        }
    }
}

/// The reason that a token is refused, in kube-apiserver's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenError {
    /// No authenticator knows it.
    Unknown,
    /// It was ours, and is not good.
    Bad(&'static str),
    /// It is not for whom it should be good.
    Audiences {
        /// For whom it is.
        given: Vec<String>,
        /// For whom it should be.
        wanted: Vec<String>,
    },
    /// An object that it names is not the one that it was made for, or not there; the text names both.
    Object(String),
    /// It was not good, and more is known of it.
    Noted {
        /// The reason.
        error: Box<TokenError>,
        /// For the client and the audit log.
        notes: TokenNotes,
    },
    /// An authenticator could not judge it, or refused it with this reason.
    Failed(String),
    /// More than one authenticator has found something.
    Several(Vec<TokenError>),
}

impl TokenError {
    /// The notes on a token that is refused.
    pub fn notes(&self) -> TokenNotes {
        match self {
            Self::Noted { notes, .. } => notes.clone(),
            Self::Several(errors) => {
                let mut all = TokenNotes::default();
                for notes in errors.iter().map(Self::notes) {
                    all.warnings.extend(notes.warnings);
                    all.annotations.extend(notes.annotations);
                }
                all
            }
            _ => TokenNotes::default(),
        }
    }

    /// The error of a `TokenReview`: all errors, each once, of which the first is that the server's own token is
    /// another one.
    pub fn review_text(&self) -> String {
        let errors = match self {
            Self::Several(errors) => errors.as_slice(),
            one => std::slice::from_ref(one),
        };
        let all = std::iter::once(&Self::Unknown).chain(errors);
        let texts: Vec<String> = all.map(Self::to_string).collect();
        aggregate_errors(&texts).unwrap_or_default()
    }
}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |texts: &[String]| texts.iter().map(|text| quote(text)).collect::<Vec<_>>().join(" ");
        match self {
            Self::Audiences { given, wanted } => write!(
                f,
                "token audiences [{}] is invalid for the target audiences [{}]",
                list(given),
                list(wanted)
            ),
            Self::Object(why) | Self::Failed(why) => f.write_str(why),
            Self::Noted { error, .. } => error.fmt(f),
            Self::Several(errors) => {
                let texts: Vec<String> = errors.iter().map(Self::to_string).collect();
                write!(f, "[{}]", texts.join(", "))
            }
            Self::Unknown | Self::Bad(_) => f.write_str(Rejected::from(self).0),
        }
    }
}

impl std::error::Error for TokenError {}

impl From<&TokenError> for Rejected {
    fn from(error: &TokenError) -> Self {
        Self(match error {
            TokenError::Unknown => "invalid bearer token",
            TokenError::Bad(why) => why,
            TokenError::Audiences { .. } => "the token is for others",
            TokenError::Object(_) => "the token names an object that is not there",
            TokenError::Noted { error, .. } => return Self::from(&**error),
            TokenError::Failed(_) | TokenError::Several(_) => "an authenticator has refused the token",
        })
    }
}

/// Says whose a token is.
pub trait TokenAuthenticator: Send + Sync + 'static {
    /// The holder of a token that is good for at least one of the audiences.
    ///
    /// # Errors
    /// See [`TokenError`].
    fn holder<'a>(&'a self, token: &'a str, audiences: &'a [String]) -> BoxFuture<'a, Result<TokenHolder, TokenError>>;
}

/// The intersection of two lists of audiences, in the order of the second.
pub fn common_audiences(of: &[String], wanted: &[String]) -> Vec<String> {
    wanted
        .iter()
        .filter(|audience| of.contains(audience))
        .cloned()
        .collect()
}

/// Asks several in order; the first that knows the holder wins. Only if none does, the errors that they have found count.
/// Adds the group `system:authenticated`.
pub struct TokenUnion(Vec<Arc<dyn TokenAuthenticator>>);

impl TokenUnion {
    /// Of these, in this order.
    pub fn new(authenticators: Vec<Arc<dyn TokenAuthenticator>>) -> Self {
        Self(authenticators)
    }
}

impl TokenAuthenticator for TokenUnion {
    fn holder<'a>(&'a self, token: &'a str, audiences: &'a [String]) -> BoxFuture<'a, Result<TokenHolder, TokenError>> {
        Box::pin(async move {
            let mut found = Vec::new();
            for authenticator in &self.0 {
                match authenticator.holder(token, audiences).await {
                    Ok(holder) => {
                        return Ok(TokenHolder {
                            user: authenticated(holder.user),
                            ..holder
                        });
                    }
                    Err(TokenError::Unknown) => {}
                    Err(error) => found.push(error),
                }
            }
            match found.len() {
                0 => Err(TokenError::Unknown),
                1 => Err(found.remove(0)),
                _ => Err(TokenError::Several(found)),
            }
        })
    }
}

/// Knows the users of requests by tokens that are good for this server.
pub struct BearerTokens {
    tokens: Arc<dyn TokenAuthenticator>,
    audiences: Vec<String>,
}

impl BearerTokens {
    /// By what `tokens` knows; `audiences` are this server's names.
    pub fn new(tokens: Arc<dyn TokenAuthenticator>, audiences: Vec<String>) -> Self {
        Self { tokens, audiences }
    }
}

impl Authenticator for BearerTokens {
    fn authenticate<'a>(&'a self, credentials: Credentials<'a>) -> BoxFuture<'a, Result<Option<UserInfo>, Rejected>> {
        Box::pin(async move {
            let Some(token) = credentials.bearer_token else {
                return Ok(None);
            };
            let found = self.tokens.holder(token, &self.audiences).await;
            let (answer, notes) = match found {
                Ok(holder) => (Ok(Some(holder.user)), holder.notes),
                Err(error) => (Err(Rejected::from(&error)), error.notes()),
            };
            if let Some(kept) = credentials.notes {
                // Set once: a request has one token, which is asked about once.
                let _ = kept.set(notes);
            }
            answer
        })
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use super::*;
    use crate::AUTHENTICATED;

    struct Says(Result<&'static str, TokenError>);

    impl TokenAuthenticator for Says {
        fn holder<'a>(&'a self, _: &'a str, asked: &'a [String]) -> BoxFuture<'a, Result<TokenHolder, TokenError>> {
            let user = |name: &str| UserInfo {
                name: name.to_owned(),
                ..UserInfo::default()
            };
            let holder = self.0.clone().map(|name| TokenHolder::new(user(name), asked.to_vec()));
            Box::pin(std::future::ready(holder))
        }
    }

    fn now<T>(mut answer: BoxFuture<'_, T>) -> T {
        match answer.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => answer,
            Poll::Pending => panic!("these authenticators never wait"),
        }
    }

    fn union(answers: Vec<Result<&'static str, TokenError>>) -> TokenUnion {
        TokenUnion::new(answers.into_iter().map(|answer| Arc::new(Says(answer)) as _).collect())
    }

    #[test]
    fn the_first_that_knows_the_holder_wins_even_after_a_error() {
        let tokens = union(vec![Err(TokenError::Bad("no")), Ok("a"), Ok("b")]);
        let holder = now(tokens.holder("t", &[])).expect("a knows it");
        assert_eq!(
            (holder.user.name.as_str(), holder.user.groups),
            ("a", vec![AUTHENTICATED.to_owned()])
        );
    }

    #[test]
    fn what_one_has_found_counts_more_than_that_others_do_not_know_the_token() {
        let tokens = union(vec![
            Err(TokenError::Unknown),
            Err(TokenError::Bad("late")),
            Err(TokenError::Unknown),
        ]);
        assert_eq!(now(tokens.holder("t", &[])), Err(TokenError::Bad("late")));
        let tokens = union(vec![
            Err(TokenError::Bad("a")),
            Err(TokenError::Unknown),
            Err(TokenError::Bad("b")),
        ]);
        let error = now(tokens.holder("t", &[])).expect_err("it is unknown");
        assert_eq!(error.review_text(), "[invalid bearer token, a, b]");
        assert_eq!(now(union(vec![]).holder("t", &[])), Err(TokenError::Unknown));
    }

    #[test]
    fn a_request_without_a_token_has_no_such_credentials() {
        let requests = BearerTokens::new(Arc::new(union(vec![Err(TokenError::Unknown)])), Vec::new());
        assert_eq!(now(requests.authenticate(Credentials::default())), Ok(None));
        let credentials = Credentials {
            bearer_token: Some("t"),
            ..Credentials::default()
        };
        assert_eq!(
            now(requests.authenticate(credentials)),
            Err(Rejected("invalid bearer token"))
        );
    }

    #[test]
    fn errors_read_as_those_of_kube_apiserver() {
        let list = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let error = TokenError::Audiences {
            given: list(&["a"]),
            wanted: list(&["b", "c\""]),
        };
        let text = r#"token audiences ["a"] is invalid for the target audiences ["b" "c\""]"#;
        assert_eq!(error.to_string(), text);
        assert_eq!(TokenError::Unknown.to_string(), "invalid bearer token");
        assert_eq!(TokenError::Unknown.review_text(), "invalid bearer token");
        assert_eq!(TokenError::Bad("no").review_text(), "[invalid bearer token, no]");
    }
}
