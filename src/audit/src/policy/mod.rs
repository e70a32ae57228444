//! The policy: at which level a request is recorded, by the first rule that matches it.

mod document;
mod validation;

use std::path::Path;

use crate::level::{AuditLevel, Stages};

/// The rules of `--audit-policy-file`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditPolicy {
    rules: Vec<AuditRule>,
    omit_stages: Stages,
    omit_managed_fields: bool,
}

/// The reason that there is no policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuditPolicyError {
    /// The file cannot be read.
    #[error("failed to read file path {0}: {1}")]
    File(String, String),
    /// Its contents are no policy; in kube-apiserver's words.
    #[error("{0}: from file {1}")]
    Content(String, String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct AuditRule {
    config: RequestAuditConfig,
    users: Vec<String>,
    user_groups: Vec<String>,
    verbs: Vec<String>,
    resources: Vec<GroupResources>,
    namespaces: Vec<String>,
    non_resource_urls: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct GroupResources {
    group: String,
    resources: Vec<String>,
    resource_names: Vec<String>,
}

/// The record that the policy wants of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestAuditConfig {
    /// The level of the record.
    pub level: AuditLevel,
    /// The stages at which it is not.
    pub omit_stages: Stages,
    /// True if managed fields are left out of bodies.
    pub omit_managed_fields: bool,
}

/// A request as rules see it.
#[derive(Debug, Clone, Copy)]
pub struct AuditedRequest<'a> {
    /// The name of the authenticated user, whichever user is impersonated; empty before there is one.
    pub user: &'a str,
    /// The groups of the same.
    pub groups: &'a [String],
    /// The verb.
    pub verb: &'a str,
    /// The object or path that it is about.
    pub subject: AuditedSubject<'a>,
}

/// The object or path that a request is about.
#[derive(Debug, Clone, Copy)]
pub enum AuditedSubject<'a> {
    /// Objects.
    Resource {
        /// The API group; empty for the core.
        group: &'a str,
        /// The resource.
        resource: &'a str,
        /// The subresource; empty for the object itself.
        subresource: &'a str,
        /// The namespace; empty without one.
        namespace: &'a str,
        /// The name; empty for collections.
        name: &'a str,
    },
    /// Any other path.
    Path(&'a str),
}

impl AuditPolicy {
    /// Reads the file.
    ///
    /// # Errors
    /// If there is none, or no policy in it.
    pub fn load(path: &Path) -> Result<Self, AuditPolicyError> {
        let shown = path.display().to_string();
        let text = std::fs::read(path).map_err(|error| {
            let quoted = trireme_machinery::go_text::quote(&shown);
            AuditPolicyError::File(quoted, error.to_string())
        })?;
        Self::parse(&text).map_err(|why| AuditPolicyError::Content(why, shown))
    }

    /// Reads a policy in YAML or JSON.
    ///
    /// # Errors
    /// The reason, in kube-apiserver's words.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        let document = document::read(text)?;
        validation::validate_policy(&document)?;
        Ok(document.into_policy())
    }

    /// Finds out what is recorded of a request.
    pub fn evaluate(&self, request: &AuditedRequest<'_>) -> RequestAuditConfig {
        let rule = self.rules.iter().find(|rule| rule.matches(request));
        rule.map_or(
            RequestAuditConfig {
                level: AuditLevel::None,
                omit_stages: self.omit_stages,
                omit_managed_fields: self.omit_managed_fields,
            },
            |rule| rule.config,
        )
    }
}

impl AuditRule {
    fn matches(&self, request: &AuditedRequest<'_>) -> bool {
        let in_group = || request.groups.iter().any(|group| self.user_groups.contains(group));
        (self.users.is_empty() || has(&self.users, request.user))
            && (self.user_groups.is_empty() || in_group())
            && (self.verbs.is_empty() || has(&self.verbs, request.verb))
            && self.matches_subject(&request.subject)
    }

    fn matches_subject(&self, subject: &AuditedSubject<'_>) -> bool {
        let is_about_resources = !self.namespaces.is_empty() || !self.resources.is_empty();
        match *subject {
            AuditedSubject::Path(_) if is_about_resources => false,
            AuditedSubject::Path(path) => {
                let urls = &self.non_resource_urls;
                urls.is_empty() || urls.iter().any(|url| path_matches(path, url))
            }
            AuditedSubject::Resource { .. } if !is_about_resources => self.non_resource_urls.is_empty(),
            AuditedSubject::Resource {
                group,
                resource,
                subresource,
                namespace,
                name,
            } => {
                (self.namespaces.is_empty() || has(&self.namespaces, namespace))
                    && (self.resources.is_empty()
                        || self
                            .resources
                            .iter()
                            .any(|these| these.matches(group, resource, subresource, name)))
            }
        }
    }
}

impl GroupResources {
    fn matches(&self, group: &str, resource: &str, subresource: &str, name: &str) -> bool {
        if self.group != group && self.group != "*" {
            return false;
        }
        let is_named = self.resource_names.is_empty() || has(&self.resource_names, name);
        let matches = |pattern: &String| resource_matches(pattern, resource, subresource);
        self.resources.is_empty() || is_named && self.resources.iter().any(matches)
    }
}

/// `pods`, `pods/log`, `pods/*` (the pods, too), `*/scale`, or `*` for all there are.
fn resource_matches(pattern: &str, resource: &str, subresource: &str) -> bool {
    match pattern.split_once('/') {
        None => pattern == "*" || subresource.is_empty() && pattern == resource,
        Some((of, "*")) if of == resource => true,
        Some((of, part)) => !subresource.is_empty() && part == subresource && (of == "*" || of == resource),
    }
}

fn path_matches(path: &str, url: &str) -> bool {
    match url.strip_suffix('*') {
        Some(prefix) => path.starts_with(prefix),
        None => path == url,
    }
}

fn has(texts: &[String], text: &str) -> bool {
    texts.iter().any(|one| one == text)
}

#[cfg(test)]
mod tests;
