//! `ABAC`: policies in a file, one JSON object a line (`pkg/auth/authorizer/abac`).

use serde_json::Value;
use trireme_registry::request::UserInfo;

use crate::{
    AUTHENTICATED,
    authenticator::BoxFuture,
    authorizer::{Attributes, AuthorizationRequest, Authorizer, Decision},
    rules::{PathRule, ResourceRule, RuleResolver, Rules},
};

const VERSION: &str = "abac.authorization.kubernetes.io/v1beta1";
const ALL: &str = "*";

/// A policy file that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct AbacError {
    /// Counted from 1.
    line: usize,
    why: String,
}

/// Allows what a line of the file allows.
#[derive(Debug)]
pub struct AbacPolicies(Vec<AbacPolicy>);

/// One line.
#[derive(Debug, Default)]
struct AbacPolicy {
    user: String,
    group: String,
    readonly: bool,
    api_group: String,
    resource: String,
    namespace: String,
    path: String,
}

impl AbacPolicies {
    /// Reads a policy file.
    ///
    /// # Errors
    /// The first line that is no policy, of version `v1beta1` or of none.
    pub fn parse(text: &str) -> Result<Self, AbacError> {
        let lines = text.lines().enumerate();
        let lines = lines.filter(|(_, line)| !line.trim().is_empty() && !line.trim_start().starts_with('#'));
        let policies =
            lines.map(|(index, line)| AbacPolicy::parse(line).map_err(|why| AbacError { line: index + 1, why }));
        policies.collect::<Result<_, _>>().map(Self)
    }
}

impl AbacPolicy {
    fn parse(line: &str) -> Result<Self, String> {
        let object: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
        if object.is_object() && object["apiVersion"].is_null() && object["kind"].is_null() {
            return Self::of_fields(&object, "").map(Self::migrated);
        }
        if object["apiVersion"] != VERSION || object["kind"] != "Policy" {
            return Err(format!("not a Policy of {VERSION}"));
        }
        Self::of_fields(&object["spec"], "spec.").map(Self::of_authenticated)
    }

    fn of_fields(fields: &Value, path: &str) -> Result<Self, String> {
        let mut policy = Self::default();
        for (field, value) in fields.as_object().into_iter().flatten() {
            let text = || {
                value
                    .as_str()
                    .map(str::to_owned)
                    .ok_or_else(|| format!("{path}{field} is not a text"))
            };
            match field.as_str() {
                "user" => policy.user = text()?,
                "group" => policy.group = text()?,
                "apiGroup" => policy.api_group = text()?,
                "resource" => policy.resource = text()?,
                "namespace" => policy.namespace = text()?,
                "nonResourcePath" => policy.path = text()?,
                "readonly" => policy.readonly = policy_flag(value, path)?,
                _ => return Err(format!("a policy has no field {path}{field}")),
            }
        }
        Ok(policy)
    }

    /// `*` stands for all who gave credentials.
    fn of_authenticated(mut self) -> Self {
        if self.user == ALL || self.group == ALL {
            self.user.clear();
            AUTHENTICATED.clone_into(&mut self.group);
        }
        self
    }

    /// A policy from before there were versions: what it does not say it allows (`pkg/apis/abac/v0`).
    fn migrated(mut self) -> Self {
        if self.user.is_empty() && self.group.is_empty() {
            ALL.clone_into(&mut self.group);
        }
        if self.namespace.is_empty() && self.resource.is_empty() {
            ALL.clone_into(&mut self.path);
        }
        for field in [&mut self.namespace, &mut self.resource] {
            if field.is_empty() {
                ALL.clone_into(field);
            }
        }
        ALL.clone_into(&mut self.api_group);
        self.of_authenticated()
    }

    fn is_of(&self, user: &UserInfo) -> bool {
        let is_empty = self.user.is_empty() && self.group.is_empty();
        let is_user = self.user.is_empty() || self.user == user.name;
        let is_group = self.group.is_empty() || user.groups.contains(&self.group);
        !is_empty && is_user && is_group
    }

    fn allows(&self, attributes: &Attributes<'_>) -> bool {
        let is = |rule: &str, asked: &str| rule == ALL || rule == asked;
        let is_reading = matches!(attributes.verb, "get" | "list" | "watch");
        self.is_of(attributes.user)
            && (is_reading || !self.readonly)
            && match attributes.wanted {
                AuthorizationRequest::Resource {
                    group,
                    resource,
                    namespace,
                    ..
                } => is(&self.namespace, namespace) && is(&self.resource, resource) && is(&self.api_group, group),
                AuthorizationRequest::Path(path) => {
                    let root = self.path.strip_suffix('*');
                    self.path == path || root.is_some_and(|root| path.starts_with(root.trim_end_matches('*')))
                }
            }
    }

    fn verbs(&self) -> Vec<String> {
        let verbs: &[&str] = if self.readonly {
            &["get", "list", "watch"]
        } else {
            &[ALL]
        };
        verbs.iter().map(|verb| (*verb).to_owned()).collect()
    }
}

fn policy_flag(value: &Value, path: &str) -> Result<bool, String> {
    let why = || format!("{path}readonly is not true or false");
    value.as_bool().ok_or_else(why)
}

impl Authorizer for AbacPolicies {
    fn authorize<'a>(&'a self, attributes: Attributes<'a>) -> BoxFuture<'a, Decision> {
        let allowed = self.0.iter().any(|policy| policy.allows(&attributes));
        Box::pin(std::future::ready(if allowed {
            Decision::Allow(String::new())
        } else {
            Decision::NoOpinion("No policy matched.".to_owned())
        }))
    }
}

