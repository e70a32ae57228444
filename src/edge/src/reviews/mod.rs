//! Reviews: objects that are POSTed to be answered, of which nothing is kept.
//!
//! `routes::resources` calls [`create`] for the resources of two groups. The body is read as that of any other create; what
//! is asked is put to the same authorizer and the same authenticators of tokens that judge requests, so that a review says
//! what would happen. A dry run is answered like any other: nothing is ever stored.

mod access;
mod rules;
mod subject;
mod token;

use std::{collections::HashSet, sync::Arc};

use actix_web::{
    HttpRequest,
    http::{StatusCode, header},
    web,
};
use serde_json::{Value, json};
use trireme_auth::{Authorizer, RuleResolver, TokenAuthenticator};
use trireme_kinds::{authorization::accessreviews::Subject, data, data::ResourceData};
use trireme_machinery::{ApiError, GroupVersion, GroupVersionKind, Object};
use trireme_registry::{
    posted::PostedKind,
    request::{Body, UserInfo},
    trace::TraceStep,
};

use crate::{
    api::Shared,
    body,
    exchange::{Current, header_text},
    negotiation::{self, Produces, negotiate_without_tables},
    options::{self, Write},
    respond::{self, Answered},
};

/// Who reviews.
pub(crate) struct Reviewers {
    /// Says what a user may do.
    pub(crate) authorizer: Arc<dyn Authorizer>,
    /// Lists it.
    pub(crate) rules: Arc<dyn RuleResolver>,
    /// Says whose a token is.
    pub(crate) tokens: Arc<dyn TokenAuthenticator>,
    /// Whom a token is for when nobody says: this server.
    pub(crate) audiences: Vec<String>,
    /// Every kind that there is.
    pub(crate) known_kinds: HashSet<GroupVersionKind>,
}

/// What is reviewed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Review {
    /// May somebody do something?
    Access(Subject),
    /// What may I do?
    Rules,
    /// Whose token is this?
    Token,
    /// Who am I?
    Subject,
}

impl Review {
    /// The review that a resource is, if it is one.
    pub(crate) fn of(group: &str, resource: &str) -> Option<Self> {
        Some(match (group, resource) {
            ("authorization.k8s.io", "selfsubjectaccessreviews") => Self::Access(Subject::Own),
            ("authorization.k8s.io", "subjectaccessreviews") => Self::Access(Subject::Any),
            ("authorization.k8s.io", "localsubjectaccessreviews") => Self::Access(Subject::InNamespace),
            ("authorization.k8s.io", "selfsubjectrulesreviews") => Self::Rules,
            ("authentication.k8s.io", "tokenreviews") => Self::Token,
            ("authentication.k8s.io", "selfsubjectreviews") => Self::Subject,
            _ => return None,
        })
    }
}

/// POST of a review: answers with the object that says what is so.
pub(crate) async fn create(
    exchange: &Current,
    api: &Shared,
    request: &HttpRequest,
    payload: web::Payload,
    review: Review,
    data: &ResourceData,
) -> Answered {
    let accept = negotiate_without_tables(exchange.accept.as_deref(), Produces::Documents)?;
    let content_type = header_text(request.headers(), header::CONTENT_TYPE);
    let format = negotiation::body_format(content_type.as_deref())?;
    let bytes = body::read(api, exchange, request, payload).await?;
    exchange.trace.pass(TraceStep::BodyRead);
    let options = options::read(&exchange.query, exchange.user_agent.as_deref(), Write::Create)?;
    let info = &exchange.info;
    let version = data.version(info.version());
    let version = version.ok_or_else(|| ApiError::internal("the version is not served"))?;
    let kind = GroupVersion::new(&data.group, &version.name).with_kind(&data.kind);
    let posted = PostedKind {
        kind: kind.clone(),
        type_name: &version.type_name,
        types: data::type_table(),
        known_kinds: &api.reviewers.known_kinds,
    };
    let posted = posted.read(&Body { bytes, format }, info.namespace(), options.field_validation)?;
    posted.warnings.into_iter().for_each(|warning| exchange.warn(warning));
    exchange.trace.pass(TraceStep::Decoded);
    let (user, object) = (exchange.user(), posted.object);
    let mut answer = match review {
        Review::Access(subject) => access::review(&api.reviewers, &user, subject, object).await?,
        Review::Rules => rules::review(&api.reviewers, &user, &object).await?,
        Review::Token => token::review(&api.reviewers, object).await?,
        Review::Subject => subject::review(&user, &api.clock),
    };
    answer["kind"] = json!(&*kind.kind);
    answer["apiVersion"] = json!(kind.group_version().to_string());
    Ok(respond::value(exchange, accept.format, StatusCode::CREATED, &answer))
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
    info.insert("username".into(), user.name.as_str().into());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_resource_of_both_groups_is_a_review() {
        let groups = ["authentication.k8s.io", "authorization.k8s.io"];
        let all = data::resources()
            .iter()
            .filter(|row| groups.contains(&row.group.as_str()));
        let reviews: Vec<_> = all
            .map(|row| (&row.plural, Review::of(&row.group, &row.plural)))
            .collect();
        assert_eq!(reviews.len(), 6);
        for (plural, review) in reviews {
            assert!(review.is_some(), "{plural}");
        }
    }
}
