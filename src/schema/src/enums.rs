//! The values of fields that take no others.

/// The table as it is kept: a type's short name, its field, the values, a field a line.
pub const ENUM_TABLE: &str = include_str!("../data/enums.txt");

/// The rows of the table: a type's short name, its field, the values.
pub fn enums() -> impl Iterator<Item = (&'static str, &'static str, Vec<&'static str>)> {
    let table = ENUM_TABLE.lines();
    table.filter(|line| !line.starts_with('#')).filter_map(|line| {
        let (type_name, rest) = line.split_once(' ')?;
        let (field, values) = rest.split_once(' ')?;
        Some((type_name, field, values.split('|').collect()))
    })
}