impl RuleResolver for AbacPolicies {
    fn rules<'a>(&'a self, user: &'a UserInfo, namespace: &'a str) -> BoxFuture<'a, Rules> {
        let mut listed = Rules::default();
        let of_user = self.0.iter().filter(|policy| policy.is_of(user));
        for policy in of_user.filter(|policy| policy.namespace == ALL || policy.namespace == namespace) {
            if !policy.resource.is_empty() {
                listed.resources.push(ResourceRule {
                    verbs: policy.verbs(),
                    groups: vec![policy.api_group.clone()],
                    resources: vec![policy.resource.clone()],
                    names: Vec::new(),
                });
            }
            if !policy.path.is_empty() {
                listed.paths.push(PathRule {
                    verbs: policy.verbs(),
                    paths: vec![policy.path.clone()],
                });
            }
        }
        Box::pin(std::future::ready(listed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authorizer::RequestSelectors;

    fn policies(specs: &[&str]) -> AbacPolicies {
        let line = |spec: &&str| format!(r#"{{"apiVersion":"{VERSION}","kind":"Policy","spec":{{{spec}}}}}"#);
        let lines: Vec<String> = specs.iter().map(line).collect();
        AbacPolicies::parse(&lines.join("\n\n# comment\n")).expect("a good file")
    }

    fn allows(policies: &AbacPolicies, user: &str, group: &str, verb: &str, wanted: AuthorizationRequest<'_>) -> bool {
        let user = &UserInfo {
            name: user.to_owned(),
            groups: vec![group.to_owned()],
            ..UserInfo::default()
        };
        policies.0.iter().any(|policy| {
            policy.allows(&Attributes {
                user,
                verb,
                wanted,
                selectors: RequestSelectors::default(),
            })
        })
    }

    fn pods(namespace: &str) -> AuthorizationRequest<'_> {
        AuthorizationRequest::Resource {
            group: "",
            version: "v1",
            resource: "pods",
            subresource: "log",
            namespace,
            name: "a",
        }
    }

    #[test]
    fn a_line_allows_a_user_or_a_group_what_it_names() {
        let of_user = policies(&[r#""user":"alice","namespace":"n","resource":"pods","readonly":true"#]);
        assert!(allows(&of_user, "alice", "", "get", pods("n")));
        assert!(!allows(&of_user, "alice", "", "delete", pods("n")));
        assert!(!allows(&of_user, "alice", "", "get", pods("m")));
        assert!(!allows(&of_user, "bob", "alice", "get", pods("n")));
        let both = policies(&[r#""user":"alice","group":"dev","namespace":"*","resource":"*","apiGroup":"*""#]);
        assert!(allows(&both, "alice", "dev", "delete", pods("n")));
        assert!(!allows(&both, "alice", "ops", "delete", pods("n")));
        let unmatched = policies(&[r#""namespace":"*","resource":"*""#]);
        assert!(!allows(&unmatched, "alice", "dev", "get", pods("n")));
        let paths = policies(&[
            r#""group":"*","nonResourcePath":"/version*""#,
            r#""user":"m","nonResourcePath":"/m""#,
        ]);
        let anonymous = AuthorizationRequest::Path("/version/x");
        assert!(!allows(
            &paths,
            "system:anonymous",
            "system:unauthenticated",
            "get",
            anonymous
        ));
        assert!(allows(
            &paths,
            "bob",
            AUTHENTICATED,
            "get",
            AuthorizationRequest::Path("/version/x")
        ));
        assert!(!allows(&paths, "bob", "", "get", AuthorizationRequest::Path("/m")));
    }

    #[test]
    fn a_line_without_a_version_allows_what_it_does_not_name() {
        let parse = |line: &str| AbacPolicies::parse(line).expect("a good file");
        let of_user = parse(r#"{"user":"old","resource":"pods"}"#);
        assert!(allows(&of_user, "old", "", "delete", pods("n")));
        assert!(!allows(&of_user, "new", "", "delete", pods("n")));
        assert!(!allows(&of_user, "old", "", "get", AuthorizationRequest::Path("/x")));
        let of_all = parse(r#"{"readonly":true}"#);
        assert!(allows(
            &of_all,
            "a",
            AUTHENTICATED,
            "get",
            AuthorizationRequest::Path("/x")
        ));
        assert!(!allows(&of_all, "a", AUTHENTICATED, "delete", pods("n")));
        assert!(!allows(&of_all, "a", "system:unauthenticated", "get", pods("n")));
    }

    #[test]
    fn a_line_that_is_no_policy_is_named() {
        let check = |text: &str, expected: &str| {
            assert_eq!(
                AbacPolicies::parse(text)
                    .err()
                    .map(|error| error.to_string())
                    .as_deref(),
                Some(expected)
            );
        };
        check(
            "\n{\"kind\": \"Policy\"}",
            "line 2: not a Policy of abac.authorization.kubernetes.io/v1beta1",
        );
        let spec = |spec: &str| format!(r#"{{"apiVersion":"{VERSION}","kind":"Policy","spec":{spec}}}"#);
        check(&spec(r#"{"users":"a"}"#), "line 1: a policy has no field spec.users");
        check(
            &spec(r#"{"readonly":"yes"}"#),
            "line 1: spec.readonly is not true or false",
        );
    }
}
