//! Types as data: every struct that a kind is made of, with the facts that Kubernetes' Go sources
//! and markers say of each field.

use std::{collections::HashMap, sync::OnceLock};

use serde_json::Value;

use super::empty::voidable_fields;

/// All types of a set of kinds. Types refer to each other by [`TypeId`], so recursion is fine.
#[derive(Debug, Default)]
pub struct TypeTable {
    types: Vec<TypeDef>,
    plans: Vec<TypePlan>,
    by_name: HashMap<String, TypeId>,
    go_types: HashMap<(TypeId, String), String>,
    embedded: HashMap<(TypeId, String), String>,
    /// The result of [`voidable_fields`], once all types are defined.
    voidable: OnceLock<Vec<Vec<usize>>>,
}

/// Properties of a type that each write needs, worked out once when the type is defined.
#[derive(Debug, Default)]
pub(super) struct TypePlan {
    /// Positions of the fields, sorted by JSON name.
    sorted: Vec<usize>,
    /// Positions of the fields that are written even if absent.
    pub(super) always: Vec<usize>,
    /// Positions of the fields that have a default or hold something that may have one.
    pub(super) fillable: Vec<usize>,
    /// The fields that protobuf has, in the order in which they are written.
    wire_order: Vec<WireField>,
}

/// A field on the way into its message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WireField {
    /// The tags on the way to the field, a byte each, outermost first and followed by zeroes.
    pub(crate) path: u32,
    /// The number of them.
    pub(crate) tags: u32,
    /// The field's position in its type.
    pub(crate) position: usize,
}

/// Names a type within its table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TypeId(u32);

/// A struct type.
#[derive(Debug, Clone, Default)]
pub struct TypeDef {
    /// The OpenAPI name: `io.k8s.api.core.v1.PodSpec`.
    pub name: String,
    /// Its fields in declaration order (the order of protobuf tags).
    pub fields: Vec<Field>,
    /// True if an apply replaces the struct as a whole (`+structType=atomic`).
    pub atomic: bool,
}

/// A field of a struct.
#[derive(Debug, Clone)]
pub struct Field {
    /// The JSON name.
    pub name: String,
    /// The shape of its value.
    pub shape: Shape,
    /// The treatment of its zero value.
    pub presence: Presence,
    /// True if OpenAPI lists it as required.
    pub required: bool,
    /// The value that an absent field takes when the object is created or read (`+default`, `SetDefaults_…`), where
    /// it does not depend on other fields.
    pub default: Option<Value>,
    /// The treatment by a strategic merge patch.
    pub patch: PatchStrategy,
    /// Protobuf tag, 0 if unknown. Where Go embeds a struct whose fields JSON shows inline, the tags on the way into it,
    /// a byte each, outermost first: `0x0201` is tag 1 of the struct under tag 2.
    pub tag: u32,
}

/// The form that Go's encoding gives to a field that holds its type's zero value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// A pointer with `omitempty`: a zero that was given is kept, an absent one stays absent.
    Pointer,
    /// A plain value with `omitempty`: zero (`""`, `0`, `false`, `[]`, `{}`) is the same as absent and is left out.
    /// A nested struct is left out when the client gave none and its type is not [`Presence::Always`].
    OmitZero,
    /// A plain value without `omitempty`: always written (`""`, `0`, `false`, `null` for lists and maps, `{}` for
    /// structs).
    Always,
    /// A pointer without `omitempty`: `null` is written when there is none.
    Nullable,
}

/// The shape of a field, list item or map value.
#[derive(Debug, Clone, PartialEq)]
pub enum Shape {
    /// A struct of the table.
    Struct(TypeId),
    /// Text.
    String(StringFormat),
    /// `true` or `false`.
    Boolean,
    /// A 32-bit integer.
    Int32,
    /// A 64-bit integer.
    Int64,
    /// A floating-point number.
    Number,
    /// A list.
    List {
        /// Its items.
        item: Box<Shape>,
        /// The merge rule of apply.
        list_type: ListType,
    },
    /// A map with string keys.
    Map {
        /// Its values.
        value: Box<Shape>,
        /// True if apply replaces the map as a whole (`+mapType=atomic`).
        atomic: bool,
    },
    /// `resource.Quantity`: a string or number, kept in canonical form.
    Quantity,
    /// `intstr.IntOrString`.
    IntOrString,
    /// Any JSON (`RawExtension`, `JSON`, `FieldsV1`): kept as it came.
    Any,
}

