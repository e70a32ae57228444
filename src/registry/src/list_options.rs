//! From query parameters to what a read is asked for, with kube-apiserver's rules and words.
//!
//! The edge passes the first value of each parameter as it was given; nothing here knows URLs. The order of checks is
//! the reference's: numbers and selectors are decoded first, then the options are held against each other
//! (`ValidateListOptions`), then against the resource, and the resource version is read last.

#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use std::time::Duration;

use trireme_machinery::{
    ApiError, Feature, Features, GroupKind,
    field::{Error, ErrorList, Path},
    go_text::{parse_int, parse_uint, quote},
    selector::{FieldSelector, LabelSelector},
};
use trireme_storage::Revision;

use crate::{
    definition::ResourceDefinition,
    reads::token::Continuation,
    request::{Freshness, ListOptions, Selection, WatchStart},
};

const NANOS_A_SECOND: i64 = 1_000_000_000;

/// The query parameters of lists and watches.
#[derive(Debug, Clone, Copy, Default)]
pub struct ListQuery<'a> {
    /// `limit`
    pub limit: Option<&'a str>,
    /// `continue`
    pub continue_token: Option<&'a str>,
    /// `resourceVersion`
    pub resource_version: Option<&'a str>,
    /// `resourceVersionMatch`
    pub resource_version_match: Option<&'a str>,
    /// `labelSelector`
    pub label_selector: Option<&'a str>,
    /// `fieldSelector`
    pub field_selector: Option<&'a str>,
    /// `timeoutSeconds`
    pub timeout_seconds: Option<&'a str>,
    /// `watch`
    pub watch: Option<&'a str>,
    /// `allowWatchBookmarks`
    pub allow_watch_bookmarks: Option<&'a str>,
    /// `sendInitialEvents`
    pub send_initial_events: Option<&'a str>,
}

/// The options of a watch.
#[derive(Debug, Clone)]
pub struct WatchOptions {
    /// Which objects.
    pub selection: Selection,
    /// From where.
    pub start: WatchStart,
    /// True to send bookmarks.
    pub bookmarks: bool,
    /// True to mark the end of the initial state.
    pub initial_events_end: bool,
    /// `timeoutSeconds`; `None` leaves the choice to the server.
    pub timeout: Option<Duration>,
}

