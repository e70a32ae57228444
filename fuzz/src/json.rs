//! JSON: what is decoded encodes to what decodes to the same; serde_json agrees on everything that both accept, and
//! accepts nothing that is refused.

use serde_json::{Number, Value};
use trireme_machinery::json::{self, MAX_DUPLICATES};

/// Checks the input as a document.
pub fn check(data: &[u8]) {
    let ours = json::decode(data);
    if let Ok(decoded) = &ours {
        assert!(decoded.duplicates.len() <= MAX_DUPLICATES);
        let printed = json::encode(&decoded.value);
        let again = json::decode(&printed).expect("what is printed can be read");
        assert_eq!(again.duplicates, [""; 0], "a printed object has each key once");
        assert_same(&again.value, &decoded.value);
        assert_eq!(json::encode(&again.value), printed, "the printed form is final");
        let shown = trireme_edge::testing::indent(&printed);
        assert_eq!(
            json::decode(&shown).map(|shown| shown.value),
            Ok(again.value),
            "indenting changes white space only"
        );
    }
    match (ours, serde_json::from_slice::<Value>(data)) {
        (Ok(ours), Ok(theirs)) => assert_same(&ours.value, &theirs),
        (Err(error), Ok(_)) => panic!("refused what is JSON: {error}"),
        // What is no Unicode is replaced, as in Go, and depth has another limit.
        (_, Err(_)) => {}
    }
}

/// Holds two trees against each other, numbers by value.
pub(crate) fn assert_same(left: &Value, right: &Value) {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => {
            assert!(same_number(left, right), "{left} is not {right}");
        }
        (Value::Array(left), Value::Array(right)) => {
            assert_eq!(left.len(), right.len());
            left.iter()
                .zip(right)
                .for_each(|(left, right)| assert_same(left, right));
        }
        (Value::Object(left), Value::Object(right)) => {
            assert!(left.keys().eq(right.keys()), "{left:?} and {right:?} have other keys");
            left.values()
                .zip(right.values())
                .for_each(|(left, right)| assert_same(left, right));
        }
        (left, right) => assert_eq!(left, right),
    }
}

/// serde_json may be off by some units in the last place, so that doubles are held against each other with a tolerance.
fn same_number(left: &Number, right: &Number) -> bool {
    if let (Some(left), Some(right)) = (left.as_i64(), right.as_i64()) {
        return left == right;
    }
    if let (Some(left), Some(right)) = (left.as_u64(), right.as_u64()) {
        return left == right;
    }
    match (left.as_f64(), right.as_f64()) {
        (Some(left), Some(right)) => (left - right).abs() <= left.abs() * 1e-14,
        _ => false,
    }
}
