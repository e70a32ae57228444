//! Makes the files under `data` that follow from other sources: `facts.txt` from k8s-pb, and `types.txt` and
//! `definitions.json.z`, which the crate embeds, from k8s-openapi's JSON schemas and the other data files.
//!
//! `schema-generate [--check] [--source DIR]` writes the files whose content changed, or compares them and fails if one
//! differs. `DIR` holds k8s-pb; without `--source` cargo is asked where it lies.

mod definitions;
mod emit;
mod facts;
mod protobuf;
mod roots;

use std::{
    error::Error,
    fs,
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

use facts::Facts;
use flate2::{Compression, read::ZlibDecoder, write::ZlibEncoder};

const FACTS: &str = "facts.txt";
const TYPES: &str = "types.txt";
const DEFINITIONS: &str = "definitions.json.z";

/// A file under `data` with its content before compression.
struct GeneratedFile {
    name: &'static str,
    content: Vec<u8>,
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
    let mut arguments = std::env::args().skip(1);
    let (mut check, mut source) = (false, None);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--check" => check = true,
            "--source" => source = Some(arguments.next().map(PathBuf::from).ok_or("--source names no folder")?),
            other => return Err(format!("unknown argument {other}").into()),
        }
    }
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("data");
    let mut differing = Vec::new();
    for GeneratedFile { name, content } in generate(&data, source)? {
        let file = data.join(name);
        // Compressors differ in what they make of the same content, so only the content is compared.
        if unpacked(&file).is_ok_and(|present| present == content) {
            continue;
        }
        differing.push(name);
        if !check {
            fs::write(&file, packed(&file, content)?)?;
        }
    }
    if check && !differing.is_empty() {
        return Err(format!(
            "not what their sources give: {}; run `make schema`",
            differing.join(", ")
        )
        .into());
    }
    Ok(())
}

fn generate(data: &Path, source: Option<PathBuf>) -> Result<[GeneratedFile; 3], Box<dyn Error>> {
    let read = |name: &str| fs::read_to_string(data.join(name)).map_err(|error| format!("{name}: {error}"));
    let mut definitions = definitions::all();
    let facts = protobuf::facts(&definitions, source)?;
    let mut known = Facts::default();
    known.read_facts(&facts);
    known.read_facts(&read("facts-1.36.txt")?);
    known.read_defaults(&read("defaults.txt")?);
    known.read_presence(&read("presence.txt")?);
    let types = emit::structure(&mut definitions, &mut known);
    let unused = known.unused();
    if !unused.is_empty() {
        return Err(format!("data files name fields that do not exist: {unused:#?}").into());
    }
    Ok([
        (FACTS, facts.into_bytes()),
        (TYPES, types.into_bytes()),
        (DEFINITIONS, serde_json::to_vec(&definitions)?),
    ]
    .map(|(name, content)| GeneratedFile { name, content }))
}

fn is_packed(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "z")
}

fn unpacked(file: &Path) -> io::Result<Vec<u8>> {
    let bytes = fs::read(file)?;
    if !is_packed(file) {
        return Ok(bytes);
    }
    let mut content = Vec::new();
    ZlibDecoder::new(bytes.as_slice()).read_to_end(&mut content)?;
    Ok(content)
}

fn packed(file: &Path, content: Vec<u8>) -> io::Result<Vec<u8>> {
    if !is_packed(file) {
        return Ok(content);
    }
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&content)?;
    encoder.finish()
}