impl ListQuery<'_> {
    /// Reports whether a watch is asked for: anything but no, in Go's sense.
    pub fn is_watch(&self) -> bool {
        truth(self.watch).unwrap_or(false)
    }

    /// The options of a list, for the version at this index.
    pub fn list(&self, info: &ResourceDefinition, version: usize) -> Result<(Selection, ListOptions), ApiError> {
        let decoded = self.decode()?;
        check(self.validate_list())?;
        let selection = decoded.selection(info, version)?;
        let token = self.continue_token.unwrap_or_default();
        let resource_version = self.resource_version.unwrap_or_default();
        if !token.is_empty() && !matches!(resource_version, "" | "0") {
            Continuation::decode(token)?;
            return Err(ApiError::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        let limit = if resource_version == "0" { 0 } else { decoded.limit };
        let freshness = self.list_freshness(limit)?;
        let continue_token = (!token.is_empty()).then(|| token.to_owned());
        Ok((
            selection,
            ListOptions {
                freshness,
                limit,
                continue_token,
            },
        ))
    }

    fn list_freshness(&self, limit: usize) -> Result<Freshness, ApiError> {
        let text = self.resource_version.unwrap_or_default();
        let invalid = |why| ApiError::bad_request(format!("invalid resource version: {why}"));
        let Some(revision) = parse_revision(text).map_err(invalid)? else {
            return Ok(Freshness::Latest);
        };
        Ok(match self.resource_version_match.unwrap_or_default() {
            _ if revision == 0 => Freshness::Any,
            "Exact" => Freshness::Exact(revision),
            // What a limit with a resource version meant before there was a match to say so.
            "" if limit > 0 => Freshness::Exact(revision),
            _ => Freshness::NotOlderThan(revision),
        })
    }

    /// The options of a watch, for the version at this index. Without the feature WatchList no watch asks for the state, though
    /// it may begin with it. One whose path alone says that it is a watch has the options of a list, and follows their rules.
    pub fn watch(
        &self,
        features: Features,
        info: &ResourceDefinition,
        version: usize,
    ) -> Result<WatchOptions, ApiError> {
        let decoded = self.decode()?;
        let has_watch_options = self.is_watch();
        let may_ask = features.has(Feature::WatchList) && has_watch_options;
        check(if has_watch_options {
            self.validate_watch(may_ask)
        } else {
            self.validate_list()
        })?;
        let selection = decoded.selection(info, version)?;
        let start = self.watch_start()?;
        Ok(WatchOptions {
            selection,
            start,
            bookmarks: truth(self.allow_watch_bookmarks).unwrap_or(false),
            initial_events_end: may_ask && matches!(start, WatchStart::State(_)),
            timeout: decoded.timeout_seconds.and_then(watch_time),
        })
    }

    /// The start of a watch.
    ///
    /// # Errors
    /// 400 for a resource version that is none.
    pub fn watch_start(&self) -> Result<WatchStart, ApiError> {
        let text = self.resource_version.unwrap_or_default();
        let revision = parse_revision(text).map_err(ApiError::bad_request)?;
        let state = match revision {
            None => Freshness::Latest,
            Some(0) => Freshness::Any,
            Some(revision) => Freshness::NotOlderThan(revision),
        };
        Ok(match (truth(self.send_initial_events), revision) {
            (Some(true), _) | (None, None | Some(0)) => WatchStart::State(state),
            (Some(false), None | Some(0)) => WatchStart::Now(state),
            (Some(false) | None, Some(revision)) => WatchStart::After(revision),
        })
    }

    fn decode(&self) -> Result<DecodedListOptions, ApiError> {
        let number = |text: Option<&str>| text.map(parse_int).transpose().map_err(ApiError::bad_request);
        let limit = number(self.limit)?.unwrap_or_default();
        let timeout_seconds = number(self.timeout_seconds)?;
        let refused = |error: trireme_machinery::selector::SelectorError| ApiError::bad_request(error.to_string());
        Ok(DecodedListOptions {
            limit: usize::try_from(limit).unwrap_or_default(),
            timeout_seconds,
            labels: LabelSelector::parse(self.label_selector.unwrap_or_default()).map_err(refused)?,
            fields: FieldSelector::parse(self.field_selector.unwrap_or_default()).map_err(refused)?,
        })
    }

    fn validate_list(&self) -> ErrorList {
        let mut errors = ErrorList::new();
        let path = Path::new("resourceVersionMatch");
        let resource_version = self.resource_version.unwrap_or_default();
        let wanted = self.resource_version_match.unwrap_or_default();
        if !wanted.is_empty() {
            if resource_version.is_empty() {
                let why = "resourceVersionMatch is forbidden unless resourceVersion is provided";
                errors.push(Error::forbidden(&path, why));
            }
            if self.continues() {
                errors.push(Error::forbidden(
                    &path,
                    "resourceVersionMatch is forbidden when continue is provided",
                ));
            }
            if !matches!(wanted, "Exact" | "NotOlderThan") {
                errors.push(Error::not_supported(&path, wanted, &["Exact", "NotOlderThan", ""]));
            }
            if wanted == "Exact" && resource_version == "0" {
                let why = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
                errors.push(Error::forbidden(&path, why));
            }
        }
        if self.send_initial_events.is_some() {
            let path = Path::new("sendInitialEvents");
            errors.push(Error::forbidden(&path, "sendInitialEvents is forbidden for list"));
        }
        errors
    }

    fn validate_watch(&self, may_ask_for_state: bool) -> ErrorList {
        let mut errors = ErrorList::new();
        let path = Path::new("resourceVersionMatch");
        let wanted = self.resource_version_match.unwrap_or_default();
        // A watch that does not say where it begins is taken for one that asks for the state first.
        let begins_with_state = matches!(self.resource_version.unwrap_or_default(), "" | "0");
        if may_ask_for_state
            && begins_with_state
            && self.send_initial_events.is_none()
            && wanted.is_empty()
            && self.continues()
        {
            let why = "resourceVersionMatch is forbidden when continue is provided";
            errors.push(Error::forbidden(&path, why));
        }
        if self.send_initial_events.is_some() && wanted != "NotOlderThan" {
            let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            errors.push(Error::forbidden(&path, why));
        }
        if self.send_initial_events.is_some() && !may_ask_for_state {
            let why = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled";
            errors.push(Error::forbidden(&Path::new("sendInitialEvents"), why));
        }
        if !wanted.is_empty() {
            if self.send_initial_events.is_none() {
                let why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
                errors.push(Error::forbidden(&path, why));
            }
            if wanted != "NotOlderThan" {
                errors.push(Error::not_supported(&path, wanted, &["NotOlderThan"]));
            }
            if self.continues() {
                errors.push(Error::forbidden(
                    &path,
                    "resourceVersionMatch is forbidden when continue is provided",
                ));
            }
        }
        errors
    }

    fn continues(&self) -> bool {
        self.continue_token.is_some_and(|token| !token.is_empty())
    }
}

/// The freshness that a GET of one object needs.
pub fn get_freshness(resource_version: Option<&str>) -> Result<Freshness, ApiError> {
    let revision = parse_revision(resource_version.unwrap_or_default()).map_err(ApiError::bad_request)?;
    Ok(match revision {
        None => Freshness::Latest,
        Some(0) => Freshness::Any,
        Some(revision) => Freshness::NotOlderThan(revision),
    })
}

struct DecodedListOptions {
    limit: usize,
    timeout_seconds: Option<i64>,
    labels: LabelSelector,
    fields: FieldSelector,
}

impl DecodedListOptions {
    fn selection(&self, info: &ResourceDefinition, version: usize) -> Result<Selection, ApiError> {
        for term in self.fields.terms() {
            if let Some(why) = refuse_field(info, version, &term.field) {
                return Err(ApiError::bad_request(why));
            }
        }
        Ok(Selection {
            labels: self.labels.clone(),
            fields: self.fields.clone(),
        })
    }
}

/// The reason that a field cannot be selected on, if it cannot.
fn refuse_field(info: &ResourceDefinition, version: usize, field: &str) -> Option<String> {
    let knows_metadata_only = info.selectable.is_empty() && !info.is_custom;
    if field == "metadata.name" || (field == "metadata.namespace" && (info.namespaced || knows_metadata_only)) {
        return None;
    }
    let version = info.versions.get(version).unwrap_or_else(|| info.stored());
    if let Some(why) = info.strategy.refuse_field(&info.kind_in(version), field) {
        return Some(why);
    }
    let may_name = |label: &str| match &version.selectable_labels {
        Some(labels) => labels.iter().any(|known| **known == *label),
        None => true,
    };
    let mut fields = info.selectable.iter().map(|selectable| &*selectable.label);
    if fields.any(|label| label == field && may_name(label)) {
        return None;
    }
    if knows_metadata_only {
        let field = quote(field);
        return Some(format!(
            "{field} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
        ));
    }
    Some(format!("field label not supported: {field}"))
}

fn check(errors: ErrorList) -> Result<(), ApiError> {
    if errors.is_empty() {
        return Ok(());
    }
    let kind = GroupKind {
        group: "meta.k8s.io".into(),
        kind: "ListOptions".into(),
    };
    Err(ApiError::invalid(&kind, "", &errors))
}

/// A Go boolean of a query: `None` if it is not there.
fn truth(text: Option<&str>) -> Option<bool> {
    text.map(|text| text != "0" && !text.eq_ignore_ascii_case("false"))
}

/// A resource version as the store's revision; `None` for the empty string. What is beyond any revision is cut to the
/// highest one.
fn parse_revision(text: &str) -> Result<Option<Revision>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let number = parse_uint(text).map_err(|why| format!("resourceVersion: Invalid value: {}: {why}", quote(text)))?;
    Ok(Some(Revision::try_from(number).unwrap_or(Revision::MAX)))
}

/// The time that `timeoutSeconds` gives a watch: none for 0. As in Go the nanoseconds wrap around, and a watch of less than no time
/// ends at once.
fn watch_time(seconds: i64) -> Option<Duration> {
    match seconds.wrapping_mul(NANOS_A_SECOND) {
        0 => None,
        nanos => Some(Duration::from_nanos(u64::try_from(nanos).unwrap_or_default())),
    }
}

#[cfg(test)]
mod tests;
