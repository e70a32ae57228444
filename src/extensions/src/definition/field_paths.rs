//! Paths of fields that must be those of a schema (`cel.ValidFieldPath`).

use serde_json::Value;

/// Finds the schema of a field by a path such as `.spec.color`; gives back the names as well.
///
/// # Errors
/// Why the path is not one of the schema.
pub(super) fn find_field<'s>(
    schema: &'s Value,
    path: &str,
    allow_brackets: bool,
) -> Result<(Vec<String>, &'s Value), String> {
    const NO_FIELD: &str = "does not refer to a valid field";
    const ENDS: &str = "unexpected end of JSON path";
    let (mut rest, mut schema, mut names) = (path, schema, Vec::new());
    while let Some(delimiter) = next_token(&mut rest) {
        let name = match delimiter {
            "." => next_token(&mut rest).ok_or(ENDS)?.to_owned(),
            "[" if !allow_brackets => return Err("array notation is not allowed".to_owned()),
            "[" => {
                let token = next_token(&mut rest).ok_or(ENDS)?;
                let quoted = token.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
                let quoted = quoted.ok_or_else(|| format!("expected single quoted string but got {token}"))?;
                quoted.replace("\\'", "'").replace("\\\\", "\\")
            }
            other => return Err(format!("expected [ or . but got: {other}")),
        };
        let properties = schema.get("properties").and_then(Value::as_object);
        let values = schema.get("additionalProperties").filter(|values| values.is_object());
        schema = match properties.filter(|properties| !properties.is_empty()) {
            Some(properties) => properties.get(&name),
            None => values,
        }
        .ok_or(NO_FIELD)?;
        names.push(name);
        if delimiter == "[" {
            match next_token(&mut rest).ok_or(ENDS)? {
                "]" => {}
                other => return Err(format!("expected ] but got {other}")),
            }
        }
    }
    if names.is_empty() {
        return Err(NO_FIELD.to_owned());
    }
    Ok((names, schema))
}

/// Takes the next part of a path: a delimiter, a text in single quotes, or what stands before the next delimiter.
fn next_token<'p>(rest: &mut &'p str) -> Option<&'p str> {
    let text = *rest;
    let first = text.chars().next()?;
    let mut before = first;
    let end = text.char_indices().skip(1).find_map(|(at, character)| {
        let is_escaped = std::mem::replace(&mut before, character) == '\\';
        match character {
            '\'' if first == '\'' && !is_escaped => Some(at + 1),
            '.' | '[' | ']' if first != '\'' => Some(at),
            _ => None,
        }
    });
    let end = if matches!(first, '.' | '[' | ']') {
        1
    } else {
        end.unwrap_or(text.len())
    };
    let (token, after) = text.split_at_checked(end)?;
    *rest = after;
    Some(token)
}
