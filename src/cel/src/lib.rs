//! Expressions in the Common Expression Language: parsed, type-checked, compiled once, evaluated under cost budgets.
//!
//! Used by whatever holds expressions: admission policies, webhooks, selectors of devices. [`compile`] gives the type of
//! an expression; a [`Program`] is evaluated with the variables of an [`Activation`] at the cost of a [`Budget`], and a
//! [`ProgramCache`] keeps programs. The type checker follows cel-go's `checker` with the functions that kube-apiserver
//! declares (`k8s.io/apiserver/pkg/cel/library`); errors are in cel-go's words, costs are those of kube-apiserver.
//!
//! ```text
//! text ─ syntax ─► tree ─ check ─► typed tree ─ plan ─► Program ─ eval + library + meter ─► Value
//! ```
//!
//! Parser, checker and evaluator walk down into an expression on the stack of their caller; the parser refuses
//! expressions before they are too deep for that. Why this is not the `cel` or the `kube-cel` crate: ADR 23.

mod authorizer;
mod cache;
mod check;
mod constants;
mod declarations;
mod environment;
mod error;
mod estimate;
mod eval;
mod ext;
mod library;
mod meter;
mod plan;
mod program;
mod syntax;
#[cfg(test)]
mod tests;
mod types;
mod value;

pub use authorizer::{AuthorizerCheck, AuthorizerRef, CheckAuthorizer, CheckDecision, CheckObject, ResourceCheck};
pub use cache::ProgramCache;
pub use environment::{AdmissionVariables, DeviceVariables, Environment};
pub use error::{CompileError, Issue};
pub use estimate::{BoundSizes, Estimate};
pub use eval::Activation;
pub use ext::semvers::SemanticVersion;
pub use meter::{Budget, EvalError, MATCH_CONDITIONS_BUDGET, PER_CALL_LIMIT, RUNTIME_BUDGET};
pub use program::{Evaluated, Program, authority, compile};
pub use syntax::{escape_field, is_identifier, selects_field, unescape_field};
pub use types::Type;
pub use value::{AuthorizerValue, Cidr, LazyFields, List, Map, MapEntries, MapKey, Opaque, Text, Value};
