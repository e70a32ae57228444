//! The end of a run: a write and a read of every key at every replica, and every replica's whole cache.

use futures_util::future::join_all;
use rand::SeedableRng as _;
use rand::rngs::StdRng;

use super::desk::{Answered, Asked, Asker, Desk};
use super::objects::{NAMESPACES, ObjectEdit, ObjectPath, Resource};
use super::wire::{Address, Call};
use super::{Addresses, asker};
use crate::history::{CacheRecord, Outcome, Purpose, RecordedVerb, Revision};

/// Writes and reads everything at each replica, then reads all of it at each. The load must have ended.
pub async fn record_the_end(desk: &Desk, addresses: &Addresses, seed: u64) {
    join_all((0..).zip(&addresses.replicas).map(|(number, address)| async move {
        let mut asker = asker(desk, format!("final-{number}"), Purpose::Final, address, number);
        let mut rng = StdRng::seed_from_u64(seed);
        for place in places(&mut asker).await {
            touch(&mut asker, &place, &mut rng).await;
        }
    }))
    .await;
    join_all((0..).zip(&addresses.replicas).map(|(number, address)| async move {
        let mut asker = asker(desk, format!("check-{number}"), Purpose::Final, address, number);
        for place in places(&mut asker).await {
            read(&mut asker, &place).await;
        }
    }))
    .await;
}

/// Records what each replica has in its caches; to be called when nothing is written any more.
pub async fn record_caches(desk: &Desk, addresses: &Addresses) {
    for (number, address) in (0..).zip(&addresses.replicas) {
        let mut asker = asker(desk, format!("cache-{number}"), Purpose::Final, address, number);
        for resource in Resource::ALL {
            record_cache(desk, &mut asker, resource, address).await;
        }
    }
}

async fn record_cache(desk: &Desk, asker: &mut Asker, resource: Resource, address: &Address) {
    let cached = list(asker, resource, "?resourceVersion=0").await;
    let rv: Option<Revision> = cached.rv().and_then(|rv| rv.parse().ok());
    if let Some(rv) = rv {
        desk.recorder.cache(&CacheRecord {
            holder: address.name.clone(),
            key: resource.key(None),
            selector: Default::default(),
            rv,
            items: cached.items(),
            at: desk.now(),
            settled: true,
        });
    }
}

async fn list(asker: &mut Asker, resource: Resource, query: &str) -> Answered {
    let attempt = asker.next_attempt();
    let call = Call::get(format!("{}{query}", resource.collection(None)));
    let mut asked = Asked::new(call, RecordedVerb::List, resource.key(None), attempt.clone());
    asked.request_rv = (!query.is_empty()).then(|| "0".to_owned());
    asked.page = Some((attempt, 0));
    asker.ask(asked).await
}

/// Everything that is there, as the replica lists it.
async fn places(asker: &mut Asker) -> Vec<ObjectPath> {
    let mut places = Vec::new();
    for resource in Resource::ALL {
        let listed = list(asker, resource, "").await.items().into_iter();
        places.extend(listed.filter_map(|item| {
            let namespace = NAMESPACES.into_iter().find(|namespace| *namespace == item.namespace)?;
            let is_ours = item.name != "kube-root-ca.crt";
            is_ours.then_some(ObjectPath {
                resource,
                namespace,
                name: item.name,
            })
        }));
    }
    places
}

async fn touch(asker: &mut Asker, place: &ObjectPath, rng: &mut StdRng) {
    let change = ObjectEdit::draw(rng, asker.next_attempt());
    let asked = Asked::new(
        change.merge_patch(place, None),
        RecordedVerb::Patch,
        place.key(),
        change.attempt,
    );
    asker.ask(asked).await;
    read(asker, place).await;
}

async fn read(asker: &mut Asker, place: &ObjectPath) {
    let attempt = asker.next_attempt();
    asker
        .ask(Asked::new(
            Call::get(place.path()),
            RecordedVerb::Get,
            place.key(),
            attempt,
        ))
        .await;
}

/// Makes a counter at zero.
pub(super) async fn make_counter(asker: &mut Asker, place: &ObjectPath) -> Result<(), String> {
    let attempt = asker.next_attempt();
    let mut change = ObjectEdit::draw(&mut StdRng::seed_from_u64(0), attempt);
    change.count = Some(0);
    let asked = Asked::new(change.create(place), RecordedVerb::Create, place.key(), change.attempt);
    match asker.ask(asked).await {
        made if made.outcome == Outcome::Ok || made.code == 409 => Ok(()),
        refused => Err(format!("{}: {}", refused.code, refused.body)),
    }
}
