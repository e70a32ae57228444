//! Turns k8s-openapi's JSON schemas and the files under `data` into what the crate embeds, so that neither
//! k8s-openapi nor schemars is part of the server.

#[path = "build/definitions.rs"]
mod definitions;
#[path = "build/emit.rs"]
mod emit;
#[path = "build/facts.rs"]
mod facts;
#[path = "build/roots.rs"]
mod roots;

use std::{env, fs, io::Write as _, path::Path};

use flate2::{Compression, write::ZlibEncoder};

#[expect(
    clippy::disallowed_methods,
    reason = "a build script is told by its environment where to write"
)]
fn main() {
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-changed=data");
    let mut known = facts::Facts::default();
    known.read_facts(&read("facts.txt"));
    known.read_facts(&read("facts-1.36.txt"));
    known.read_defaults(&read("defaults.txt"));
    known.read_presence(&read("presence.txt"));

    let mut definitions = definitions::all();
    let types = emit::structure(&mut definitions, &mut known);
    let unused = known.unused();
    assert!(
        unused.is_empty(),
        "data files name fields that do not exist: {unused:#?}"
    );

    let out = env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    let write = |name: &str, bytes: &[u8]| fs::write(Path::new(&out).join(name), bytes).expect("OUT_DIR is writable");
    write("types.txt", types.as_bytes());
    let json = serde_json::to_vec(&definitions).expect("definitions are JSON");
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&json).expect("memory is writable");
    write("definitions.json.z", &encoder.finish().expect("memory is writable"));
}

fn read(name: &str) -> String {
    let path = Path::new("data").join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
