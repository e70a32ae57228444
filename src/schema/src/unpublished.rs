//! The types that OpenAPI documents do not show, so that `types.txt` has none of them: objects reduced to their metadata,
//! discovery in one document, and the options of connections.

use trireme_machinery::schema::{
    Field, ListType, PatchStrategy, Presence, Shape, StringFormat, TypeDef, TypeId, TypeTable,
};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
const DISCOVERY: &str = "io.k8s.api.apidiscovery.v2";
const CORE: &str = "io.k8s.api.core.v1";

/// The form of a field's value.
#[derive(Clone, Copy)]
enum WireForm {
    Text,
    Texts,
    Flag,
    Numbers,
    Struct(TypeId),
    Structs(TypeId),
}

/// Name, tag, presence and form of a field.
type FieldRow = (&'static str, u32, Presence, WireForm);

const KIND: FieldRow = ("kind", 0, Presence::OmitZero, WireForm::Text);
const API_VERSION: FieldRow = ("apiVersion", 0, Presence::OmitZero, WireForm::Text);

/// Defines the types; those of the API machinery that they refer to are declared.
pub(crate) fn define(table: &mut TypeTable) {
    define_metadata(table);
    define_discovery(table);
    define_connections(table);
}

fn define_metadata(table: &mut TypeTable) {
    let partial = meta(table, "PartialObjectMetadata");
    let metadata = (
        "metadata",
        1,
        Presence::Always,
        WireForm::Struct(meta(table, "ObjectMeta")),
    );
    add(table, partial, &[KIND, API_VERSION, metadata]);
    let list = meta(table, "PartialObjectMetadataList");
    let metadata = (
        "metadata",
        1,
        Presence::Always,
        WireForm::Struct(meta(table, "ListMeta")),
    );
    let items = ("items", 2, Presence::Always, WireForm::Structs(partial));
    add(table, list, &[KIND, API_VERSION, metadata, items]);
}

fn define_discovery(table: &mut TypeTable) {
    use Presence::{Always, OmitZero, Pointer};
    let mut declare = |name: &str| table.declare(&format!("{DISCOVERY}.{name}"));
    let (list, group) = (declare("APIGroupDiscoveryList"), declare("APIGroupDiscovery"));
    let (version, resource) = (declare("APIVersionDiscovery"), declare("APIResourceDiscovery"));
    let subresource = declare("APISubresourceDiscovery");
    let metadata = ("metadata", 1, Always, WireForm::Struct(meta(table, "ListMeta")));
    let items = ("items", 2, Always, WireForm::Structs(group));
    add(table, list, &[KIND, API_VERSION, metadata, items]);
    let metadata = ("metadata", 1, Always, WireForm::Struct(meta(table, "ObjectMeta")));
    let versions = ("versions", 2, OmitZero, WireForm::Structs(version));
    add(table, group, &[KIND, API_VERSION, metadata, versions]);
    let of_version = [
        ("version", 1, Always, WireForm::Text),
        ("resources", 2, OmitZero, WireForm::Structs(resource)),
        ("freshness", 3, OmitZero, WireForm::Text),
    ];
    add(table, version, &of_version);
    let kind = meta(table, "GroupVersionKind");
    let of_kind = [
        ("group", 1, Always, WireForm::Text),
        ("version", 2, Always, WireForm::Text),
        ("kind", 3, Always, WireForm::Text),
    ];
    add(table, kind, &of_kind);
    let of_resource = [
        ("resource", 1, Always, WireForm::Text),
        ("responseKind", 2, Pointer, WireForm::Struct(kind)),
        ("scope", 3, Always, WireForm::Text),
        ("singularResource", 4, Always, WireForm::Text),
        ("verbs", 5, Always, WireForm::Texts),
        ("shortNames", 6, OmitZero, WireForm::Texts),
        ("categories", 7, OmitZero, WireForm::Texts),
        ("subresources", 8, OmitZero, WireForm::Structs(subresource)),
    ];
    add(table, resource, &of_resource);
    let of_subresource = [
        ("subresource", 1, Always, WireForm::Text),
        ("responseKind", 2, Pointer, WireForm::Struct(kind)),
        ("acceptedTypes", 3, OmitZero, WireForm::Structs(kind)),
        ("verbs", 4, Always, WireForm::Texts),
    ];
    add(table, subresource, &of_subresource);
}

fn define_connections(table: &mut TypeTable) {
    use Presence::{Always, OmitZero};
    let streams = [
        KIND,
        API_VERSION,
        ("stdin", 1, OmitZero, WireForm::Flag),
        ("stdout", 2, OmitZero, WireForm::Flag),
        ("stderr", 3, OmitZero, WireForm::Flag),
        ("tty", 4, OmitZero, WireForm::Flag),
        ("container", 5, OmitZero, WireForm::Text),
    ];
    let command = ("command", 6, Always, WireForm::Texts);
    let ports = ("ports", 1, OmitZero, WireForm::Numbers);
    let path = ("path", 1, OmitZero, WireForm::Text);
    let types = [
        ("PodAttachOptions", streams.to_vec()),
        ("PodExecOptions", [&streams[..], &[command]].concat()),
        ("PodPortForwardOptions", vec![KIND, API_VERSION, ports]),
        ("PodProxyOptions", vec![KIND, API_VERSION, path]),
        ("ServiceProxyOptions", vec![KIND, API_VERSION, path]),
        ("NodeProxyOptions", vec![KIND, API_VERSION, path]),
    ];
    for (name, rows) in types {
        let id = table.declare(&format!("{CORE}.{name}"));
        add(table, id, &rows);
    }
}

fn meta(table: &mut TypeTable, name: &str) -> TypeId {
    table.declare(&format!("{META}.{name}"))
}

/// Fills in the fields of a type.
fn add(table: &mut TypeTable, id: TypeId, rows: &[FieldRow]) {
    let name = table.get(id).name.clone();
    let fields = rows.iter().map(field).collect();
    table.define(TypeDef {
        name,
        fields,
        atomic: false,
    });
}

fn field((name, tag, presence, form): &FieldRow) -> Field {
    let text = Shape::String(StringFormat::Plain);
    let list = |item| Shape::List {
        item: Box::new(item),
        list_type: ListType::Atomic,
    };
    let shape = match *form {
        WireForm::Text => text,
        WireForm::Texts => list(text),
        WireForm::Flag => Shape::Boolean,
        WireForm::Numbers => list(Shape::Int32),
        WireForm::Struct(id) => Shape::Struct(id),
        WireForm::Structs(id) => list(Shape::Struct(id)),
    };
    Field {
        name: (*name).to_owned(),
        shape,
        presence: *presence,
        required: false,
        default: None,
        patch: PatchStrategy::default(),
        tag: *tag,
    }
}
