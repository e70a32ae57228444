//! The objects of API priority and fairness.

mod catalogue;
mod configuration;
mod status;

pub use configuration::FlowConfiguration;
pub use status::FlowStatus;
