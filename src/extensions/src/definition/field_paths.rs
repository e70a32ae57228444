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
    let (mut rest, mut schema, mut names) = (path, schema, Vec::new());
    while !rest.is_empty() {
        let name;
        if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[']).unwrap_or(after.len());
            name = after.get(..end).unwrap_or_default().to_owned();
            rest = after.get(end..).unwrap_or_default();
        } else if let Some(after) = rest.strip_prefix("['") {
            if !allow_brackets {
                return Err("array notation is not allowed".to_owned());
            }
            let (inner, after) = after.split_once("']").ok_or("unexpected end of JSON path")?;
            name = inner.replace("\\'", "'").replace("\\\\", "\\");
            rest = after;
        } else if rest.starts_with('[') {
            if !allow_brackets {
                return Err("array notation is not allowed".to_owned());
            }
            return Err(format!("expected single quoted string but got {rest}"));
        } else {
            return Err(format!("expected [ or . but got: {rest}"));
        }
        let property = schema.get("properties").and_then(|properties| properties.get(&name));
        let values = schema.get("additionalProperties").filter(|values| values.is_object());
        schema = property.or(values).ok_or(NO_FIELD)?;
        names.push(name);
    }
    if names.is_empty() {
        return Err(NO_FIELD.to_owned());
    }
    Ok((names, schema))
}
