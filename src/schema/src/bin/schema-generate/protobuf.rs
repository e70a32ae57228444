//! Makes the facts about fields that OpenAPI schemas do not carry out of the doc comments and `prost` attributes of
//! k8s-pb.

use std::{
    collections::{BTreeMap, HashMap},
    error::Error,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;
use trireme_schema::short_name;

use crate::emit;

const HEADER: &str = "\
# What the protobuf definitions of Kubernetes 1.35 say of each field beyond its schema. Made by schema-generate; do not edit.
# TYPE [struct=atomic]
#  FIELD TAG [list=atomic|set|map:KEYS] [map=atomic] [patch=STRATEGIES] [key=MERGEKEY] [default=JSON]
# A tag a.b belongs to a field of the struct with tag a that Go embeds.
";

/// A protobuf message as k8s-pb declares it.
#[derive(Default)]
struct Message {
    markers: Vec<String>,
    fields: Vec<MessageField>,
}

#[derive(Default)]
struct MessageField {
    name: String,
    ty: String,
    tag: String,
    markers: Vec<String>,
}

type Messages = HashMap<String, Message>;

/// The file of facts about the struct types among `definitions`. Without `source` it asks cargo where k8s-pb lies.
pub(crate) fn facts(definitions: &BTreeMap<String, Value>, source: Option<PathBuf>) -> Result<String, Box<dyn Error>> {
    let source = source.map_or_else(locate, Ok)?;
    let mut messages = Messages::new();
    read_folder(&source.join("src"), &mut Vec::new(), &mut messages)?;
    Ok(render(definitions, &messages))
}

/// Asks cargo for the folder of k8s-pb, which is a dependency under a feature that nothing enables.
fn locate() -> Result<PathBuf, Box<dyn Error>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--features", "facts"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata["packages"]
        .as_array()
        .ok_or("cargo metadata names no packages")?;
    let package = packages.iter().find(|package| package["name"] == "k8s-pb");
    let manifest = package.and_then(|package| package["manifest_path"].as_str());
    let folder = manifest.and_then(|path| Path::new(path).parent());
    Ok(folder.ok_or("k8s-pb is not among the packages")?.to_owned())
}

fn read_folder(folder: &Path, place: &mut Vec<String>, messages: &mut Messages) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type()?.is_dir() {
            place.push(name);
            read_folder(&entry.path(), place, messages)?;
            place.pop();
        } else if let ([.., group, version], "mod.rs") = (place.as_slice(), name.as_str()) {
            read_messages(
                &format!("{group}.{version}"),
                &fs::read_to_string(entry.path())?,
                messages,
            );
        }
    }
    Ok(())
}

fn read_messages(package: &str, text: &str, messages: &mut Messages) {
    let (mut current, mut markers, mut tag) = (String::new(), Vec::new(), String::new());
    let mut lines = text.lines().map(str::trim);
    while let Some(line) = lines.next() {
        if let Some(comment) = line.strip_prefix("///") {
            markers.extend(comment.trim().strip_prefix('+').map(str::to_owned));
        } else if let Some(attribute) = line.strip_prefix("#[prost(") {
            tag = attribute
                .split("tag = \"")
                .nth(1)
                .and_then(|rest| rest.split('"').next())
                .unwrap_or("")
                .to_owned();
        } else if let Some(name) = line.strip_prefix("pub struct ") {
            current = format!("{package}.{}", plain(name));
            let message = messages.entry(current.clone()).or_default();
            message.markers = std::mem::take(&mut markers);
        } else if let Some((name, ty)) = line.strip_prefix("pub ").and_then(|rest| rest.split_once(':')) {
            let ty = if ty.is_empty() {
                lines.next().unwrap_or_default()
            } else {
                ty
            };
            if let Some(message) = messages.get_mut(&current) {
                message.fields.push(MessageField {
                    name: plain(name.trim_start_matches("r#")),
                    ty: innermost(ty),
                    tag: std::mem::take(&mut tag),
                    markers: std::mem::take(&mut markers),
                });
            }
        }
    }
}

/// `pod_ip` and `podIP` are one name; `_` marks Rust keywords too.
fn plain(name: &str) -> String {
    name.chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|letter| letter.to_ascii_lowercase())
        .collect()
}

/// `VolumeSource` of `::core::option::Option<VolumeSource>`.
fn innermost(ty: &str) -> String {
    let ty = ty.rsplit('<').next().unwrap_or(ty);
    let ty = ty.trim_end_matches([',', '>']);
    ty.rsplit("::").next().unwrap_or(ty).to_owned()
}

fn render(definitions: &BTreeMap<String, Value>, messages: &Messages) -> String {
    let mut out = HEADER.to_owned();
    let mut types: Vec<_> = emit::structs(definitions).collect();
    types.sort_by_key(|(name, _)| short_name(name));
    for (name, body) in types {
        let short = short_name(name);
        let names: BTreeMap<String, &str> = body["properties"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(field, _)| (plain(field), field.as_str()))
            .collect();
        let mut lines = Vec::new();
        if let Some(message) = short
            .rsplit_once('.')
            .and_then(|(package, name)| find_message(messages, package, name))
        {
            let atomic = message.markers.iter().any(|marker| marker == "structType=atomic");
            out.push_str(short);
            out.push_str(if atomic { " struct=atomic\n" } else { "\n" });
            describe(message, "", short, &names, messages, &mut lines);
        }
        for line in lines {
            writeln!(out, " {line}").expect("strings grow");
        }
    }
    out
}

/// Finds a message whatever the case of its name: `RBDVolumeSource` is `RbdVolumeSource` in Rust.
fn find_message<'m>(messages: &'m Messages, package: &str, name: &str) -> Option<&'m Message> {
    messages.get(&format!("{package}.{}", plain(name)))
}

fn describe(
    message: &Message,
    prefix: &str,
    owner: &str,
    names: &BTreeMap<String, &str>,
    messages: &Messages,
    lines: &mut Vec<String>,
) {
    for field in &message.fields {
        let tag = format!("{prefix}{}", field.tag);
        if let Some(name) = names.get(&field.name) {
            lines.push(format!("{name} {tag}{}", facts_of(&field.markers)));
            continue;
        }
        let package = owner.rsplit_once('.').map_or(owner, |(package, _)| package);
        if let Some(embedded) = find_message(messages, package, &field.ty) {
            describe(embedded, &format!("{tag}."), owner, names, messages, lines);
        }
    }
}

fn facts_of(markers: &[String]) -> String {
    let value = |name: &str| {
        let value = markers.iter().find_map(|marker| marker.strip_prefix(name));
        value.map(|value| value.trim().to_owned()).unwrap_or_default()
    };
    let mut keys: Vec<&str> = markers
        .iter()
        .filter_map(|marker| marker.strip_prefix("listMapKey="))
        .collect();
    keys.dedup();
    let mut out = String::new();
    match value("listType=").as_str() {
        "" => {}
        "map" => {
            out.push_str(" list=map:");
            out.push_str(&keys.join(","));
        }
        other => {
            out.push_str(" list=");
            out.push_str(other);
        }
    }
    for (name, marker) in [
        ("map", "mapType="),
        ("map", "structType="),
        ("patch", "patchStrategy="),
        ("key", "patchMergeKey="),
        ("default", "default="),
    ] {
        let value = value(marker);
        if !value.is_empty() && !value.starts_with("ref(") && value != "granular" {
            out.push_str(&format!(" {name}={value}"));
        }
    }
    out
}