/// The format of a string field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StringFormat {
    /// Any text.
    Plain,
    /// `metav1.Time`: RFC 3339, kept in UTC with whole seconds.
    Time,
    /// `metav1.MicroTime`: RFC 3339 with six decimals.
    MicroTime,
    /// `metav1.Duration`: Go's duration format.
    Duration,
    /// `[]byte`: base64.
    Bytes,
}

/// The merge rule of apply for a list (`+listType`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListType {
    /// Replaced as a whole.
    Atomic,
    /// A set of scalars.
    Set,
    /// A map of items under these key fields (`+listMapKey`).
    Map(Vec<String>),
}

/// The treatment of a field by a strategic merge patch (`patchStrategy`, `patchMergeKey`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PatchStrategy {
    /// Lists are merged instead of replaced.
    pub merge: bool,
    /// The struct is replaced as a whole instead of merged.
    pub replace: bool,
    /// The struct's other keys are dropped unless the patch names them (`retainKeys`).
    pub retain_keys: bool,
    /// The field by which items of a merged list of structs are matched.
    pub merge_key: Option<String>,
}

impl TypeId {
    /// The place of the type in its table.
    pub(super) fn position(self) -> usize {
        self.0 as usize
    }
}

impl TypeTable {
    /// Reserves the id of the type called `name`, which may be filled later by [`TypeTable::define`].
    pub fn declare(&mut self, name: &str) -> TypeId {
        if let Some(id) = self.by_name.get(name) {
            return *id;
        }
        let id = TypeId(u32::try_from(self.types.len()).expect("fewer than 2^32 types"));
        self.types.push(TypeDef {
            name: name.to_owned(),
            ..TypeDef::default()
        });
        self.plans.push(TypePlan::default());
        self.by_name.insert(name.to_owned(), id);
        id
    }

    /// Fills in a type.
    pub fn define(&mut self, definition: TypeDef) -> TypeId {
        let id = self.declare(&definition.name);
        let plan = TypePlan::of(&definition);
        self.voidable.take();
        if let (Some(slot), Some(plan_slot)) = (self.types.get_mut(id.0 as usize), self.plans.get_mut(id.0 as usize)) {
            *slot = definition;
            *plan_slot = plan;
        }
        id
    }

    /// Says what Go calls the type of a field where the shape does not show it, such as `types.UID` for `uid` or
    /// `[]v1.FinalizerName` for `finalizers`; only messages about values of a wrong type show it.
    pub fn name_go_type(&mut self, id: TypeId, field: &str, go_type: &str) {
        self.go_types.insert((id, field.to_owned()), go_type.to_owned());
    }

    /// The names that [`TypeTable::name_go_type`] gave to a field.
    pub(super) fn go_type_of(&self, id: TypeId, field: &str) -> Option<&str> {
        self.go_types.get(&(id, field.to_owned())).map(String::as_str)
    }

    /// Says that Go declares a field in a struct that is embedded in its type, such as `VolumeSource` for the `secret` of a
    /// volume; only messages about values of a wrong type show it.
    pub fn name_embedded(&mut self, id: TypeId, field: &str, embedded: &str) {
        self.embedded.insert((id, field.to_owned()), embedded.to_owned());
    }

    /// The name that [`TypeTable::name_embedded`] gave for a field.
    pub(super) fn embedded_of(&self, id: TypeId, field: &str) -> Option<&str> {
        self.embedded.get(&(id, field.to_owned())).map(String::as_str)
    }

    /// Positions of the fields of a type that are lists or maps which are always written, or may hold such.
    pub(super) fn voidable(&self, id: TypeId) -> &[usize] {
        let all = self.voidable.get_or_init(|| voidable_fields(self));
        all.get(id.position()).map(Vec::as_slice).unwrap_or_default()
    }

    pub(super) fn plan(&self, id: TypeId) -> &TypePlan {
        self.plans
            .get(id.0 as usize)
            .expect("type ids are only made by their own table")
    }

    /// The fields of a type that protobuf has, in the order in which they are written.
    pub(crate) fn wire_order(&self, id: TypeId) -> &[WireField] {
        &self.plan(id).wire_order
    }

    /// Finds many fields of a type, which is quickest if they come in the order of their names.
    pub(crate) fn seeker(&self, id: TypeId) -> FieldSeeker<'_> {
        FieldSeeker {
            definition: self.get(id),
            plan: self.plan(id),
            cursor: 0,
        }
    }

    /// Finds a field of a type by its JSON name, by binary search.
    pub fn field(&self, id: TypeId, name: &str) -> Option<&Field> {
        self.plan(id).seek(self.get(id), name, &mut 0)
    }

    /// Finds a type by its OpenAPI name.
    pub fn find(&self, name: &str) -> Option<TypeId> {
        self.by_name.get(name).copied()
    }

    /// A type of this table.
    ///
    /// # Panics
    /// If the id is of another table.
    pub fn get(&self, id: TypeId) -> &TypeDef {
        self.types
            .get(id.0 as usize)
            .expect("type ids are only made by their own table")
    }

    /// All types, in the order in which they were declared.
    pub fn iter(&self) -> impl Iterator<Item = &TypeDef> {
        self.types.iter()
    }
}

