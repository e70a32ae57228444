//! Behaviour of a kind beyond its data: the hooks of `k8s.io/apiserver/pkg/registry/rest`.

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use serde_json::Value;
use trireme_machinery::{
    ApiError, GroupVersion, GroupVersionKind,
    field::ErrorList,
    names::{self, NameCheck},
};

use crate::{
    request::{Subresource, WriteContext},
    subresource::SubresourceRole,
    verb::Verbs,
};

/// The effect of a delete on an object without finalizers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deletion {
    /// It is removed at once.
    Immediate,
    /// It is marked, and removed by another component (a kubelet) within so many seconds.
    Graceful(i64),
}

/// The fields that writes through an endpoint of a resource cannot change, as dotted paths, and all below of them.
#[derive(Debug, Clone, Copy)]
pub struct ResetFields(pub &'static [&'static str]);

impl ResetFields {
    /// Those of kinds whose `/status` changes nothing but the status.
    pub fn of_bare_status(subresource: Subresource) -> Self {
        Self(match subresource {
            Subresource::Status => &["metadata", "spec"],
            _ => &["status"],
        })
    }
}

/// Checks of metadata that repeat those of all objects. Clients see each repetition as a cause of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetadataChecks {
    /// None.
    None,
    /// Those of a new object.
    OfNew,
    /// Those of a new object, twice.
    OfNewTwice,
    /// Those of the change.
    OfChange,
    /// Those of the change and of a new object.
    OfBoth,
}

