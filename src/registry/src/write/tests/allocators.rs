use std::{collections::BTreeSet, net::IpAddr, sync::Arc};

use futures_util::future::join_all;
use trireme_actors::{Clock, testkit::run, topology::Topology};
use trireme_storage::Storage;

use crate::{
    allocate::{AddressAllocator, AllocateError, IpFamily, PortAllocator, ServiceRanges},
    fixtures::open_store,
};

fn addresses(store: &Arc<dyn Storage>, range: &str) -> AddressAllocator {
    AddressAllocator::new(
        store.clone(),
        Clock::system(),
        "/registry/ipaddresses",
        ServiceRanges::fixed([range.parse().expect("it is a range")]),
    )
}

fn ports(store: &Arc<dyn Storage>, range: &str) -> PortAllocator {
    let key = "/registry/ranges/servicenodeports";
    PortAllocator::new(store.clone(), key, range.parse().expect("it is a range"))
}

#[test]
fn an_address_has_one_winner_and_is_free_when_given_back() {
    run(Topology::trireme(), |_kit| async move {
        let (_dir, store) = open_store();
        let store: Arc<dyn Storage> = store;
        let allocator = addresses(&store, "10.96.0.0/28");
        let wanted: IpAddr = "10.96.0.7".parse().expect("it is an address");
        let all = join_all((0..8).map(|_| allocator.reserve(wanted, "ns", "a"))).await;
        assert_eq!(all.iter().filter(|won| won.is_ok()).count(), 1);
        assert!(
            all.iter()
                .all(|won| matches!(won, Ok(()) | Err(AllocateError::AddressTaken)))
        );
        allocator.release("10.96.0.7").await.expect("the store answers");
        allocator.release("10.96.0.7").await.expect("twice is no error");
        allocator.reserve(wanted, "ns", "b").await.expect("it is free again");
        let outside = allocator
            .reserve("10.97.0.7".parse().expect("it is an address"), "ns", "a")
            .await;
        assert_eq!(
            outside.map_err(|error| error.to_string()),
            Err("the provided network does not match the current range".into())
        );
    });
}

#[test]
fn a_range_of_addresses_is_handed_out_to_the_last() {
    run(Topology::trireme(), |_kit| async move {
        let (_dir, store) = open_store();
        let store: Arc<dyn Storage> = store;
        let allocator = addresses(&store, "10.96.0.0/28");
        let all = join_all((0..13).map(|_| allocator.allocate(IpFamily::V4, "ns", "a"))).await;
        let given: BTreeSet<IpAddr> = all
            .into_iter()
            .map(|given| given.expect("there is one for each"))
            .collect();
        assert_eq!(given.len(), 13, "no address is given twice");
        assert!(
            !given.contains(&"10.96.0.1".parse().expect("an address")),
            "the first is reserved"
        );
        assert_eq!(
            allocator.allocate(IpFamily::V4, "ns", "a").await,
            Err(AllocateError::Full)
        );
        let one = given.first().expect("there are some").to_string();
        allocator.release(&one).await.expect("the store answers");
        assert_eq!(
            allocator
                .allocate(IpFamily::V4, "ns", "a")
                .await
                .map(|ip| ip.to_string()),
            Ok(one)
        );
    });
}

#[test]
fn an_address_may_be_written_in_any_way_when_given_back() {
    run(Topology::trireme(), |_kit| async move {
        let (_dir, store) = open_store();
        let store: Arc<dyn Storage> = store;
        let allocator = addresses(&store, "fd00::/64");
        let wanted: IpAddr = "fd00::a".parse().expect("it is an address");
        allocator.reserve(wanted, "ns", "a").await.expect("it is free");
        allocator.release("FD00:0::000A").await.expect("the store answers");
        allocator.reserve(wanted, "ns", "a").await.expect("it is free again");
    });
}

#[test]
fn a_port_has_one_winner_and_is_free_when_given_back() {
    run(Topology::trireme(), |_kit| async move {
        let (_dir, store) = open_store();
        let store: Arc<dyn Storage> = store;
        let allocator = ports(&store, "30000-30009");
        let all = join_all((0..8).map(|_| allocator.reserve(30003))).await;
        assert_eq!(all.iter().filter(|won| won.is_ok()).count(), 1);
        assert!(
            all.iter()
                .all(|won| matches!(won, Ok(()) | Err(AllocateError::PortTaken)))
        );
        let rest = join_all((0..9).map(|_| allocator.allocate())).await;
        let rest: BTreeSet<u16> = rest
            .into_iter()
            .map(|port| port.expect("there is one for each"))
            .collect();
        assert_eq!((rest.len(), rest.contains(&30003)), (9, false));
        assert_eq!(allocator.allocate().await, Err(AllocateError::Full));
        allocator.release(&[30003, 30005, 1]).await.expect("the store answers");
        allocator.reserve(30005).await.expect("it is free again");
        assert_eq!(allocator.allocate().await, Ok(30003));
    });
}

#[test]
fn ports_stay_held_when_the_range_changes() {
    run(Topology::trireme(), |_kit| async move {
        let (_dir, store) = open_store();
        let store: Arc<dyn Storage> = store;
        ports(&store, "30000-30009").reserve(30005).await.expect("it is free");
        let moved = ports(&store, "30004-30020");
        assert_eq!(moved.reserve(30005).await, Err(AllocateError::PortTaken));
        moved.reserve(30009).await.expect("the same bit was another port's");
    });
}

#[test]
fn many_changes_of_ports_at_once_wait_for_each_other() {
    run(Topology::trireme(), |_kit| async move {
        let (_dir, store) = open_store();
        let store: Arc<dyn Storage> = store;
        let allocator = ports(&store, "30000-30199");
        let given = join_all((0..150).map(|_| allocator.allocate())).await;
        let given: Result<BTreeSet<u16>, AllocateError> = given.into_iter().collect();
        assert_eq!(given.map(|ports| ports.len()), Ok(150));
    });
}

#[test]
fn a_trial_takes_what_is_free_and_nobody_else_sees_it() {
    run(Topology::trireme(), |_kit| async move {
        let (_dir, store) = open_store();
        let store: Arc<dyn Storage> = store;
        let (addresses, ports) = (addresses(&store, "10.96.0.0/28"), ports(&store, "30000-30001"));
        let wanted: IpAddr = "10.96.0.7".parse().expect("it is an address");
        ports.reserve(30000).await.expect("it is free");
        addresses.reserve(wanted, "ns", "a").await.expect("it is free");
        let (_, before) = store
            .get("/registry/ranges/servicenodeports", None)
            .await
            .expect("the store answers");

        let (tried_addresses, tried_ports) = (addresses.trial(), ports.trial());
        assert_eq!(tried_ports.reserve(30000).await, Err(AllocateError::PortTaken));
        assert_eq!(tried_ports.allocate().await, Ok(30001));
        assert_eq!(
            tried_ports.allocate().await,
            Err(AllocateError::Full),
            "it has taken it"
        );
        let taken = tried_addresses.reserve(wanted, "ns", "b").await;
        assert_eq!(taken, Err(AllocateError::AddressTaken));
        let free = tried_addresses
            .allocate(IpFamily::V4, "ns", "b")
            .await
            .expect("there are more");

        let (_, after) = store
            .get("/registry/ranges/servicenodeports", None)
            .await
            .expect("the store answers");
        assert_eq!(after, before, "nothing was written");
        ports.reserve(30001).await.expect("it was not taken");
        addresses.reserve(free, "ns", "c").await.expect("it was not taken");
    });
}
