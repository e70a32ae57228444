//! Several authenticators in a row.

use std::sync::Arc;

use trireme_registry::request::UserInfo;

use crate::{
    AUTHENTICATED,
    authenticator::{Authenticator, BoxFuture, Credentials, Rejected},
};

/// Asks authenticators in order; the first that knows the user wins. Only if none does, a rejection by any of them
/// counts. Adds the group `system:authenticated`.
pub struct Union(Vec<Arc<dyn Authenticator>>);

impl Union {
    /// Of these, in this order.
    pub fn new(authenticators: Vec<Arc<dyn Authenticator>>) -> Self {
        Self(authenticators)
    }
}

impl Authenticator for Union {
    fn authenticate<'a>(&'a self, credentials: Credentials<'a>) -> BoxFuture<'a, Result<Option<UserInfo>, Rejected>> {
        Box::pin(async move {
            let mut rejected = None;
            for authenticator in &self.0 {
                match authenticator.authenticate(credentials).await {
                    Ok(Some(user)) => return Ok(Some(authenticated(user))),
                    Ok(None) => {}
                    Err(why) => rejected = rejected.or(Some(why)),
                }
            }
            rejected.map_or(Ok(None), Err)
        })
    }
}

/// The user as one who gave valid credentials.
pub(crate) fn authenticated(mut user: UserInfo) -> UserInfo {
    if !user.groups.iter().any(|group| group == AUTHENTICATED) {
        user.groups.push(AUTHENTICATED.to_owned());
    }
    user
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use super::*;

    struct Says(Result<Option<&'static str>, Rejected>);

    impl Authenticator for Says {
        fn authenticate<'a>(&'a self, _: Credentials<'a>) -> BoxFuture<'a, Result<Option<UserInfo>, Rejected>> {
            let answer = self.0.map(|name| {
                name.map(|name| UserInfo {
                    name: name.to_owned(),
                    ..UserInfo::default()
                })
            });
            Box::pin(std::future::ready(answer))
        }
    }

    fn ask(answers: Vec<Result<Option<&'static str>, Rejected>>) -> Result<Option<UserInfo>, Rejected> {
        let union = Union::new(answers.into_iter().map(|a| Arc::new(Says(a)) as _).collect());
        let mut answer = union.authenticate(Credentials::default());
        match answer.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => answer,
            Poll::Pending => panic!("these authenticators never wait"),
        }
    }

    #[test]
    fn the_first_that_knows_the_user_wins_even_after_a_rejection() {
        let user = ask(vec![Err(Rejected("no")), Ok(None), Ok(Some("a")), Ok(Some("b"))]);
        let user = user.ok().flatten().map(|u| (u.name, u.groups));
        assert_eq!(user, Some(("a".to_owned(), vec![AUTHENTICATED.to_owned()])));
    }

    #[test]
    fn a_rejection_is_not_the_same_as_no_credentials() {
        assert_eq!(ask(vec![Ok(None), Err(Rejected("bad"))]), Err(Rejected("bad")));
        assert_eq!(ask(vec![Ok(None)]), Ok(None));
    }
}
