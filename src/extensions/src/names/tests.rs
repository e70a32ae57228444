//! Cases after those of `naming_controller_test.go`.

use super::*;

/// Plural, singular, kind, list kind and short names, by spaces; `-` stands for none.
fn names(text: &str) -> Object {
    let words: Vec<&str> = text.split(' ').collect();
    let fields = ["plural", "singular", "kind", "listKind"];
    let given = fields.into_iter().zip(&words).filter(|(_, name)| **name != "-");
    let mut names: Object = given.map(|(field, name)| (field.to_owned(), (*name).into())).collect();
    if let Some(short_names) = words.get(4..).filter(|short_names| !short_names.is_empty()) {
        names.insert("shortNames".to_owned(), json!(short_names));
    }
    names
}

/// Judges a definition that wants names, has names, and is not alone.
fn check(wanted: &str, accepted: &str, other: &str, gets: &str, reason: &str, message: &str) {
    let definition = json!({"spec": {"names": names(wanted)}, "status": {"acceptedNames": names(accepted)}});
    let mut taken = TakenNames::default();
    taken.add(&names(other));
    let mut verdict = NamesVerdict::of(&definition, taken);
    verdict.accepted.retain(|_, name| *name != "");
    assert_eq!(verdict.accepted, names(gets), "{wanted}, {accepted}, {other}");
    let condition = verdict.condition();
    assert_eq!((condition.reason, condition.message), (reason, message));
    assert_eq!(condition.is_true, reason == "NoConflicts");
}

const SHIPS: &str = "ships ship Ship ShipList sh sp";
const FINE: &str = "no conflicts found";

#[test]
fn names_that_nothing_has_are_accepted() {
    check(SHIPS, "-", "-", SHIPS, "NoConflicts", FINE);
    check("ships", "-", "-", "ships", "NoConflicts", FINE);
    check(SHIPS, "-", "boats Ship - -", SHIPS, "NoConflicts", FINE);
    check(SHIPS, SHIPS, "-", SHIPS, "NoConflicts", FINE);
    let fewer = "ships ship Ship ShipList sh";
    check(fewer, SHIPS, "-", fewer, "NoConflicts", FINE);
}

#[test]
fn a_name_that_another_definition_has_is_a_conflict() {
    for (other, gets, reason, name) in [
        (
            "boats ships - -",
            "- ship Ship ShipList sh sp",
            "PluralConflict",
            "ships",
        ),
        (
            "boats boat - - ship",
            "ships - Ship ShipList sh sp",
            "SingularConflict",
            "ship",
        ),
        (
            "boats boat - - sp",
            "ships ship Ship ShipList",
            "ShortNamesConflict",
            "sp",
        ),
        (
            "boats boat - Ship",
            "ships ship - ShipList sh sp",
            "KindConflict",
            "Ship",
        ),
        (
            "boats boat ShipList -",
            "ships ship Ship - sh sp",
            "ListKindConflict",
            "ShipList",
        ),
    ] {
        let message = format!("\"{name}\" is already in use");
        check(SHIPS, "-", other, gets, reason, &message);
    }
    let both = "[\"sh\" is already in use, \"sp\" is already in use]";
    let gets = "ships ship Ship ShipList";
    check(SHIPS, "-", "boats boat - - sh sp", gets, "ShortNamesConflict", both);
}

#[test]
fn what_is_in_conflict_stays_as_it_was() {
    let before = "vessels vessel Vessel VesselList ve vs";
    let message = "\"ShipList\" is already in use";
    let gets = "ships vessel Ship VesselList sh sp";
    check(
        SHIPS,
        before,
        "boats boat ShipList - ship",
        gets,
        "ListKindConflict",
        message,
    );
    let gets = "ships vessel Ship VesselList ve vs";
    check(
        SHIPS,
        before,
        "boats boat ShipList - ship sh",
        gets,
        "ListKindConflict",
        message,
    );
}

#[test]
fn a_definition_cannot_have_one_of_its_names_twice() {
    let message = "\"ship\" is already in use";
    let more = "ships ship Ship ShipList sh sp ship";
    check(more, SHIPS, "-", SHIPS, "ShortNamesConflict", message);
    let other = "ships sh Ship ShipList sh sp";
    let message = "\"sh\" is already in use";
    check(other, SHIPS, "-", SHIPS, "SingularConflict", message);
}
