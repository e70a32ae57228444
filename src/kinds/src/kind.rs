//! The part of a resource that its kind declares in its own file.

use std::sync::Arc;

use serde_json::Value;
use trireme_machinery::GroupVersion;
use trireme_registry::{
    Column, Conversion, SelectableField, SideEffects, Strategy, TimeToLive, definition::ScalePaths,
};

use crate::columns;

/// A kind's own parts; the module of each kind makes one.
pub(crate) struct Kind {
    /// The row of the resource table that it adds to.
    pub(crate) group: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) strategy: Arc<dyn Strategy>,
    pub(crate) columns: Arc<[Column]>,
    /// In place of the fields of the same label that the resource table lists.
    pub(crate) selectable: Vec<SelectableField>,
    pub(crate) row_conditions: Option<fn(&Value) -> Value>,
    pub(crate) hide_metadata: Option<fn(&mut Value)>,
    pub(crate) scale: Option<ScalePaths>,
    pub(crate) side_effects: Option<Arc<dyn SideEffects>>,
    pub(crate) ttl: Option<TimeToLive>,
    /// Of the versions that differ from the stored one by more than their names.
    pub(crate) conversions: Vec<(GroupVersion, Arc<dyn Conversion>)>,
    /// The `Warning` that every request for the kind gets.
    pub(crate) deprecation: Option<&'static str>,
}

impl Kind {
    /// The kind of a resource with this behaviour, the columns that kinds without their own have, and nothing else.
    pub(crate) fn new(group: &'static str, plural: &'static str, strategy: impl Strategy) -> Self {
        Self {
            group,
            plural,
            strategy: Arc::new(strategy),
            columns: [columns::name(), columns::created_at()].into(),
            selectable: Vec::new(),
            row_conditions: None,
            hide_metadata: None,
            scale: None,
            side_effects: None,
            ttl: None,
            conversions: Vec::new(),
            deprecation: None,
        }
    }

    /// With these columns.
    pub(crate) fn columns(mut self, columns: Vec<Column>) -> Self {
        self.columns = columns.into();
        self
    }

    /// With these selectable fields in place of what stands at their paths.
    pub(crate) fn selectable(mut self, selectable: Vec<SelectableField>) -> Self {
        self.selectable = selectable;
        self
    }

    /// With conditions of a Table's rows.
    pub(crate) fn row_conditions(mut self, conditions: fn(&Value) -> Value) -> Self {
        self.row_conditions = Some(conditions);
        self
    }

    /// With metadata that only whole objects show.
    pub(crate) fn hide_metadata(mut self, hide: fn(&mut Value)) -> Self {
        self.hide_metadata = Some(hide);
        self
    }

    /// With a version that differs from the stored one.
    pub(crate) fn conversion(mut self, version: GroupVersion, conversion: impl Conversion + 'static) -> Self {
        self.conversions.push((version, Arc::new(conversion)));
        self
    }

    /// With a `Warning` that clients are to leave the kind.
    pub(crate) fn deprecation(mut self, warning: &'static str) -> Self {
        self.deprecation = Some(warning);
        self
    }

    /// With work in or beside the store that goes with a write.
    pub(crate) fn side_effects(mut self, side_effects: impl SideEffects) -> Self {
        self.side_effects = Some(Arc::new(side_effects));
        self
    }

    /// With a scale subresource.
    pub(crate) fn scale(mut self, scale: ScalePaths) -> Self {
        self.scale = Some(scale);
        self
    }
}

/// A selectable field whose value is not simply what stands at its path, with the parts of the object that it is read
/// from.
pub(crate) fn selectable(label: &str, parts: &[&str], read: fn(&Value) -> String) -> SelectableField {
    SelectableField {
        label: label.into(),
        parts: parts.iter().map(|&part| part.into()).collect(),
        read: Arc::new(read),
        indexed: false,
    }
}
