//! The variables of expressions, and the fields of their types.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use trireme_machinery::schema::{Shape, StringFormat, TypeId, TypeTable};

use crate::{
    syntax::{escape_field, is_reserved},
    types::{ListSemantics, Type},
};

/// The variables, types and functions of an expression's place.
#[derive(Debug, Clone)]
pub struct Environment {
    /// Differs from that of every environment that was made otherwise.
    id: u64,
    variables: HashMap<String, Type>,
    objects: HashMap<String, ObjectType>,
    patch_types: bool,
    bindings: bool,
    unescapes_keys: bool,
}

/// A type with fields.
#[derive(Debug, Clone)]
struct ObjectType {
    fields: HashMap<String, Type>,
    /// A field that is null is absent.
    null_is_absent: bool,
}

/// The variables of an admission policy's expressions beside the request and its objects.
#[derive(Debug, Clone, Copy, Default)]
pub struct AdmissionVariables {
    /// `params`
    pub params: bool,
    /// `authorizer` and `authorizer.requestResource`
    pub authorizer: bool,
    /// `Object`, `JSONPatch` and `jsonpatch`
    pub patch_types: bool,
}

/// The properties of devices that depend on features.
#[derive(Debug, Clone, Copy, Default)]
pub struct DeviceVariables {
    /// `device.allowMultipleAllocations`
    pub multiple_allocations: bool,
    /// Attributes may be lists.
    pub list_attributes: bool,
}

const USER_INFO: &str = "kubernetes.UserInfo";
const REQUEST: &str = "kubernetes.AdmissionRequest";
const NAMESPACE: &str = "kubernetes.Namespace";
pub(crate) const VARIABLES: &str = "kubernetes.variables";
const DEVICE: &str = "kubernetes.DRADevice";

/// Types with fields, as `k8s.io/apiserver/pkg/admission/plugin/cel` builds them.
const ADMISSION_TYPES: &[(&str, &str)] = &[
    ("kubernetes.GroupVersionKind", "group:string version:string kind:string"),
    (
        "kubernetes.GroupVersionResource",
        "group:string version:string resource:string",
    ),
    (
        USER_INFO,
        "username:string uid:string groups:list(string) extra:map(string,list(string))",
    ),
    (
        REQUEST,
        "kind:kubernetes.GroupVersionKind resource:kubernetes.GroupVersionResource subResource:string requestKind:kubernetes.GroupVersionKind requestResource:kubernetes.GroupVersionResource requestSubResource:string name:string namespace:string operation:string userInfo:kubernetes.UserInfo dryRun:bool options:dyn",
    ),
    ("kubernetes.NamespaceSpec", "finalizers:list(string)"),
    (
        "kubernetes.NamespaceCondition",
        "status:string type:string lastTransitionTime:timestamp message:string reason:string",
    ),
    (
        "kubernetes.NamespaceStatus",
        "conditions:list(kubernetes.NamespaceCondition) phase:string",
    ),
    (
        "kubernetes.NamespaceMetadata",
        "name:string generateName:string namespace:string labels:map(string,string) annotations:map(string,string) UID:string creationTimestamp:timestamp deletionGracePeriodSeconds:int deletionTimestamp:timestamp generation:int resourceVersion:string finalizers:list(string)",
    ),
    (
        NAMESPACE,
        "metadata:kubernetes.NamespaceMetadata spec:kubernetes.NamespaceSpec status:kubernetes.NamespaceStatus",
    ),
];
const PATCH_TYPES: &[(&str, &str)] = &[("JSONPatch", "op:string path:string from:string value:dyn")];
const ACCESS_REVIEW: &str = "kubernetes.SubjectAccessReviewSpec";
/// As `k8s.io/apiserver/pkg/authorization/cel` builds them.
const AUTHORIZATION_TYPES: &[(&str, &str)] = &[
    (
        "kubernetes.SelectorRequirement",
        "key:string operator:string values:list(string)",
    ),
    (
        "kubernetes.FieldSelectorAttributes",
        "rawSelector:string requirements:list(kubernetes.SelectorRequirement)",
    ),
    (
        "kubernetes.LabelSelectorAttributes",
        "rawSelector:string requirements:list(kubernetes.SelectorRequirement)",
    ),
    (
        "kubernetes.ResourceAttributes",
        "namespace:string verb:string group:string version:string resource:string subresource:string name:string fieldSelector:kubernetes.FieldSelectorAttributes labelSelector:kubernetes.LabelSelectorAttributes",
    ),
    ("kubernetes.NonResourceAttributes", "path:string verb:string"),
    (
        ACCESS_REVIEW,
        "resourceAttributes:kubernetes.ResourceAttributes nonResourceAttributes:kubernetes.NonResourceAttributes user:string groups:list(string) extra:map(string,list(string)) uid:string",
    ),
];

