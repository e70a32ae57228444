//! Bad input: requests that are wrong in one way each, and the answer that each must get.
//!
//! The cases stand in `tests/bad-input/*.txt`, one a line, below the request that they are put into:
//!
//! ```text
//! # A comment.
//! [selectors] GET /api/v1/pods?labelSelector=$URL
//!
//! a in (                                      => 400 BadRequest | unable to parse requirement
//! ${repeat("a,", 3)}a in                      => 400 BadRequest
//!
//! [json-syntax] POST /api/v1/namespaces/default/configmaps
//! Content-Type: application/json
//! as: alice
//! body: {"kind": $CASE}
//!
//! nul                                         => 403 Forbidden
//! ```
//!
//! A section begins with its category and the request line; headers, `as: USER` and `body: …` may follow, then an empty
//! line, then cases. `file.rs` has the holes (`$CASE`, `$URL`, `$BASE64`, `$1` …), `grammar.rs` what `${…}` makes,
//! `judge.rs` what may stand behind `=>`. A section `[category] raw` sends the case as it stands over TLS.
//!
//! kube-apiserver gave the answer behind `=>`, too, or the one behind `<>` that may follow; it was not asked for one behind `~>`.
//!
//! With `UPDATE_EXPECT=1` the files are rewritten with the answers that came.

mod file;
mod grammar;
mod judge;

pub use file::{Case, CaseFile, Reference, load_all};
pub use judge::{Came, Expected};
