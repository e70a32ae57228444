//! The objects of API priority and fairness.

mod configuration;
mod status;

pub use configuration::{DesiredFlowObject, FlowConfiguration};
pub use status::FlowStatus;

/// The level and the schema that nothing waits at.
const EXEMPT: &str = "exempt";
/// The level and the schema for what no other schema matches.
const CATCH_ALL: &str = "catch-all";
