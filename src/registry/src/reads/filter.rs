//! The objects that a list or watch is about: the range to read, the topic to subscribe to, the filter.

use std::{
    ops::{Bound, RangeBounds as _},
    sync::Arc,
};

use trireme_machinery::selector::LabelSelector;

use crate::{
    definition::{Conversion, ResourceDefinition},
    item::{Item, ItemKey},
    request::{Selection, Target},
    selectable::SelectableFields,
    stored,
    watch_cache::{FieldValue, Fingerprint, IndexHints, Topic},
};

/// The part of the key space that can match.
#[derive(Debug, Clone, PartialEq, Eq)]
enum FilterScope {
    All,
    Namespace(Arc<str>),
    Object(ItemKey),
}

#[derive(Debug, Clone)]
enum SelectedField {
    Name,
    Namespace,
    Selectable(usize),
    /// Not a field of the resource: reads as empty.
    Unknown,
}

#[derive(Debug, Clone)]
struct Term {
    place: SelectedField,
    value: Box<str>,
    negated: bool,
}

/// The form of an object whose labels and fields are selected by.
#[derive(Clone)]
enum SelectedForm {
    /// The object as it is cached.
    Cached,
    /// The version of the request, whose schema has other defaults than the stored one's.
    Served {
        conversion: Arc<dyn Conversion>,
        fields: SelectableFields,
    },
    /// The version of the request, which only the resource's converter can make.
    Converted,
}

/// A selection, made ready to be held against many objects.
#[derive(Clone)]
pub(crate) struct Filter {
    scope: FilterScope,
    /// The namespace of the request itself, which tokens are relative to.
    namespace: Option<Arc<str>>,
    labels: LabelSelector,
    /// The fingerprint that the labels of every selected object have.
    fingerprint: Fingerprint,
    terms: Box<[Term]>,
    form: SelectedForm,
    topic: Topic,
}

impl Filter {
    pub(crate) fn new(info: &ResourceDefinition, target: &Target, selection: &Selection) -> Self {
        let knows = |field: &str| info.selectable.iter().any(|selectable| &*selectable.label == field);
        let place = |field: &str| match field {
            "metadata.name" => SelectedField::Name,
            // Some kinds know the name by this label too.
            "name" if knows("name") => SelectedField::Name,
            "metadata.namespace" => SelectedField::Namespace,
            other => {
                let known = info
                    .selectable
                    .iter()
                    .position(|selectable| &*selectable.label == other);
                known.map_or(SelectedField::Unknown, SelectedField::Selectable)
            }
        };
        let terms = selection.fields.terms().iter();
        let terms: Box<[Term]> = terms
            .map(|term| Term {
                place: place(&term.field),
                value: term.value.as_str().into(),
                negated: term.negated,
            })
            .collect();
        let own_namespace = (info.namespaced && !target.namespace.is_empty()).then_some(target.namespace.as_str());
        let scope = scope(info, target, selection, own_namespace);
        let form = form(info, target, selection, &terms);
        // The labels of cached objects say nothing about those of converted ones.
        let fingerprint = match form {
            SelectedForm::Converted => Fingerprint::required_by(&LabelSelector::default()),
            SelectedForm::Cached | SelectedForm::Served { .. } => Fingerprint::required_by(&selection.labels),
        };
        Self {
            topic: topic(info, &scope, &terms),
            scope,
            namespace: own_namespace.map(Arc::from),
            labels: selection.labels.clone(),
            fingerprint,
            terms,
            form,
        }
    }

    /// Reports whether the object is selected; where [converted objects are](Self::selects_converted), whether it may be.
    pub(crate) fn matches(&self, item: &Item) -> bool {
        let within = match &self.scope {
            FilterScope::All => true,
            FilterScope::Namespace(namespace) => item.namespace() == &**namespace,
            FilterScope::Object(key) => item.key == *key,
        };
        within
            && match &self.form {
                SelectedForm::Cached => self.matches_converted(item),
                SelectedForm::Served { conversion, fields } => {
                    self.labels_match(item) && self.matches_served(item, &**conversion, fields)
                }
                SelectedForm::Converted => {
                    let mut of_key = self.terms.iter().filter(|term| term.is_of_key());
                    of_key.all(|term| term.matches(item, &item.fields))
                }
            }
    }

    /// Reports whether labels and fields are selected as the resource's converter shows them.
    pub(crate) fn selects_converted(&self) -> bool {
        matches!(self.form, SelectedForm::Converted)
    }

    /// Reports whether the object is selected, if it [may be](Self::matches) and is in the version of the request.
    pub(crate) fn matches_converted(&self, item: &Item) -> bool {
        self.labels_match(item) && self.terms.iter().all(|term| term.matches(item, &item.fields))
    }

    fn matches_served(&self, item: &Item, conversion: &dyn Conversion, fields: &SelectableFields) -> bool {
        let mut object = stored::parse(&item.bytes).unwrap_or_default();
        conversion.to_served(&mut object);
        let values = fields.values(&object);
        self.terms.iter().all(|term| term.matches(item, &values))
    }

    /// Reports whether an object with this key may be selected.
    pub(crate) fn has_key(&self, key: &str) -> bool {
        self.bounds().contains(&key.to_owned())
    }

    fn labels_match(&self, item: &Item) -> bool {
        self.labels.is_everything() || self.labels.matches_with(|key| item.label(key))
    }

