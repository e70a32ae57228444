//! Makes the generated files under `data` in two steps, see `PROVENANCE.md` there.
//!
//! `schema-generate --tree DIR --version VERSION` takes the facts out of a tree of Kubernetes' sources and writes them
//! with `sources.txt`, which names the hashes of all that was read and written. Then, and without `--tree` only this, it
//! derives `types.txt` from the facts. `--check` fails if a file is not what `sources.txt` or the derivation says.

mod emit;
mod extract;
mod facts;
mod go;

use std::{
    collections::BTreeMap,
    error::Error,
    fmt::Write as _,
    fs,
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

use facts::FieldData;
use flate2::{Compression, read::ZlibDecoder, write::ZlibEncoder};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

const FACTS: &str = "facts.txt";
const DEFINITIONS: &str = "definitions.json.z";
const TYPES: &str = "types.txt";
const SOURCES: &str = "sources.txt";

/// The files that hold what a tree says.
const EXTRACTED: [&str; 5] = [FACTS, "enums.txt", "go-types.txt", "lifecycle.txt", DEFINITIONS];

#[derive(Default)]
struct Arguments {
    check: bool,
    tree: Option<PathBuf>,
    version: Option<String>,
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("schema-generate: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let arguments = arguments()?;
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("data");
    if let Some(tree) = &arguments.tree {
        let version = arguments.version.as_deref().ok_or("--tree needs --version")?;
        write_extracted(&data, tree, version)?;
    }
    let types = derive(&data)?;
    if arguments.check {
        return check(&data, &types);
    }
    Ok(fs::write(data.join(TYPES), types)?)
}

fn arguments() -> Result<Arguments, Box<dyn Error>> {
    let mut given = Arguments::default();
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--check" => given.check = true,
            "--tree" => given.tree = Some(words.next().ok_or("--tree names no folder")?.into()),
            "--version" => given.version = Some(words.next().ok_or("--version names none")?),
            other => return Err(format!("unknown argument {other}").into()),
        }
    }
    Ok(given)
}

fn write_extracted(data: &Path, tree: &Path, version: &str) -> Result<(), Box<dyn Error>> {
    let extracted = extract::extract(tree)?;
    let contents = [
        extracted.facts.into_bytes(),
        extracted.enums.into_bytes(),
        extracted.go_types.into_bytes(),
        extracted.lifecycle.into_bytes(),
        serde_json::to_vec(&extracted.definitions)?,
    ];
    let mut sources = format!("# Made by schema-generate; do not edit.\nkubernetes {version}\n");
    for (name, content) in EXTRACTED.into_iter().zip(contents) {
        writeln!(sources, "output {} {name}", hash(&content))?;
        fs::write(data.join(name), packed(name, content)?)?;
    }
    for input in extracted.inputs {
        let content = fs::read(tree.join(&input))?;
        writeln!(sources, "input {} {}", hash(&content), input.display())?;
    }
    Ok(fs::write(data.join(SOURCES), sources)?)
}

fn derive(data: &Path) -> Result<String, Box<dyn Error>> {
    let read = |name: &str| fs::read_to_string(data.join(name)).map_err(|error| format!("{name}: {error}"));
    let definitions: BTreeMap<String, Value> = serde_json::from_slice(&unpacked(data, DEFINITIONS)?)?;
    let mut known = FieldData::default();
    known.read_facts(&read(FACTS)?);
    known.read_defaults(&read("defaults.txt")?);
    known.read_presence(&read("presence.txt")?);
    let types = emit::structure(&definitions, &mut known)?;
    let unused = known.unused();
    if !unused.is_empty() {
        return Err(format!("data files name fields that do not exist: {unused:#?}").into());
    }
    Ok(types)
}

/// Compares the extracted files with the hashes noted when they were extracted, and the derived one with `types`.
fn check(data: &Path, types: &str) -> Result<(), Box<dyn Error>> {
    let sources = fs::read_to_string(data.join(SOURCES))?;
    let mut differing = Vec::new();
    for name in EXTRACTED {
        // Compressors differ in what they make of the same content, so only the content is compared.
        let noted = format!("output {} {name}", hash(&unpacked(data, name)?));
        if !sources.lines().any(|line| line == noted) {
            differing.push(name);
        }
    }
    if fs::read_to_string(data.join(TYPES))? != types {
        differing.push(TYPES);
    }
    if differing.is_empty() {
        return Ok(());
    }
    let names = differing.join(", ");
    Err(format!("not what their sources give: {names}; run `make schema`").into())
}

fn hash(content: &[u8]) -> String {
    let digest = Sha256::digest(content);
    digest
        .iter()
        .fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

fn is_packed(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|extension| extension == "z")
}

fn unpacked(data: &Path, name: &str) -> io::Result<Vec<u8>> {
    let bytes = fs::read(data.join(name))?;
    if !is_packed(name) {
        return Ok(bytes);
    }
    let mut content = Vec::new();
    ZlibDecoder::new(bytes.as_slice()).read_to_end(&mut content)?;
    Ok(content)
}

fn packed(name: &str, content: Vec<u8>) -> io::Result<Vec<u8>> {
    if !is_packed(name) {
        return Ok(content);
    }
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&content)?;
    encoder.finish()
}
