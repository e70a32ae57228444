//! Field sets, the managers of an object's fields, and server-side apply: pure functions over values and their schema.
//!
//! [`Managers`] is `metadata.managedFields`, decoded; [`Managers::update`] and [`Managers::apply`] say who owns what after
//! a write. The registry calls them in the stage *managed fields*, with objects in the version of the request.

mod atomics;
mod conflict;
mod entries;
mod merge;
mod merge_schema;
mod node;
mod path;
#[cfg(test)]
mod properties;
mod scale;
mod set;
mod stored;
#[cfg(test)]
mod tests;
mod updater;
mod validate;
mod walk;

pub use atomics::atomics;
pub use conflict::Conflicts;
pub use entries::{ManagerId, Managers, is_reset, same_but_for_times};
pub use merge::{merge, without};
pub use merge_schema::{MergeField, MergeSchema};
pub use node::SchemaNode;
pub use path::{PathElement, PathValue};
pub use scale::{ReplicasPaths, SCALE_VERSION};
pub use set::FieldSet;
pub use stored::{apply_owned, update_owned};
pub use updater::ManagedVersions;
pub use validate::validate;
pub use walk::{FieldComparison, fields_of};
