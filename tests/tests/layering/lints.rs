//! The modules that read bytes from outside keep the lints that docs/security.md promises for them.

use std::collections::BTreeSet;
use std::fs;

use trireme_tests::folder;

use super::rust_files;

/// Each index is a `get`, and each sum says what becomes of an overflow.
const LINTS: &str = "#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::arithmetic_side_effects))]";

/// The files that have the lints, for themselves and for the modules below them. The list only grows.
const LINTED: &[&str] = &[
    "cluster/src/transport/frame.rs",
    "src/aggregation/src/openapi.rs",
    "src/auth/src/certificate.rs",
    "src/auth/src/front_proxy.rs",
    "src/auth/src/oidc/claims.rs",
    "src/auth/src/oidc/id_token.rs",
    "src/auth/src/password_file.rs",
    "src/auth/src/token.rs",
    "src/auth/src/token_file.rs",
    "src/auth/src/x509.rs",
    "src/cel/src/syntax/mod.rs",
    "src/edge/src/body.rs",
    "src/edge/src/delete_options.rs",
    "src/edge/src/handlers/connection/links.rs",
    "src/edge/src/handlers/connection/page.rs",
    "src/edge/src/negotiation/mod.rs",
    "src/edge/src/options.rs",
    "src/edge/src/query.rs",
    "src/edge/src/request_info.rs",
    "src/http/src/server/bridge.rs",
    "src/http/src/server/lengths.rs",
    "src/http/src/websocket/handshake.rs",
    "src/http/src/websocket/offer.rs",
    "src/kinds/src/certificates/keys.rs",
    "src/kinds/src/certificates/pem.rs",
    "src/kinds/src/certificates/x509.rs",
    "src/machinery/src/go_regex/class.rs",
    "src/machinery/src/go_regex/escapes.rs",
    "src/machinery/src/go_regex/mod.rs",
    "src/machinery/src/go_regex/parser.rs",
    "src/machinery/src/go_regex/shape.rs",
    "src/machinery/src/go_regex/unicode.rs",
    "src/machinery/src/json/mod.rs",
    "src/machinery/src/patch/mod.rs",
    "src/machinery/src/protobuf/any.rs",
    "src/machinery/src/protobuf/message.rs",
    "src/machinery/src/protobuf/wire.rs",
    "src/machinery/src/quantity.rs",
    "src/machinery/src/selector/mod.rs",
    "src/machinery/src/webhook_answer.rs",
    "src/machinery/src/yaml/mod.rs",
    "src/registry/src/list_options.rs",
    "src/registry/src/reads/token.rs",
    "src/registry/src/selectable.rs",
    "src/registry/src/stored.rs",
    "src/storage/src/embedded/tables.rs",
    "src/storage/src/encryption/aes.rs",
    "src/storage/src/encryption/secretbox.rs",
];

#[test]
fn modules_that_read_bytes_from_outside_keep_their_lints() {
    let root = folder().parent().expect("the tests are in the workspace");
    let files = ["src", "cluster"].map(|top| rust_files(&root.join(top)));
    let linted = files.into_iter().flatten().filter(|file| {
        let text = fs::read_to_string(file).expect("the file can be read");
        text.lines().any(|line| line == LINTS)
    });
    let linted: BTreeSet<String> = linted
        .map(|file| {
            let name = file.strip_prefix(root).expect("below the root");
            name.to_string_lossy().into_owned()
        })
        .collect();
    let listed: BTreeSet<String> = LINTED.iter().map(|name| (*name).to_owned()).collect();
    let errors: Vec<String> = listed
        .difference(&linted)
        .map(|name| format!("{name} has lost its lints, or is gone: write {LINTS} below its header"))
        .chain(
            linted
                .difference(&listed)
                .map(|name| format!("{name} has the lints: add it to LINTED, so that it keeps them")),
        )
        .collect();
    assert!(errors.is_empty(), "\n{}", errors.join("\n"));
}
