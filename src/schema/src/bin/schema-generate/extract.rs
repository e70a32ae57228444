//! Takes the facts about API types out of a tree of Kubernetes' sources: its OpenAPI document says which types and
//! fields there are, the Go sources say the rest. Descriptions stay behind.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    error::Error,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value};
use trireme_schema::short_name;

use crate::go::{self, GoField, Package};

const SWAGGER: &str = "api/openapi-spec/swagger.json";

const FACTS_HEADER: &str = "\
# What the Go types of Kubernetes say of each field beyond its schema. Made by schema-generate; do not edit.
# =TYPE [TAB MARKER ...]
# FIELD TAB TAG TAB PRESENCE [TAB MARKER ...]
# A tag a.b belongs to a field of the struct with tag a that Go embeds. PRESENCE is o, p, a or n: omitzero, pointer,
# always, nullable. MARKER is one of declarative validation (`k8s:...`) or `featureGate=NAME`.
";

const ENUMS_HEADER: &str = "\
# The values of fields whose Go types are marked +enum. Made by schema-generate; do not edit.
# TYPE FIELD VALUE|VALUE... in the order of the alphabet; of a list's items or a map's values if the field is one.
";

const GO_TYPES_HEADER: &str = "\
# What Go calls the types of fields that are not plain strings, numbers, structs or lists and maps of them, and in which
# embedded struct a field is declared. Only messages about values of a wrong type show it.
# Made by schema-generate; do not edit. TYPE FIELD=GOTYPE ... FIELD@STRUCT[.STRUCT] ...
";

const LIFECYCLE_HEADER: &str = "\
# The releases in which kinds that are not stable began, are deprecated and end, and what replaces them.
# Made by schema-generate; do not edit. TYPE introduced=A.B [deprecated=A.B] [removed=A.B] [replacement=GROUP/VERSION/KIND]
";

/// The contents of a tree, as the files that are checked in.
pub(crate) struct Extracted {
    pub(crate) facts: String,
    pub(crate) enums: String,
    pub(crate) go_types: String,
    pub(crate) lifecycle: String,
    pub(crate) definitions: BTreeMap<String, Value>,
    /// The files that were read, below the tree.
    pub(crate) inputs: BTreeSet<PathBuf>,
}

/// A field that JSON shows, with where it was declared.
struct JsonField<'p> {
    field: &'p GoField,
    tag: String,
    package: String,
    /// The embedded structs that the field is declared in, from the outermost to the innermost, joined by dots.
    embedded: String,
}

/// The packages of a tree, by their place in OpenAPI names: `api.core.v1`.
struct Tree {
    root: PathBuf,
    packages: HashMap<String, Package>,
}

/// Reads a tree.
pub(crate) fn extract(root: &Path) -> Result<Extracted, Box<dyn Error>> {
    let swagger: Value = serde_json::from_slice(&fs::read(root.join(SWAGGER))?)?;
    let mut definitions = BTreeMap::new();
    for (name, definition) in swagger["definitions"].as_object().ok_or("no definitions")? {
        // The fork that publishes the tree may add groups of its own.
        if name.starts_with("io.k8s.") {
            definitions.insert(name.clone(), bare(definition));
        }
    }
    let mut tree = Tree {
        root: root.to_owned(),
        packages: HashMap::new(),
    };
    for name in definitions.keys() {
        tree.load(package_of(name).0)?;
    }
    let mut extracted = Extracted {
        facts: FACTS_HEADER.to_owned(),
        enums: ENUMS_HEADER.to_owned(),
        go_types: GO_TYPES_HEADER.to_owned(),
        lifecycle: LIFECYCLE_HEADER.to_owned(),
        inputs: tree.files()?,
        definitions: BTreeMap::new(),
    };
    for (name, definition) in &mut definitions {
        tree.describe(name, definition, &mut extracted)?;
    }
    extracted.definitions = definitions;
    extracted.inputs.insert(SWAGGER.into());
    Ok(extracted)
}

/// A definition without descriptions and with references as bare names. The kinds that it serves are in discovery.
fn bare(definition: &Value) -> Value {
    let mut definition = definition.clone();
    if let Some(entries) = definition.as_object_mut() {
        entries.remove("x-kubernetes-group-version-kind");
    }
    bare_schema(&mut definition);
    definition
}

fn bare_schema(schema: &mut Value) {
    let Some(entries) = schema.as_object_mut() else {
        return;
    };
    entries.remove("description");
    if let Some(Value::String(reference)) = entries.get_mut("$ref") {
        *reference = reference.trim_start_matches("#/definitions/").to_owned();
    }
    for members in ["items", "additionalProperties"] {
        if let Some(schema) = entries.get_mut(members) {
            bare_schema(schema);
        }
    }
    let properties = entries.get_mut("properties").and_then(Value::as_object_mut);
    properties.into_iter().flat_map(Map::values_mut).for_each(bare_schema);
}

/// `("api.core.v1", "Pod")` of `io.k8s.api.core.v1.Pod`.
fn package_of(name: &str) -> (&str, &str) {
    let name = name.trim_start_matches("io.k8s.");
    name.rsplit_once('.').unwrap_or(("", name))
}

