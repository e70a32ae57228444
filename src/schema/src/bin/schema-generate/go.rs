//! Reads what Go sources declare: structs with the tags of their fields, named types, constants of a type, aliases.
//!
//! It knows only the forms in which Kubernetes writes its API types: a declaration a line, as gofmt lays it out.

use std::{
    collections::{BTreeSet, HashMap},
    error::Error,
    fs,
    path::Path,
};

/// The declarations in the files of one folder.
#[derive(Default)]
pub(crate) struct Package {
    pub(crate) structs: HashMap<String, GoStruct>,
    /// The type that a named type stands for: `[]Taint`, `string`.
    pub(crate) named: HashMap<String, String>,
    /// Import paths by the name that the files use for them.
    pub(crate) imports: HashMap<String, String>,
    /// Named types marked `+enum`.
    pub(crate) enums: BTreeSet<String>,
    /// The text constants of a type; one that is written as another constant's name is that name after `=`.
    pub(crate) constants: HashMap<String, BTreeSet<String>>,
    /// The text constants by name.
    pub(crate) values: HashMap<String, String>,
    /// The releases of a kind's life, as `NAME=VALUE`.
    pub(crate) lifecycle: HashMap<String, Vec<String>>,
}

/// A struct with its markers.
#[derive(Default)]
pub(crate) struct GoStruct {
    pub(crate) markers: Vec<String>,
    pub(crate) fields: Vec<GoField>,
}

/// A field of a struct.
pub(crate) struct GoField {
    /// The type as written, which is also the name of an embedded field.
    pub(crate) ty: String,
    /// The JSON name, empty if the fields of an embedded struct stand inline.
    pub(crate) json: String,
    /// `omitempty`, `omitzero`, `inline`.
    pub(crate) options: Vec<String>,
    /// The protobuf tag, empty without one.
    pub(crate) tag: String,
    pub(crate) markers: Vec<String>,
}

/// Reads the files of a folder but for tests and generated code.
pub(crate) fn read_package(folder: &Path) -> Result<Package, Box<dyn Error>> {
    let mut package = Package::default();
    let mut files: Vec<_> = fs::read_dir(folder)
        .map_err(|error| format!("{}: {error}", folder.display()))?
        .collect::<Result<_, _>>()?;
    files.sort_by_key(fs::DirEntry::file_name);
    for file in files {
        let name = file.file_name().to_string_lossy().into_owned();
        if name == "zz_generated.prerelease-lifecycle.go" {
            read_lifecycle(&fs::read_to_string(file.path())?, &mut package);
        } else if is_source(&name) {
            read_source(&fs::read_to_string(file.path())?, &mut package);
        }
    }
    Ok(package)
}

/// True for files that people write.
pub(crate) fn is_source(name: &str) -> bool {
    let generated = name.starts_with("zz_") || name.starts_with("generated") || name.contains("_generated");
    name.ends_with(".go") && !name.ends_with("_test.go") && !generated
}

fn read_source(text: &str, package: &mut Package) {
    let mut markers = Vec::new();
    let mut current: Option<String> = None;
    let mut importing = false;
    for line in text.lines() {
        let line = line.trim();
        if line.is_empty() {
            markers.clear();
        } else if let Some(comment) = line.strip_prefix("//") {
            markers.extend(comment.trim().strip_prefix('+').map(str::to_owned));
            continue;
        } else if importing || line.starts_with("import \"") {
            importing = importing && line != ")";
            read_import(line.trim_start_matches("import "), package);
        } else if line == "import (" {
            importing = true;
        } else if current.is_some() && line == "}" {
            current = None;
        } else if let Some(name) = &current {
            let fields = &mut package.structs.entry(name.clone()).or_default().fields;
            fields.extend(read_field(line, std::mem::take(&mut markers)));
        } else if let Some(declared) = line.strip_prefix("type ") {
            current = read_type(declared, std::mem::take(&mut markers), package);
        } else {
            read_constant(line, package);
        }
        markers.clear();
    }
}