/// Finds the fields of a type one after the other.
pub(crate) struct FieldSeeker<'t> {
    definition: &'t TypeDef,
    plan: &'t TypePlan,
    cursor: usize,
}

impl FieldSeeker<'_> {
    /// The position of a field in its type.
    pub(crate) fn position(&mut self, name: &str) -> Option<usize> {
        let (definition, plan) = (self.definition, self.plan);
        let ahead = plan.seek_position(definition, name, &mut self.cursor);
        ahead.or_else(|| {
            self.cursor = 0;
            plan.seek_position(definition, name, &mut self.cursor)
        })
    }
}

const BITS_A_TAG: u32 = 8;

impl WireField {
    fn of(field: &Field, position: usize) -> Self {
        let unused = field.tag.leading_zeros() / BITS_A_TAG * BITS_A_TAG;
        Self {
            path: field.tag << unused,
            tags: (u32::BITS - unused) / BITS_A_TAG,
            position,
        }
    }

    /// The outermost tag.
    pub(crate) fn outermost(self) -> u32 {
        self.path >> (u32::BITS - BITS_A_TAG)
    }

    /// The field as the message under its outermost tag has it.
    pub(crate) fn within(self) -> Self {
        Self {
            path: self.path << BITS_A_TAG,
            tags: self.tags - 1,
            ..self
        }
    }
}

impl TypePlan {
    fn of(definition: &TypeDef) -> Self {
        let fields = || definition.fields.iter().enumerate();
        let mut sorted: Vec<(&str, usize)> = fields().map(|(at, field)| (field.name.as_str(), at)).collect();
        sorted.sort_unstable();
        let tagged = fields().filter(|(_, field)| field.tag != 0);
        let mut wire_order: Vec<WireField> = tagged.map(|(at, field)| WireField::of(field, at)).collect();
        wire_order.sort_unstable_by_key(|field| field.path);
        Self {
            wire_order,
            sorted: sorted.into_iter().map(|(_, at)| at).collect(),
            always: fields()
                .filter(|(_, field)| matches!(field.presence, Presence::Always | Presence::Nullable))
                .map(|(at, _)| at)
                .collect(),
            fillable: fields()
                .filter(|(_, field)| field.default.is_some() || may_hold_defaults(&field.shape))
                .map(|(at, _)| at)
                .collect(),
        }
    }

    /// Finds the field called `name` at or after `cursor`, which is then moved past it: keys that come sorted make
    /// each search shorter than the one before.
    pub(super) fn seek<'t>(&self, definition: &'t TypeDef, name: &str, cursor: &mut usize) -> Option<&'t Field> {
        let position = self.seek_position(definition, name, cursor)?;
        definition.fields.get(position)
    }

    fn seek_position(&self, definition: &TypeDef, name: &str, cursor: &mut usize) -> Option<usize> {
        let rest = self.sorted.get(*cursor..)?;
        let field_at = |at: &usize| definition.fields.get(*at);
        let ahead = rest.partition_point(|at| field_at(at).is_some_and(|field| field.name.as_str() < name));
        *cursor += ahead;
        let found = rest.get(ahead).copied();
        let position = found.filter(|at| field_at(at).is_some_and(|field| field.name == name))?;
        *cursor += 1;
        Some(position)
    }
}

fn may_hold_defaults(shape: &Shape) -> bool {
    match shape {
        Shape::Struct(_) => true,
        Shape::List { item, .. } => may_hold_defaults(item),
        Shape::Map { value, .. } => **value == Shape::Quantity || may_hold_defaults(value),
        _ => false,
    }
}

impl TypeDef {
    /// Finds a field by its JSON name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// The type's name without its package: `PodSpec`.
    pub fn short_name(&self) -> &str {
        self.name.rsplit('.').next().unwrap_or(&self.name)
    }

    /// The type as Go's messages name it: `v1.PodSpec`.
    pub fn go_name(&self) -> &str {
        let mut dots = self.name.rmatch_indices('.').map(|(at, _)| at + 1);
        dots.nth(1).and_then(|at| self.name.get(at..)).unwrap_or(&self.name)
    }
}
