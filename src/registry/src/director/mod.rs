//! The director: learns resources as they come and go and publishes the route table.
//!
//! Called by the composition root with the built-in resources, and by whoever serves custom ones; the edge only reads
//! the table. Promise: a table is whole, and a route in it leads to a registry that answers or says why it cannot yet.

mod access;
mod actor;
mod handle;
mod logic;
mod messages;
#[cfg(test)]
mod tests;

pub use handle::{DirectorError, DirectorHandle, Registries};
pub use logic::{Route, RouteTable};
