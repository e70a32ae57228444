//! The next step of a client: drawn from its seed, so that one seed gives one load.

use rand::Rng;
use rand::rngs::StdRng;

use super::objects::{COLOURS, NAMESPACES, ObjectPath, Resource};

/// Objects that only one client writes.
const OWN: u32 = 6;
/// Objects that all clients write.
const SHARED: u32 = 8;
/// Counters that all clients count up.
const COUNTERS: u32 = 4;
/// Objects of one client that it deletes together.
const BATCH: u32 = 3;

/// The `resourceVersion` that a read asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestedFreshness {
    /// Unset: the newest.
    Newest,
    /// `0`: whatever the server has.
    Any,
    /// The newest revision that this client has seen: at least as new.
    Seen,
    /// Exactly a revision that this client has seen a list or a write at.
    Exact,
}

/// Which part of a list is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Scope {
    pub(crate) resource: Resource,
    /// All if `None`.
    pub(crate) namespace: Option<&'static str>,
    /// The colour that is selected, if one is.
    pub(crate) colour: Option<&'static str>,
}

impl Scope {
    /// The label selector as it stands in a URL, if there is one.
    pub(crate) fn selector(&self) -> Option<String> {
        self.colour.map(|colour| format!("colour={colour}"))
    }
}

/// The way in which an existing object is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// `PUT` over the revision that was read.
    Update,
    /// A merge patch that names no revision.
    BlindMergePatch,
    /// A merge patch over the revision that was read.
    MergePatch,
    /// A JSON patch.
    JsonPatch,
}

/// The next thing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// Create the object; refused if it is there.
    Create(ObjectPath),
    /// Create an object that is deleted together with its siblings.
    CreateInBatch(ObjectPath),
    /// Read one object.
    Get(ObjectPath, RequestedFreshness),
    /// Read a collection, page by page if a limit is given.
    List(Scope, RequestedFreshness, Option<u32>),
    /// Change the object.
    Change(ObjectPath, How),
    /// Count one up, again after each conflict.
    Count(ObjectPath, How),
    /// Delete the object.
    Delete(ObjectPath),
    /// Delete this client's batch in this namespace.
    DeleteBatch(Resource, &'static str),
}

/// Draws steps for one client.
pub(crate) struct Plan {
    rng: StdRng,
    client: u32,
}

impl Plan {
    /// The plan of client number `client`.
    pub(crate) fn new(rng: StdRng, client: u32) -> Self {
        Self { rng, client }
    }

    /// The generator, for what else this client draws.
    pub(crate) fn rng(&mut self) -> &mut StdRng {
        &mut self.rng
    }

    /// The label of this client's batch.
    pub(crate) fn batch(&self) -> String {
        format!("c{}", self.client)
    }

    /// Draws the next step.
    pub(crate) fn next(&mut self) -> Step {
        match self.rng.random_range(0..100) {
            0..14 => Step::Create(self.object()),
            14..18 => Step::CreateInBatch(self.in_batch()),
            18..40 => Step::Get(self.object_or_counter(), self.freshness()),
            40..50 => Step::List(self.scope(), self.freshness(), None),
            50..54 => Step::List(
                self.scope(),
                RequestedFreshness::Newest,
                Some(self.rng.random_range(3..12)),
            ),
            54..76 => Step::Change(self.object(), self.how()),
            76..88 => Step::Count(self.counter(), self.how_to_count()),
            88..98 => Step::Delete(self.object()),
            _ => Step::DeleteBatch(self.resource(), self.namespace()),
        }
    }

    /// Every counter; they are made before the load begins.
    pub(crate) fn counters() -> Vec<ObjectPath> {
        let all = NAMESPACES
            .into_iter()
            .flat_map(|namespace| (0..COUNTERS).map(move |n| (namespace, n)));
        all.map(|(namespace, number)| ObjectPath {
            resource: Resource::ConfigMaps,
            namespace,
            name: format!("counter-{number}"),
        })
        .collect()
    }

    fn resource(&mut self) -> Resource {
        // One of them busier than the other: a cache whose own resource is quiet must move on, too.
        if self.rng.random_ratio(4, 5) {
            Resource::ConfigMaps
        } else {
            Resource::PodTemplates
        }
    }

    fn namespace(&mut self) -> &'static str {
        NAMESPACES[self.rng.random_range(0..NAMESPACES.len())]
    }

    /// Of each name there is one object, so that there are few and each is written often.
    fn object(&mut self) -> ObjectPath {
        let is_own = self.rng.random_ratio(1, 2);
        let number = self.rng.random_range(0..if is_own { OWN } else { SHARED });
        let name = match is_own {
            true => format!("own-{}-{number}", self.client),
            false => format!("shared-{number}"),
        };
        ObjectPath {
            resource: if number == 0 {
                Resource::PodTemplates
            } else {
                Resource::ConfigMaps
            },
            namespace: NAMESPACES[usize::from(number % 2 == 1)],
            name,
        }
    }

    /// The names of the objects in this client's batch.
    pub(crate) fn batch_names(&self) -> Vec<String> {
        (0..BATCH)
            .map(|number| format!("batch-{}-{number}", self.client))
            .collect()
    }

    fn in_batch(&mut self) -> ObjectPath {
        ObjectPath {
            resource: self.resource(),
            namespace: self.namespace(),
            name: format!("batch-{}-{}", self.client, self.rng.random_range(0..BATCH)),
        }
    }

    fn counter(&mut self) -> ObjectPath {
        let mut counters = Self::counters();
        counters.swap_remove(self.rng.random_range(0..counters.len()))
    }

    fn object_or_counter(&mut self) -> ObjectPath {
        if self.rng.random_ratio(1, 4) {
            self.counter()
        } else {
            self.object()
        }
    }

    fn scope(&mut self) -> Scope {
        Scope {
            resource: self.resource(),
            namespace: self.rng.random_ratio(1, 2).then(|| self.namespace()),
            colour: self
                .rng
                .random_ratio(1, 2)
                .then(|| COLOURS[self.rng.random_range(0..COLOURS.len())]),
        }
    }

    fn freshness(&mut self) -> RequestedFreshness {
        match self.rng.random_range(0..10) {
            0..5 => RequestedFreshness::Newest,
            5..7 => RequestedFreshness::Any,
            7..9 => RequestedFreshness::Seen,
            _ => RequestedFreshness::Exact,
        }
    }

    fn how(&mut self) -> How {
        [How::Update, How::BlindMergePatch, How::MergePatch, How::JsonPatch][self.rng.random_range(0..4)]
    }

    /// A blind patch would count one number twice.
    fn how_to_count(&mut self) -> How {
        [How::Update, How::MergePatch, How::JsonPatch][self.rng.random_range(0..3)]
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;

    use super::*;

    fn steps(seed: u64) -> Vec<Step> {
        let mut plan = Plan::new(StdRng::seed_from_u64(seed), 1);
        (0..2_000).map(|_| plan.next()).collect()
    }

    #[test]
    fn a_seed_decides_the_load() {
        assert_eq!(steps(3), steps(3));
        assert_ne!(steps(3), steps(4));
    }

    #[test]
    fn every_kind_of_step_is_drawn() {
        let kinds: std::collections::BTreeSet<String> = steps(1)
            .iter()
            .map(|step| format!("{step:?}").split('(').next().unwrap_or_default().to_owned())
            .collect();
        assert_eq!(kinds.len(), 8, "{kinds:?}");
    }
}