fn folder_of(package: &str) -> PathBuf {
    Path::new("staging/src/k8s.io").join(package.replace('.', "/"))
}

impl Tree {
    /// Reads a package and those that it imports, if the tree has them.
    fn load(&mut self, key: &str) -> Result<(), Box<dyn Error>> {
        if self.packages.contains_key(key) {
            return Ok(());
        }
        let folder = self.root.join(folder_of(key));
        let package = if folder.is_dir() {
            go::read_package(&folder)?
        } else {
            Package::default()
        };
        let imported: Vec<String> = package.imports.values().filter_map(|path| key_of(path)).collect();
        self.packages.insert(key.to_owned(), package);
        imported.iter().try_for_each(|key| self.load(key))
    }

    /// The files of the packages that hold types.
    fn files(&self) -> Result<BTreeSet<PathBuf>, Box<dyn Error>> {
        let mut files = BTreeSet::new();
        for key in self.packages.keys() {
            let folder = folder_of(key);
            let Ok(entries) = fs::read_dir(self.root.join(&folder)) else {
                continue;
            };
            for entry in entries {
                let name = entry?.file_name().to_string_lossy().into_owned();
                if go::is_source(&name) || name == "zz_generated.prerelease-lifecycle.go" {
                    files.insert(folder.join(name));
                }
            }
        }
        Ok(files)
    }

    fn describe(&self, name: &str, definition: &mut Value, out: &mut Extracted) -> Result<(), Box<dyn Error>> {
        let Some(properties) = definition.get_mut("properties").and_then(Value::as_object_mut) else {
            return Ok(());
        };
        let (key, ty) = package_of(name);
        let short = short_name(name);
        let declared = self.packages[key].structs.get(ty);
        write!(out.facts, "={short}")?;
        write_markers(&mut out.facts, declared.map_or(&[], |declared| &declared.markers))?;
        if let Some(lifecycle) = self.packages[key].lifecycle.get(ty) {
            writeln!(out.lifecycle, "{short} {}", lifecycle.join(" "))?;
        }
        let mut shown = Vec::new();
        self.shown(key, ty, ("", ""), &mut shown);
        let mut go_types = String::new();
        for shown in shown {
            let field = &shown.field.json;
            let Some(schema) = properties.get_mut(field) else {
                continue;
            };
            self.add_default(schema, &shown);
            let tag = if shown.tag.is_empty() { "0" } else { &shown.tag };
            write!(out.facts, "{field}\t{tag}\t{}", self.presence(&shown))?;
            write_markers(&mut out.facts, &shown.field.markers)?;
            if let Some(values) = self.enum_values(&shown.package, &shown.field.ty) {
                writeln!(out.enums, "{short} {field} {values}")?;
            }
            if let Some(ty) = self.go_type(&shown.package, shown.field.ty.trim_start_matches('*')) {
                write!(go_types, " {field}={ty}")?;
            }
            if !shown.embedded.is_empty() {
                write!(go_types, " {field}@{}", shown.embedded)?;
            }
        }
        if !go_types.is_empty() {
            writeln!(out.go_types, "{short}{go_types}")?;
        }
        Ok(())
    }