/// An environment without variables, in which all functions are but those for patches.
impl Default for Environment {
    fn default() -> Self {
        Self {
            id: next_id(),
            variables: HashMap::new(),
            objects: HashMap::new(),
            patch_types: false,
            bindings: false,
            unescapes_keys: false,
        }
    }
}

fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Environment {
    /// Tells environments apart: programs of one are of no use in another.
    pub(crate) const fn id(&self) -> u64 {
        self.id
    }

    /// The environment of admission policies and of webhooks' match conditions.
    pub fn admission(with: AdmissionVariables) -> Self {
        let mut environment = Self::with_types(ADMISSION_TYPES);
        environment.declare("object", Type::Dyn);
        environment.declare("oldObject", Type::Dyn);
        environment.declare("request", Type::named(REQUEST));
        environment.declare("namespaceObject", Type::named(NAMESPACE));
        if with.params {
            environment.declare("params", Type::Dyn);
        }
        if with.authorizer {
            environment.declare("authorizer", Type::named("kubernetes.authorization.Authorizer"));
            let resource = Type::named("kubernetes.authorization.ResourceCheck");
            environment.declare("authorizer.requestResource", resource);
        }
        if with.patch_types {
            environment.patch_types = true;
            environment.add_types(PATCH_TYPES);
        }
        environment
    }

    /// The environment of the match conditions of authorizers: `request` is the spec of a `SubjectAccessReview`.
    pub fn authorization() -> Self {
        let mut environment = Self::with_types(AUTHORIZATION_TYPES);
        environment.declare("request", Type::named(ACCESS_REVIEW));
        environment
    }

    /// The environment of selectors of devices, as `k8s.io/dynamic-resource-allocation/cel` builds it.
    pub fn device(with: DeviceVariables) -> Self {
        let attribute = if with.list_attributes { "dyn" } else { "any" };
        let shared = if with.multiple_allocations {
            " allowMultipleAllocations:bool"
        } else {
            ""
        };
        let fields = format!(
            "driver:string attributes:map(string,map(string,{attribute})) capacity:map(string,map(string,kubernetes.Quantity)){shared}"
        );
        let mut environment = Self::with_types(&[(DEVICE, &fields)]);
        environment.declare("device", Type::named(DEVICE));
        environment.bindings = true;
        environment
    }

    /// The environment of expressions about the claims of a token: a map from names to anything
    /// (`k8s.io/apiserver/pkg/authentication/cel`).
    pub fn claims() -> Self {
        let mut environment = Self::default();
        let claims = Type::Map(Arc::new(Type::String), Arc::new(Type::Any));
        environment.declare("claims", claims);
        environment.unescapes_keys = true;
        environment
    }

    /// The environment of expressions about a user.
    pub fn user() -> Self {
        let of_users = |(name, _): &&(&str, &str)| *name == USER_INFO;
        let types: Vec<(&str, &str)> = ADMISSION_TYPES.iter().filter(of_users).copied().collect();
        let mut environment = Self::with_types(&types);
        environment.declare("user", Type::named(USER_INFO));
        environment.unescapes_keys = true;
        environment
    }

    /// With the variables of a policy, each of a type, as fields of `variables`.
    #[must_use]
    pub fn with_composed(mut self, composed: &[(String, Type)]) -> Self {
        self.id = next_id();
        self.declare("variables", Type::named(VARIABLES));
        self.define(VARIABLES, composed.iter().cloned().collect(), false);
        self
    }

    /// With a variable of a type of a table, whose structs become types with fields.
    #[must_use]
    pub fn with_declared(self, variable: &str, table: &TypeTable, id: TypeId) -> Self {
        self.with_shape(variable, table, &Shape::Struct(id), false)
    }

    /// With a variable of a shape, whose structs become types with fields. An optional one is declared as an optional value.
    /// A field of a struct that is null is absent (`unstructuredMap.Find` of `k8s.io/apiserver/pkg/cel/common`); items of lists and
    /// values of maps may be null.
    #[must_use]
    pub fn with_shape(mut self, variable: &str, table: &TypeTable, shape: &Shape, is_optional: bool) -> Self {
        self.id = next_id();
        let mut left = Vec::new();
        let kind = declared(table, shape, &mut left);
        self.declare(variable, if is_optional { kind.optional() } else { kind });
        while let Some(id) = left.pop() {
            let definition = table.get(id);
            if self.objects.contains_key(&definition.name) {
                continue;
            }
            let fields = definition.fields.iter();
            let fields = fields.map(|field| (field.name.clone(), declared(table, &field.shape, &mut left)));
            let fields = fields.collect();
            self.define(&definition.name, fields, true);
        }
        self
    }

    fn with_types(types: &[(&str, &str)]) -> Self {
        let mut environment = Self::default();
        environment.add_types(types);
        environment
    }

    fn add_types(&mut self, types: &[(&str, &str)]) {
        for (name, fields) in types {
            let fields = fields.split(' ').filter_map(|field| field.split_once(':'));
            let fields = fields.map(|(name, kind)| (name.to_owned(), Type::parse(kind)));
            self.define(name, fields.collect(), false);
        }
    }

    fn define(&mut self, name: &str, fields: HashMap<String, Type>, null_is_absent: bool) {
        let object = ObjectType { fields, null_is_absent };
        self.objects.insert(name.to_owned(), object);
    }

    pub(crate) fn declare(&mut self, name: &str, kind: Type) {
        self.variables.insert(name.to_owned(), kind);
    }

    pub(crate) fn variable(&self, name: &str) -> Option<&Type> {
        self.variables.get(name)
    }

    /// The type of a field of a named type; `None` if there is no such field.
    pub(crate) fn field(&self, type_name: &str, field: &str) -> Option<Type> {
        if self.is_patch_object(type_name) {
            return Some(Type::Dyn);
        }
        self.known_field(type_name, field).cloned()
    }

    /// A field by its name, which may be left unescaped if it is a reserved word: `self.namespace` is `self.__namespace__`
    /// (`DeclTypeProvider.FindStructFieldType` of `k8s.io/apiserver/pkg/cel`, from 1.31 on).
    fn known_field(&self, type_name: &str, field: &str) -> Option<&Type> {
        let fields = &self.objects.get(type_name)?.fields;
        let by_escape = || fields.get(&*escape_field(field)?);
        fields
            .get(field)
            .or_else(|| is_reserved(field).then(by_escape).flatten())
    }

    /// The type of a field of a named type, unknown if there is no such field.
    pub(crate) fn field_type(&self, type_name: &str, field: &str) -> &Type {
        self.known_field(type_name, field).unwrap_or(&Type::Dyn)
    }

    /// Returns true if a field of a named type is absent when it is null.
    pub(crate) fn null_is_absent(&self, type_name: &str) -> bool {
        self.objects.get(type_name).is_some_and(|object| object.null_is_absent)
    }

    /// Returns true if values of a type can be written out.
    pub(crate) fn can_create(&self, type_name: &str) -> bool {
        self.is_patch_object(type_name) || self.objects.contains_key(type_name)
    }

    /// Returns true if `cel.bind` is there.
    pub(crate) fn has_bindings(&self) -> bool {
        self.bindings
    }

    /// Returns true if keys of maps are escaped as names of fields are: `claims.kubernetes__dot__io`
    /// (`unescapeMapper` of the OIDC authenticator).
    pub(crate) fn unescapes_keys(&self) -> bool {
        self.unescapes_keys
    }

    /// Returns true if functions for patches are there.
    pub(crate) fn has_patch_types(&self) -> bool {
        self.patch_types
    }

    /// `Object`, and the types of its fields, such as `Object.spec`.
    fn is_patch_object(&self, type_name: &str) -> bool {
        self.patch_types && (type_name == "Object" || type_name.starts_with("Object."))
    }
}

/// The type of what a field holds; the structs in it are still to be declared.
fn declared(table: &TypeTable, shape: &Shape, left: &mut Vec<TypeId>) -> Type {
    match shape {
        Shape::Struct(id) => {
            left.push(*id);
            Type::named(&table.get(*id).name)
        }
        Shape::String(StringFormat::Plain) => Type::String,
        Shape::String(StringFormat::Time | StringFormat::MicroTime) => Type::Timestamp,
        Shape::String(StringFormat::Duration) => Type::Duration,
        Shape::String(StringFormat::Bytes) => Type::Bytes,
        Shape::Boolean => Type::Bool,
        Shape::Int32 | Shape::Int64 => Type::Int,
        Shape::Number => Type::Double,
        Shape::List { item, list_type } => {
            let item = Arc::new(declared(table, item, left));
            Type::List(item, ListSemantics::of(list_type))
        }
        Shape::Map { value, .. } => Type::Map(Arc::new(Type::String), Arc::new(declared(table, value, left))),
        Shape::Quantity => Type::named("kubernetes.Quantity"),
        Shape::IntOrString | Shape::Any => Type::Dyn,
    }
}