/// A kind's own behaviour. All hooks are synchronous and pure: they see objects in the stored version.
///
/// Order of a create: decode and static defaults → [`default`](Self::default) → mutating admission → metadata is filled in →
/// [`drop_disabled`](Self::drop_disabled) → [`prepare_for_create`](Self::prepare_for_create) → [`validate`](Self::validate) →
/// [`canonicalize`](Self::canonicalize) → validating admission. Of an update: the same with the update hooks; metadata that clients may not
/// change is taken from the old object before `prepare_for_update`.
pub trait Strategy: Send + Sync + 'static {
    /// Defaults that depend on other fields (`SetDefaults_…`); runs for every decoded object, after the static ones.
    fn default(&self, _object: &mut Value) {}

    /// Fills in what objects lack that were stored before their kind had it; runs for those that others have stored, after
    /// [`default`](Self::default).
    fn default_on_read(&self, _object: &mut Value) {}

    /// Defaults that are the time of the request; runs right after [`default`](Self::default).
    fn default_times(&self, _now: Timestamp, _object: &mut Value) {}

    /// Takes away fields of features that are off, unless the old object has them (`dropDisabledFields`); runs right before
    /// the object is prepared, so that the manager that sent them is recorded as their owner.
    fn drop_disabled(&self, _object: &mut Value, _old: Option<&Value>) {}

    /// The reason that Kubernetes could not bring an object that was sent into its internal form (`Convert_…`), if it could not.
    fn conversion_error(&self, _object: &Value) -> Option<String> {
        None
    }

    /// The check of names.
    fn name_check(&self) -> NameCheck {
        names::name_is_dns_subdomain
    }

    /// Sets what clients may not: clears the status, fills fields that the server owns.
    fn prepare_for_create(&self, _context: &WriteContext, _object: &mut Value) {}

    /// Errors of a new object, beyond its metadata.
    fn validate(&self, _context: &WriteContext, _object: &Value) -> ErrorList {
        ErrorList::new()
    }

    /// Carries over what an update may not change, such as the status.
    fn prepare_for_update(&self, _context: &WriteContext, _new: &mut Value, _old: &Value) {}

    /// Errors of an update, beyond its metadata. Most kinds also hold the new object against
    /// [`validate`](Self::validate)'s rules.
    fn validate_update(&self, context: &WriteContext, new: &Value, _old: &Value) -> ErrorList {
        self.validate(context, new)
    }

    /// Carries over what an update of `/status` may not change: by default everything but status and metadata.
    fn prepare_for_status_update(&self, _context: &WriteContext, new: &mut Value, old: &Value) {
        keep_all_but_status_and_metadata(new, old);
    }

    /// Errors of an update of `/status`, beyond its metadata.
    fn validate_status_update(&self, _context: &WriteContext, _new: &Value, _old: &Value) -> ErrorList {
        ErrorList::new()
    }

    /// Carries over what an update of `/finalize` may not change. Only namespaces have that subresource.
    fn prepare_for_finalize(&self, _context: &WriteContext, _new: &mut Value, _old: &Value) {}

    /// Errors of an update of `/finalize`, beyond its metadata.
    fn validate_finalize(&self, _context: &WriteContext, _new: &Value, _old: &Value) -> ErrorList {
        ErrorList::new()
    }

    /// The fields that a write of the object or of its subresource cannot change, so that its writer does not own them
    /// (`GetResetFields`).
    fn reset_fields(&self, subresource: Subresource) -> ResetFields {
        ResetFields(match subresource {
            Subresource::Status => &["spec"],
            Subresource::None | Subresource::Update(_) | Subresource::Finalize => &["status"],
            Subresource::Scale | Subresource::Create(_) | Subresource::Connect(_) => &[],
        })
    }

    /// Those of a field set of a version (the second one), for a write in another or the same.
    fn reset_fields_in(&self, subresource: Subresource, _versions: (&GroupVersion, &GroupVersion)) -> ResetFields {
        self.reset_fields(subresource)
    }

    /// A subresource of the kind's own.
    fn subresource(&self, _name: &str) -> Option<SubresourceRole<'_>> {
        None
    }

    /// Last touches after validation.
    fn canonicalize(&self, _object: &mut Value) {}

    /// The words with which a field selector on `field` is refused in this version, where they are not the usual ones:
    /// for kinds that speak of it in a way of their own or know other fields in other versions.
    fn refuse_field(&self, _kind: &GroupVersionKind, _field: &str) -> Option<String> {
        None
    }

    /// `Warning` texts of a create, or of an update of the object itself or of its scale; `old` is there on update.
    fn warnings(&self, _new: &Value, _old: Option<&Value>) -> Vec<String> {
        Vec::new()
    }

    /// `Warning` texts of an update of `/status`: those of the object itself are for who writes the spec.
    fn status_warnings(&self, _new: &Value) -> Vec<String> {
        Vec::new()
    }

    /// Reports whether the kind has a `metadata.generation`.
    fn has_generation(&self) -> bool {
        false
    }

    /// Reports whether an update makes the generation grow: by default, when anything but metadata and status changed.
    fn is_new_generation(&self, new: &Value, old: &Value) -> bool {
        differs_beyond_metadata_and_status(new, old)
    }

    /// Reports whether a PUT to a name that does not exist creates it.
    fn allow_create_on_update(&self) -> bool {
        false
    }

    /// Reports whether a PUT may leave out the `resourceVersion`.
    fn allow_unconditional_update(&self) -> bool {
        true
    }

    /// Reports that the kind's own validation of a new object holds its metadata, too; if not, they are looked at only when all
    /// else is right.
    fn validates_metadata_of_new(&self) -> bool {
        true
    }

    /// The checks of metadata that the kind's own validation of an update holds beside those of all objects; the kinds of
    /// Kubernetes differ in that.
    fn metadata_checks_of_update(&self, _context: &WriteContext) -> MetadataChecks {
        MetadataChecks::OfBoth
    }

    /// Reports that finalizers without a domain must be standard ones: most kinds of Kubernetes ask for it, its extensions do
    /// not.
    fn wants_standard_finalizers(&self) -> bool {
        true
    }

    /// The reason that no objects can be created now, if they cannot.
    fn refuse_creation(&self) -> Option<&'static str> {
        None
    }

    /// The reason that the object of this name cannot be deleted on its own, if it cannot.
    fn refuse_deletion(&self, _name: &str) -> Option<&'static str> {
        None
    }

    /// The effect of a delete; `grace_period` is the one asked for.
    fn deletion(&self, _object: &Value, _grace_period: Option<i64>) -> Deletion {
        Deletion::Immediate
    }

    /// Called on an object that a delete only marks (grace period or finalizers), after `deletionTimestamp` is set:
    /// a namespace turns `Terminating` here.
    fn mark_deleted(&self, _object: &mut Value) {}

    /// Reports whether an object that is marked may go now although `metadata.finalizers` is empty: namespaces wait for
    /// `spec.finalizers`.
    fn may_be_removed(&self, _object: &Value) -> bool {
        true
    }

    /// Reports whether the first delete only marks the object, even one that may go, and no later one changes it before
    /// `may_be_removed`: so namespaces are deleted.
    fn is_marked_before_removal(&self) -> bool {
        false
    }

    /// Reports whether a delete that removes the object answers with the object instead of a `Status`.
    fn returns_deleted_object(&self) -> bool {
        false
    }

    /// The verbs that discovery shows of those that are served.
    fn discovered_verbs(&self, served: Verbs) -> Verbs {
        served
    }

    /// Reports whether OpenAPI describes that answer as the object.
    fn documents_deleted_object(&self) -> bool {
        self.returns_deleted_object()
    }

    /// The finalizer policy of a delete without one asked for: whether dependents are orphaned by default.
    fn orphans_by_default(&self) -> bool {
        false
    }

    /// Reports whether a delete can wait for dependents or leave them behind. Of what nothing depends on it just goes, whatever
    /// is asked for.
    fn may_have_dependents(&self) -> bool {
        true
    }

    /// Reports whether a delete is of the object that was found alone: validating admission sees its uid as a precondition.
    fn deletes_by_uid(&self) -> bool {
        false
    }

    /// The warning for a client that deletes without saying what becomes of the dependents.
    fn default_propagation_warning(&self) -> Option<&'static str> {
        None
    }
}