    /// Collects the fields that JSON shows, those of embedded structs in their place. `prefix` and `embedded` are the
    /// protobuf tags and the names of the embedded structs that lead to this one.
    fn shown<'p>(&'p self, key: &str, ty: &str, (prefix, embedded): (&str, &str), out: &mut Vec<JsonField<'p>>) {
        let Some((key, ty)) = self.resolve_struct(key, ty) else {
            return;
        };
        let declared = &self.packages[&key].structs[&ty];
        for field in &declared.fields {
            let is_inline = field.json.is_empty();
            if is_inline {
                let prefix = if field.tag.is_empty() {
                    "-".to_owned()
                } else {
                    format!("{prefix}{}.", field.tag)
                };
                let ty = field.ty.trim_start_matches('*');
                let name = ty.rsplit_once('.').map_or(ty, |(_, name)| name);
                let dot = if embedded.is_empty() { "" } else { "." };
                self.shown(&key, ty, (&prefix, &format!("{embedded}{dot}{name}")), out);
                continue;
            }
            // What is embedded without a tag has no protobuf form.
            let tag = if prefix == "-" || field.tag.is_empty() {
                String::new()
            } else {
                format!("{prefix}{}", field.tag)
            };
            out.push(JsonField {
                field,
                tag,
                package: key.clone(),
                embedded: embedded.to_owned(),
            });
        }
    }

    /// The package and name under which a type is declared, behind imports and aliases.
    fn resolve(&self, key: &str, ty: &str) -> (String, String) {
        let (key, name) = match ty.split_once('.') {
            Some((alias, name)) => {
                let path = self.packages.get(key).and_then(|package| package.imports.get(alias));
                let external = || alias.to_owned();
                (path.and_then(|path| key_of(path)).unwrap_or_else(external), name)
            }
            None => (key.to_owned(), ty),
        };
        let alias = self
            .packages
            .get(&key)
            .and_then(|package| package.named.get(name)?.strip_prefix("= "));
        match alias {
            Some(target) => self.resolve(&key, target),
            None => (key, name.to_owned()),
        }
    }

    /// The struct behind a name: its own, or that of the type which it is defined by.
    fn resolve_struct(&self, key: &str, ty: &str) -> Option<(String, String)> {
        let (key, name) = self.resolve(key, ty);
        let package = self.packages.get(&key)?;
        if package.structs.contains_key(&name) {
            return Some((key, name));
        }
        let underlying = package.named.get(&name)?;
        self.resolve_struct(&key, underlying)
    }

    fn presence(&self, shown: &JsonField<'_>) -> char {
        let has = |option: &str| shown.field.options.iter().any(|known| known == option);
        let is_pointer = shown.field.ty.starts_with('*');
        match (has("omitempty"), has("omitzero")) {
            (true, _) if is_pointer => 'p',
            (_, true) => 'o',
            (true, _) if self.resolve_struct(&shown.package, &shown.field.ty).is_none() => 'o',
            (false, _) if is_pointer => 'n',
            _ => 'a',
        }
    }

    /// Adds the default that is marked, which the second version of OpenAPI does not publish.
    fn add_default(&self, schema: &mut Value, shown: &JsonField<'_>) {
        let mut markers = shown.field.markers.iter();
        let Some(marked) = markers.find_map(|marker| marker.strip_prefix("default=")) else {
            return;
        };
        let constant = marked.strip_prefix("ref(").and_then(|marked| marked.strip_suffix(')'));
        let constant = constant.and_then(|name| self.packages.get(&shown.package)?.values.get(name));
        let value = constant.map_or_else(|| serde_json::from_str(marked).ok(), |text| Some(text.as_str().into()));
        if let Some(value) = value {
            schema["default"] = value;
        }
    }

    fn enum_values(&self, key: &str, ty: &str) -> Option<String> {
        let (key, name) = self.resolve(key, members(ty));
        let package = self.packages.get(&key)?;
        if !package.enums.contains(&name) {
            return None;
        }
        let constants = package.constants.get(&name)?.iter();
        let values: BTreeSet<&str> = constants.filter_map(|constant| self.constant(&key, constant)).collect();
        Some(values.into_iter().collect::<Vec<_>>().join("|"))
    }

    /// The text of a constant, that of another one if it is given as `=alias.Name`.
    fn constant<'p>(&'p self, key: &str, constant: &'p str) -> Option<&'p str> {
        let Some(reference) = constant.strip_prefix('=') else {
            return Some(constant);
        };
        let (key, name) = self.resolve(key, reference);
        self.packages.get(&key)?.values.get(&name).map(String::as_str)
    }

    /// The text that Go prints for a type, if that is no plain one and no struct.
    fn go_type(&self, key: &str, ty: &str) -> Option<String> {
        if let Some(rest) = ty.strip_prefix("map[") {
            let (map_key, value) = rest.split_once(']')?;
            let (named_key, named_value) = (self.go_type(key, map_key), self.go_type(key, value));
            if named_key.is_none() && named_value.is_none() {
                return None;
            }
            let map_key = named_key.unwrap_or_else(|| map_key.to_owned());
            let value = named_value.unwrap_or_else(|| self.qualified(key, value));
            return Some(format!("map[{map_key}]{value}"));
        }
        if let Some(item) = ty.strip_prefix("[]") {
            return Some(format!("[]{}", self.go_type(key, item)?));
        }
        let (declared, name) = self.resolve(key, ty);
        let is_named = self.packages.get(&declared)?.named.contains_key(&name);
        (is_named && self.resolve_struct(key, ty).is_none()).then(|| self.qualified(key, ty))
    }

    fn qualified(&self, key: &str, ty: &str) -> String {
        let (declared, name) = self.resolve(key, ty);
        let is_plain = name.starts_with(char::is_lowercase);
        let package = declared.rsplit('.').next().unwrap_or(&declared);
        if is_plain { name } else { format!("{package}.{name}") }
    }
}

/// `api.core.v1` of `k8s.io/api/core/v1`.
fn key_of(path: &str) -> Option<String> {
    Some(path.strip_prefix("k8s.io/")?.replace('/', "."))
}

/// The type of a list's items or of a map's values, or the type itself.
fn members(ty: &str) -> &str {
    let ty = ty.trim_start_matches('*').trim_start_matches("[]");
    ty.split_once(']')
        .map_or(ty, |(_, value)| value)
        .trim_start_matches('*')
}

fn write_markers(out: &mut String, markers: &[String]) -> Result<(), Box<dyn Error>> {
    const TOOLS: [&str; 5] = [
        "deepcopy-gen",
        "prerelease-lifecycle-gen",
        "conversion-gen",
        "openapi-gen",
        "defaulter-gen",
    ];
    for marker in markers {
        let validation = marker.strip_prefix("k8s:");
        let is_validation = validation.is_some_and(|rest| !TOOLS.iter().any(|tool| rest.starts_with(tool)));
        if is_validation || marker.starts_with("featureGate=") {
            write!(out, "\t{marker}")?;
        }
    }
    out.push('\n');
    Ok(())
}