    /// Reports whether everything in the namespace (or everywhere) is selected.
    pub(crate) fn selects_all(&self) -> bool {
        self.labels.is_everything() && self.terms.is_empty()
    }

    /// The topic to listen to.
    pub(crate) fn topic(&self) -> &Topic {
        &self.topic
    }

    /// Facts that hold for all selected objects.
    pub(crate) fn wanted(&self) -> IndexHints<'_> {
        let field = match &self.topic {
            Topic::Field { field, value } => Some(FieldValue { field: *field, value }),
            Topic::All | Topic::Namespace(_) | Topic::Object(_) => None,
        };
        IndexHints {
            field,
            labels: self.fingerprint,
        }
    }

    /// The keys that can match, as bounds of a range of the index.
    pub(crate) fn bounds(&self) -> (Bound<String>, Bound<String>) {
        match &self.scope {
            FilterScope::All => (Bound::Unbounded, Bound::Unbounded),
            FilterScope::Namespace(namespace) => namespace_bounds(namespace),
            FilterScope::Object(key) => (Bound::Included(key.to_string()), Bound::Included(key.to_string())),
        }
    }

    /// As [`bounds`](Self::bounds), from a key on that is relative to the collection.
    pub(crate) fn bounds_from(&self, start: Option<&str>) -> (Bound<String>, Bound<String>) {
        let (from, to) = self.bounds();
        match start {
            Some(start) => (later(from, format!("{}{start}", self.collection_prefix())), to),
            None => (from, to),
        }
    }

    /// The common start of all keys that the URL names: `namespace/` or nothing. Continue tokens are relative to it.
    pub(crate) fn collection_prefix(&self) -> String {
        self.namespace
            .as_deref()
            .map(|namespace| format!("{namespace}/"))
            .unwrap_or_default()
    }
}

/// The later of a lower bound and a key that is included.
fn later(from: Bound<String>, start: String) -> Bound<String> {
    match from {
        Bound::Included(from) | Bound::Excluded(from) if from > start => Bound::Included(from),
        _ => Bound::Included(start),
    }
}

/// All keys that start with `namespace/`; `0` is the character after the slash.
fn namespace_bounds(namespace: &str) -> (Bound<String>, Bound<String>) {
    (
        Bound::Included(format!("{namespace}/")),
        Bound::Excluded(format!("{namespace}0")),
    )
}

fn scope(
    info: &ResourceDefinition,
    target: &Target,
    selection: &Selection,
    own_namespace: Option<&str>,
) -> FilterScope {
    let selected_name = selection.fields.requires_exact_match("metadata.name");
    let name = if target.name.is_empty() {
        selected_name
    } else {
        Some(target.name.as_str())
    };
    if !info.namespaced {
        return name.map_or(FilterScope::All, |name| FilterScope::Object(Arc::from(name)));
    }
    let namespace = own_namespace.or_else(|| selection.fields.requires_exact_match("metadata.namespace"));
    match (namespace, name) {
        (None, _) => FilterScope::All,
        (Some(namespace), None) => FilterScope::Namespace(Arc::from(namespace)),
        (Some(namespace), Some(name)) => FilterScope::Object(Arc::from(format!("{namespace}/{name}"))),
    }
}

fn topic(info: &ResourceDefinition, scope: &FilterScope, terms: &[Term]) -> Topic {
    if let FilterScope::Object(key) = scope {
        return Topic::Object(key.clone());
    }
    let indexed = terms
        .iter()
        .filter(|term| !term.negated)
        .find_map(|term| match term.place {
            SelectedField::Selectable(field)
                if info.selectable.get(field).is_some_and(|selectable| selectable.indexed) =>
            {
                Some(Topic::Field {
                    field,
                    value: term.value.clone(),
                })
            }
            _ => None,
        });
    indexed.unwrap_or_else(|| match scope {
        FilterScope::Namespace(namespace) => Topic::Namespace(namespace.clone()),
        FilterScope::All | FilterScope::Object(_) => Topic::All,
    })
}

/// The form that is selected by: another than the cached one where that may make a difference.
fn form(info: &ResourceDefinition, target: &Target, selection: &Selection, terms: &[Term]) -> SelectedForm {
    let has_fields = terms.iter().any(|term| !term.is_of_key());
    if info.converter.is_some() {
        let is_of_key = selection.labels.is_everything() && !has_fields;
        return if is_of_key {
            SelectedForm::Cached
        } else {
            SelectedForm::Converted
        };
    }
    let version = info
        .versions
        .get(target.version)
        .filter(|_| info.is_custom && has_fields);
    match version.and_then(|version| version.conversion.clone()) {
        None => SelectedForm::Cached,
        Some(conversion) => SelectedForm::Served {
            conversion,
            fields: info.selectable.clone(),
        },
    }
}

impl Term {
    /// Reports whether it is about what the key of an object says, which is the same in all versions.
    fn is_of_key(&self) -> bool {
        matches!(self.place, SelectedField::Name | SelectedField::Namespace)
    }

    fn matches(&self, item: &Item, fields: &[Box<str>]) -> bool {
        let value = match self.place {
            SelectedField::Name => item.name(),
            SelectedField::Namespace => item.namespace(),
            SelectedField::Selectable(field) => fields.get(field).map(|value| &**value).unwrap_or_default(),
            SelectedField::Unknown => "",
        };
        (value == &*self.value) != self.negated
    }
}
