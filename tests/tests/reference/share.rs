//! The share of the recorded scenarios that match or are answered better, and that the README states it.

use trireme_tests::folder;
use trireme_tests::recorded::known::{KnownDifferences, Listed};
use trireme_tests::recorded::load;

use super::{
    AGGREGATION, IN_SCOPE, LEAST_MATCHING_PERCENT, POLICIES, RECORDED, WITH_ABAC, WITH_ALL_VERSIONS,
    WITH_AUTO_PROVISION, WITH_CLIENT_CA, WITH_ISSUERS, WITH_NAMESPACE_EXISTS, WITH_NODE_RESTRICTION,
    WITH_OPTIONAL_PLUGINS, WITH_PLUGINS, WITH_REVIEW_WEBHOOKS, audited, dual_stack, extended, flow_control, gated,
    served, with_files,
};

#[test]
fn the_readme_says_how_much_is_replayed() {
    let reference = folder().join("reference");
    let count = |file: &&str| load(&reference.join(format!("{file}.jsonl"))).len();
    let over_both: usize = IN_SCOPE
        .iter()
        .chain(extended::CUSTOM_RESOURCES)
        .chain(dual_stack::WITH_TWO_FAMILIES)
        .chain(flow_control::FLOW_CONTROL)
        .chain(gated::WITH_GATES)
        .chain(gated::WITH_GATED_PLUGINS)
        .map(count)
        .sum();
    let over_the_embedded: usize = WITH_PLUGINS
        .iter()
        .chain(POLICIES)
        .chain(AGGREGATION)
        .chain(WITH_NODE_RESTRICTION)
        .chain(WITH_OPTIONAL_PLUGINS)
        .chain(WITH_AUTO_PROVISION)
        .chain(WITH_NAMESPACE_EXISTS)
        .chain(WITH_ALL_VERSIONS)
        .chain(WITH_REVIEW_WEBHOOKS)
        .chain(WITH_ISSUERS)
        .chain(WITH_CLIENT_CA)
        .chain(WITH_ABAC)
        .chain(with_files::WITH_PLUGIN_CONFIGURATION)
        .chain(with_files::WITH_IMAGE_POLICY)
        .chain(with_files::WITH_ALWAYS_DENY)
        .chain(extended::WEBHOOKS)
        .chain(served::ENDPOINTS)
        .chain(served::FOR_BROWSERS)
        .chain(audited::files())
        .map(count)
        .sum();
    let replayed = over_both + over_the_embedded;
    let known = KnownDifferences::load(&reference.join("known-differences.txt"));
    let Listed { better, differing } = known.count();
    let matching = replayed - better - differing;
    let percentage = 100 * (matching + better) / replayed;
    assert!(percentage >= LEAST_MATCHING_PERCENT, "{differing} of {replayed} differ");
    let readme = std::fs::read_to_string(folder().join("../README.md")).expect("the README is there");
    let readme = readme.split_whitespace().collect::<Vec<_>>().join(" ");
    for said in [
        format!("{replayed} of {RECORDED} scenarios"),
        format!("{over_both} of them over both stores"),
        format!("{matching} match in every step"),
        format!("{better} more are answered better"),
        format!("the {differing} that differ"),
        format!("at least {LEAST_MATCHING_PERCENT} %"),
    ] {
        assert!(readme.contains(&said), "the README does not say {said:?}");
    }
}
