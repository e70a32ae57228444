use serde_json::{Value, json};
use trireme_actors::{testkit::run, topology::Topology};
use trireme_machinery::Reason;

use super::support::{Bench, Rules, refused, thing};
use crate::{
    fence::{Fences, WriteFence},
    own_objects::OwnObjects,
    request::{DeleteOptions, Subresource},
};

/// Every way in which the server itself writes, under a fence; says how each was refused.
async fn write_in_every_way(bench: &Bench, fence: &WriteFence) -> Vec<(Reason, String)> {
    let things = OwnObjects::new(bench.registry.clone(), "test").under(fence);
    let mut changed = bench.now("a").await.expect("it is there");
    changed["spec"] = json!({ "count": 7 });
    let patch = json!({ "metadata": { "labels": { "x": "y" } } });
    vec![
        refused(things.create("ns", &thing("b", json!({}), json!({}))).await),
        refused(things.replace("ns", "a", &changed).await),
        refused(
            things
                .replace_part(Subresource::Status, "ns", "a", &with_status(changed))
                .await,
        ),
        refused(things.merge("ns", "a", &patch).await),
        refused(things.delete("ns", "a").await),
        refused(things.delete_with("ns", "a", DeleteOptions::default()).await),
        refused(things.delete_all("ns").await),
    ]
}

fn with_status(mut object: Value) -> Value {
    object["status"] = json!({ "phase": "Changed" });
    object
}

#[test]
fn nothing_of_a_deposed_holder_takes_effect() {
    run(Topology::trireme(), |kit| async move {
        let bench = Bench::start(&kit, Rules::default()).await;
        bench.made("a", json!({}), json!({})).await;
        let fences = Fences::new(bench.side.store.clone(), "/registry");
        let old = fences.raise("d", 1).await.expect("it is the first");
        let things = OwnObjects::new(bench.registry.clone(), "test");
        let held = things.under(&old);
        held.create("ns", &thing("c", json!({}), json!({})))
            .await
            .expect("the fence holds");
        held.delete("ns", "c").await.expect("the fence holds");
        let new = fences.raise("d", 2).await.expect("it is higher");
        let before = (bench.now("a").await, bench.revision().await);
        for (reason, _) in write_in_every_way(&bench, &old).await {
            assert_eq!(reason, Reason::ServiceUnavailable);
        }
        old.refused().await;
        assert_eq!((bench.now("a").await, bench.revision().await), before);
        assert_eq!(bench.now("b").await, None);
        things
            .under(&new)
            .delete("ns", "a")
            .await
            .expect("the new holder's fence holds");
        assert_eq!(bench.now("a").await, None);
    });
}
