//! The values of fields that take no others.

/// The rows of the table: a type's short name, its field, the values.
pub fn enums() -> impl Iterator<Item = (&'static str, &'static str, Vec<&'static str>)> {
    let table = include_str!("../data/enums.txt").lines();
    table.filter(|line| !line.starts_with('#')).filter_map(|line| {
        let (type_name, rest) = line.split_once(' ')?;
        let (field, values) = rest.split_once(' ')?;
        Some((type_name, field, values.split('|').collect()))
    })
}
