//! Reviews: objects that are POSTed to be answered, of which nothing is kept.
//!
//! The composition root has [`reviews`] served as virtual resources. The body is read as that of any other create; what is
//! asked is put to the same authorizer and the same authenticators of tokens that judge requests, so that a review says
//! what would happen. A dry run is answered like any other: nothing is ever stored.

mod access;
mod accessreviews;
mod rules;
mod selectors;
mod subject;
mod token;

use std::sync::Arc;

use serde_json::{Value, json};
use trireme_actors::Clock;
use trireme_auth::{Authorizer, BoxFuture, RuleResolver, TokenAuthenticator};
use trireme_machinery::{ApiError, GroupResource, Object, schema::TypeTable};
use trireme_registry::{
    Attributes, VirtualCall, VirtualResource,
    request::{CreateRequest, UserInfo},
    subresource::SubresourceCreated,
};

use self::accessreviews::ReviewSubject;

/// The parts that reviews are answered with.
pub struct Reviewers {
    /// Says what a user may do.
    pub authorizer: Arc<dyn Authorizer>,
    /// Lists it.
    pub rules: Arc<dyn RuleResolver>,
    /// Says whose a token is.
    pub tokens: Arc<dyn TokenAuthenticator>,
    /// The audiences of a token by default: this server.
    pub audiences: Vec<String>,
    /// The time.
    pub clock: Clock,
}

/// The kind of a review.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Review {
    /// May a user do something?
    Access(ReviewSubject),
    /// SelfSubjectRulesReview
    Rules,
    /// TokenReview
    Token,
    /// SelfSubjectReview
    Subject,
}

const REVIEWS: [(&str, &str, Review); 6] = [
    (
        "authorization.k8s.io",
        "selfsubjectaccessreviews",
        Review::Access(ReviewSubject::Own),
    ),
    (
        "authorization.k8s.io",
        "subjectaccessreviews",
        Review::Access(ReviewSubject::Any),
    ),
    (
        "authorization.k8s.io",
        "localsubjectaccessreviews",
        Review::Access(ReviewSubject::InNamespace),
    ),
    ("authorization.k8s.io", "selfsubjectrulesreviews", Review::Rules),
    ("authentication.k8s.io", "tokenreviews", Review::Token),
    ("authentication.k8s.io", "selfsubjectreviews", Review::Subject),
];

/// Answers the reviews of one resource.
struct ReviewResource {
    review: Review,
    reviewers: Arc<Reviewers>,
}

/// The handler of each review.
pub fn reviews(reviewers: Reviewers) -> Vec<(GroupResource, Arc<dyn VirtualResource>)> {
    let reviewers = Arc::new(reviewers);
    REVIEWS
        .into_iter()
        .map(|(group, resource, review)| {
            let name = GroupResource {
                group: group.into(),
                resource: resource.into(),
            };
            let reviewers = reviewers.clone();
            let handler: Arc<dyn VirtualResource> = Arc::new(ReviewResource { review, reviewers });
            (name, handler)
        })
        .collect()
}

impl ReviewResource {
    /// Holds a review against the rules of its kind, between mutating and validating admission as in kube-apiserver.
    fn check(&self, review: &Value, types: &TypeTable) -> Result<(), ApiError> {
        match self.review {
            Review::Access(subject) => access::check(subject, review, types),
            Review::Rules => rules::check(review),
            Review::Token => token::check(review),
            Review::Subject => Ok(()),
        }
    }

    /// Answers a review by `user` that was admitted.
    async fn answer(&self, review: Value, write: &Attributes) -> Value {
        let user = &write.context.user;
        let reviewers = &self.reviewers;
        match self.review {
            Review::Access(subject) => access::review(reviewers, user, subject, review).await,
            Review::Rules => rules::review(reviewers, user, &review).await,
            Review::Token => {
                let (answer, notes) = token::review(reviewers, review).await;
                notes.warnings.iter().for_each(|warning| write.warn(*warning));
                for (key, value) in notes.annotations {
                    write.annotate(key, value);
                }
                answer
            }
            Review::Subject => subject::review(user, &reviewers.clock),
        }
    }
}

impl VirtualResource for ReviewResource {
    fn create<'a>(
        &'a self,
        call: VirtualCall,
        request: CreateRequest,
    ) -> BoxFuture<'a, Result<SubresourceCreated, ApiError>> {
        Box::pin(async move {
            let mut write = call.admit(request).await?;
            let checked = self.check(write.object.as_ref().unwrap_or(&Value::Null), &call.definition.types);
            checked.map_err(|error| write.with_warnings(error))?;
            call.validate(&write).await?;
            let object = write.object.take().unwrap_or_default();
            let mut answer = self.answer(object, &write).await;
            answer["kind"] = json!(&*write.kind.kind);
            answer["apiVersion"] = json!(write.kind.group_version().to_string());
            Ok(SubresourceCreated {
                object: Some(answer),
                warnings: write.take_record().warnings,
            })
        })
    }
}

/// A text of a struct; empty if it is absent.
fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The texts of a list; none if it is absent.
fn texts(value: &Value, name: &str) -> Vec<String> {
    let items = value.get(name).and_then(Value::as_array);
    let texts = items.into_iter().flatten().filter_map(Value::as_str);
    texts.map(str::to_owned).collect()
}

/// A user as reviews show one.
fn user_info(user: &UserInfo) -> Value {
    let mut info = Object::new();
    if !user.name.is_empty() {
        info.insert("username".into(), user.name.as_str().into());
    }
    if !user.uid.is_empty() {
        info.insert("uid".into(), user.uid.as_str().into());
    }
    if !user.groups.is_empty() {
        info.insert("groups".into(), user.groups.clone().into());
    }
    if !user.extra.is_empty() {
        info.insert("extra".into(), json!(user.extra));
    }
    info.into()
}
