//! Selectors: each line is one. What is parsed prints as what parses to the same and selects the same.

use trireme_machinery::{
    Object,
    field::Path,
    json,
    selector::{FieldSelector, LabelSelector, compile_label_selector, validate_label_selector, validate_labels},
};

use crate::input::text_lines;

/// Checks each line as a label selector, a field selector, and a selector or labels in JSON.
pub fn check(data: &[u8]) {
    for line in text_lines(data) {
        labels(line);
        fields(line);
        if let Ok(serde_json::Value::Object(object)) = json::decode(line.as_bytes()).map(|decoded| decoded.value) {
            in_json(&object);
        }
    }
}

fn labels(text: &str) {
    let Ok(selector) = LabelSelector::parse(text) else {
        return;
    };
    let printed = selector.to_string();
    assert_eq!(LabelSelector::parse(&printed).as_ref(), Ok(&selector), "{printed}");
    assert_eq!(selector.is_everything(), selector.requirements().is_empty());
    // What the selector asks for exactly is selected by no other value. Not all are tried, as each walks over all.
    for requirement in selector.requirements().iter().take(16) {
        if let Some(exact) = selector.requires_exact_match(requirement.key()) {
            let other = format!("{exact}x");
            let value = |key: &str| (key == requirement.key()).then_some(other.as_str());
            assert!(!selector.matches_with(value), "{printed}");
        }
    }
}

fn fields(text: &str) {
    let Ok(selector) = FieldSelector::parse(text) else {
        return;
    };
    let printed = selector.to_string();
    let again = FieldSelector::parse(&printed).unwrap_or_else(|error| panic!("{printed}: {error}"));
    // Terms are kept in the order of how they were written.
    let sorted = |selector: &FieldSelector| {
        let mut terms: Vec<_> = selector
            .terms()
            .iter()
            .map(|term| (term.field.clone(), term.value.clone(), term.negated))
            .collect();
        terms.sort();
        terms
    };
    assert_eq!(sorted(&again), sorted(&selector), "{printed}");
    for term in selector.terms() {
        let value = |field: &str| (field == term.field).then_some(term.value.as_str());
        let only = FieldSelector::new(vec![term.clone()]);
        assert_ne!(only.matches_with(value), term.negated, "{printed}");
    }
}

/// The object form: what is valid can be compiled, and prints as what parses to the same.
fn in_json(object: &Object) {
    let _ = validate_labels(Some(object), &Path::new("labels"));
    let errors = validate_label_selector(object, false, &Path::new("selector"));
    match compile_label_selector(Some(object)) {
        Ok(selector) => {
            let printed = selector.to_string();
            assert_eq!(LabelSelector::parse(&printed), Ok(selector), "{printed}");
        }
        Err(error) => assert!(!errors.is_empty(), "valid, but {error}"),
    }
}
