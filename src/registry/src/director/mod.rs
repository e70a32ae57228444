//! The director: learns resources as they come, change and go, and publishes the API surface.
//!
//! Called by the composition root with the built-in resources, and by the installer of custom ones; all others only
//! read the surface, and nothing else says what exists. Promise: a surface is whole, each change takes effect in it at
//! once, and a route in it leads to something that answers or says why it cannot yet.

mod access;
mod actor;
mod defined;
mod handle;
mod logic;
mod messages;
mod named_kind;
mod published;
#[cfg(test)]
mod tests;
mod virtual_resource;

pub use handle::{DirectorError, DirectorHandle, Registries, ResourceToServe};
pub use logic::{ApiSurface, Backend, Route, ServedResource};
pub use published::{PublishedSurface, ResourceLookup};
pub use virtual_resource::{VirtualBackend, VirtualCall, VirtualResource};