/// Reports whether two objects differ in more than their metadata and status.
pub fn differs_beyond_metadata_and_status(new: &Value, old: &Value) -> bool {
    let (Some(new), Some(old)) = (new.as_object(), old.as_object()) else {
        return new != old;
    };
    let matters = |name: &&String| !matches!(name.as_str(), "metadata" | "status" | "apiVersion" | "kind");
    new.keys()
        .chain(old.keys())
        .filter(matters)
        .any(|name| new.get(name) != old.get(name))
}

/// Replaces everything in `new` but its status and metadata by what `old` has.
pub fn keep_all_but_status_and_metadata(new: &mut Value, old: &Value) {
    let kept = ["status", "metadata"].map(|name| (name, new.get_mut(name).map(Value::take)));
    new.clone_from(old);
    let Some(fields) = new.as_object_mut() else { return };
    for (name, value) in kept {
        match value {
            Some(value) => fields.insert(name.to_owned(), value),
            None => fields.remove(name),
        };
    }
}

/// Work in the store that goes with a write, such as reserving a service's addresses.
///
/// Reservations are made before the object is written and given back if it is not. What a crash leaves behind, or a
/// write whose outcome is unknown, stays reserved: nothing looks for it yet.
pub trait SideEffects: Send + Sync + 'static {
    /// Reserves what a new or changed object needs and fills it in; `old` is there on update. With `dry_run` it
    /// fills in without reserving.
    fn reserve<'a>(
        &'a self,
        new: &'a mut Value,
        old: Option<&'a Value>,
        dry_run: bool,
    ) -> BoxFuture<'a, Result<Reservation, ApiError>>;

    /// Gives back what `object`, now deleted, held.
    fn release<'a>(&'a self, object: &'a Value) -> BoxFuture<'a, ()>;

    /// Ends a reservation: on `committed`, gives back what the old object no longer needs; else all that was new.
    fn finish(&self, reservation: Reservation, committed: bool) -> BoxFuture<'_, ()>;
}

/// Reservations that [`SideEffects::reserve`] took and may have to give back: opaque keys of its own making.
#[derive(Debug, Default, Clone)]
pub struct Reservation {
    /// Taken for the new object; given back if the write fails.
    pub taken: Vec<String>,
    /// No longer needed; given back if the write succeeds.
    pub dropped: Vec<String>,
}