fn read_import(line: &str, package: &mut Package) {
    let Some((alias, path)) = line.split_once('"') else {
        return;
    };
    let path = path.trim_end_matches('"');
    let last = path.rsplit('/').next().unwrap_or(path);
    let alias = Some(alias.trim()).filter(|alias| !alias.is_empty()).unwrap_or(last);
    package.imports.insert(alias.to_owned(), path.to_owned());
}

/// Reads what follows `type`; gives the name of a struct whose fields follow.
fn read_type(declared: &str, markers: Vec<String>, package: &mut Package) -> Option<String> {
    let (name, ty) = declared.split_once(' ')?;
    let ty = ty.trim_start();
    if ty.starts_with("struct") {
        let declared = package.structs.entry(name.to_owned()).or_default();
        declared.markers = markers;
        return ty.ends_with('{').then(|| name.to_owned());
    }
    if markers.iter().any(|marker| marker == "enum") {
        package.enums.insert(name.to_owned());
    }
    package.named.insert(name.to_owned(), ty.to_owned());
    None
}

/// Reads `Name Type = "value"`, `Name = Type("value")` and `Name = Type(other.Name)`, in a block or after `const`.
fn read_constant(line: &str, package: &mut Package) {
    let Some((declared, value)) = line.trim_start_matches("const ").split_once(" = ") else {
        return;
    };
    let mut words = declared.split_whitespace();
    let (Some(name), mut ty) = (words.next(), words.next()) else {
        return;
    };
    let mut value = value.split("//").next().unwrap_or(value).trim();
    if let Some((converted, inner)) = value.strip_suffix(')').and_then(|value| value.split_once('(')) {
        ty = ty.or(Some(converted));
        value = inner;
    }
    let text = if let Some(text) = value.strip_prefix('"') {
        let text = text.trim_end_matches('"').to_owned();
        package.values.insert(name.to_owned(), text.clone());
        text
    } else {
        format!("={value}")
    };
    if let Some(ty) = ty {
        package.constants.entry(ty.to_owned()).or_default().insert(text);
    }
}

fn read_field(line: &str, markers: Vec<String>) -> Option<GoField> {
    let (declared, tags) = line.split_once('`')?;
    let mut words = declared.split_whitespace();
    let first = words.next()?;
    let ty: Vec<&str> = words.collect();
    let mut json = tag_named(tags, "json")?.split(',');
    let name = json.next().unwrap_or_default();
    if name == "-" {
        return None;
    }
    let tag = tag_named(tags, "protobuf").and_then(|tag| tag.split(',').nth(1));
    Some(GoField {
        ty: if ty.is_empty() { first.to_owned() } else { ty.join(" ") },
        json: name.to_owned(),
        options: json.map(str::to_owned).collect(),
        tag: tag.unwrap_or_default().to_owned(),
        markers,
    })
}

fn tag_named<'t>(tags: &'t str, name: &str) -> Option<&'t str> {
    let (_, rest) = tags.split_once(&format!("{name}:\""))?;
    rest.split('"').next()
}

/// Reads methods such as `func (in *X) APILifecycleRemoved()`, whose second line returns the release or the successor.
fn read_lifecycle(text: &str, package: &mut Package) {
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let method = line
            .strip_prefix("func (in *")
            .and_then(|rest| rest.split_once(") APILifecycle"));
        let Some((kind, method)) = method else {
            continue;
        };
        let method = method.split('(').next().unwrap_or(method).to_ascii_lowercase();
        let returned = lines.next().unwrap_or_default().trim().trim_start_matches("return ");
        let value = if returned.contains('{') {
            let parts: Vec<&str> = returned.split('"').skip(1).step_by(2).collect();
            parts.join("/")
        } else {
            returned.replace(", ", ".")
        };
        let lifecycle = package.lifecycle.entry(kind.to_owned()).or_default();
        lifecycle.push(format!("{method}={value}"));
    }
}
