//! A small table of types for tests, shaped like the real ones.

use serde_json::{Value, json};

use super::types::{Field, ListType, PatchStrategy, Presence, Shape, StringFormat, TypeDef, TypeId, TypeTable};

pub(crate) fn string() -> Shape {
    Shape::String(StringFormat::Plain)
}

pub(crate) fn list(item: Shape) -> Shape {
    Shape::List {
        item: Box::new(item),
        list_type: ListType::Atomic,
    }
}

pub(crate) fn map(value: Shape) -> Shape {
    Shape::Map {
        value: Box::new(value),
        atomic: false,
    }
}

fn field(name: &str, shape: Shape, presence: Presence) -> Field {
    Field {
        name: name.to_owned(),
        shape,
        presence,
        required: false,
        default: None,
        patch: PatchStrategy::default(),
        tag: 0,
    }
}

fn optional(name: &str, shape: Shape) -> Field {
    field(name, shape, Presence::OmitZero)
}

fn pointer(name: &str, shape: Shape) -> Field {
    field(name, shape, Presence::Pointer)
}

fn always(name: &str, shape: Shape) -> Field {
    field(name, shape, Presence::Always)
}

impl Field {
    fn or(mut self, default: Value) -> Self {
        self.default = Some(default);
        self
    }

    fn merged(mut self, key: &str) -> Self {
        self.patch.merge = true;
        self.patch.merge_key = (!key.is_empty()).then(|| key.to_owned());
        self
    }

    fn replaced(mut self) -> Self {
        self.patch.replace = true;
        self
    }

    fn retaining_keys(mut self) -> Self {
        self.patch.retain_keys = true;
        self
    }
}

fn define(table: &mut TypeTable, name: &str, fields: Vec<Field>) -> TypeId {
    table.define(TypeDef {
        name: name.to_owned(),
        fields,
        atomic: false,
    })
}

fn meta(table: &mut TypeTable) -> TypeId {
    let time = || Shape::String(StringFormat::Time);
    let fields = vec![
        optional("name", string()),
        optional("uid", string()),
        optional("creationTimestamp", time()),
        pointer("deletionTimestamp", time()),
        pointer("deletionGracePeriodSeconds", Shape::Int64),
        optional("labels", map(string())),
        optional("finalizers", list(string())).merged(""),
    ];
    let id = define(table, "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", fields);
    table.name_go_type(id, "uid", "types.UID");
    id
}

fn container(table: &mut TypeTable) -> TypeId {
    let port = define(
        table,
        "io.k8s.api.core.v1.ContainerPort",
        vec![
            optional("name", string()),
            always("containerPort", Shape::Int32),
            optional("protocol", string()).or(json!("TCP")),
        ],
    );
    let resources = define(
        table,
        "io.k8s.api.core.v1.ResourceRequirements",
        vec![optional("limits", map(Shape::Quantity))],
    );
    define(
        table,
        "io.k8s.api.core.v1.Container",
        vec![
            always("name", string()),
            optional("image", string()),
            optional("command", list(string())),
            optional("ports", list(Shape::Struct(port))).merged("containerPort"),
            always("resources", Shape::Struct(resources)),
            optional("terminationMessagePolicy", string()).or(json!("File")),
            pointer("weight", Shape::IntOrString),
        ],
    )
}

/// A table with a kind that is a pod, a deployment and a config map in one, and that kind.
pub(crate) fn pods() -> (TypeTable, TypeId) {
    let mut table = TypeTable::default();
    let meta = meta(&mut table);
    let container = container(&mut table);
    let strategy = define(
        &mut table,
        "io.k8s.api.apps.v1.DeploymentStrategy",
        vec![
            optional("type", string()).or(json!("RollingUpdate")),
            pointer("rollingUpdate", map(Shape::IntOrString)),
        ],
    );
    let bytes = || Shape::String(StringFormat::Bytes);
    let spec = define(
        &mut table,
        "io.k8s.api.core.v1.PodSpec",
        vec![
            always("containers", list(Shape::Struct(container))).merged("name"),
            optional("restartPolicy", string()).or(json!("Always")),
            optional("hostNetwork", Shape::Boolean),
            pointer("replicas", Shape::Int32).or(json!(1)),
            pointer("strategy", Shape::Struct(strategy)).retaining_keys(),
            optional("finalizers", list(string())),
            optional("tolerations", list(map(string()))),
            pointer("sizeLimit", Shape::Quantity),
            pointer("timeout", Shape::String(StringFormat::Duration)),
            optional("eventTime", Shape::String(StringFormat::MicroTime)),
            optional("ratio", Shape::Number),
            pointer("raw", Shape::Any),
            optional("selector", map(string())).replaced(),
        ],
    );
    table.name_go_type(spec, "finalizers", "[]v1.FinalizerName");
    let pod = define(
        &mut table,
        "io.k8s.api.core.v1.Pod",
        vec![
            optional("kind", string()),
            optional("apiVersion", string()),
            always("metadata", Shape::Struct(meta)),
            pointer("spec", Shape::Struct(spec)),
            optional("data", map(bytes())),
            optional("caBundle", bytes()),
        ],
    );
    (table, pod)
}

/// A table with a struct whose fields are always written, as zero or as null, and that struct.
pub(crate) fn claim() -> (TypeTable, TypeId) {
    let mut table = TypeTable::default();
    let fields = vec![
        always("mode", string()).or(json!("rw")),
        field("group", string(), Presence::Nullable).or(json!("g")),
    ];
    let id = define(&mut table, "io.example.v1.Claim", fields);
    (table, id)
}

/// A table with the type of schemas, and that type.
pub(crate) fn schemas() -> (TypeTable, TypeId) {
    let mut table = TypeTable::default();
    let name = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";
    let schema = table.declare(name);
    let fields = vec![
        optional("type", string()),
        pointer("default", Shape::Any),
        pointer("maxLength", Shape::Int64),
        optional("enum", list(Shape::Any)),
        pointer("items", Shape::Any),
        optional("properties", map(Shape::Struct(schema))),
        pointer("additionalProperties", Shape::Any),
        optional("dependencies", map(Shape::Any)),
    ];
    define(&mut table, name, fields);
    (table, schema)
}
