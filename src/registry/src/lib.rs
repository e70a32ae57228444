//! Registries, watch caches, the store watcher, the read index and the director.
//!
//! The data's way: `edge` decodes a request into one of the structs of [`request`] and hands it to a
//! [`RegistryHandle`]; the registry runs the resource's [`Strategy`] and the [`Admission`] chain and writes bytes to
//! the store; the store watcher sees the write come back and feeds the resource's watch cache, from which every read
//! is answered. Nothing here knows HTTP.

pub mod admission;
pub mod info;
pub mod item;
pub mod request;
pub mod strategy;

pub use admission::{Admission, Attributes, Operation};
pub use info::{Column, Conversion, ResourceInfo, SelectableField, ServedVersion};
pub use item::{Item, ItemKey};
pub use strategy::{Deletion, SideEffects, Strategy, WriteContext};
