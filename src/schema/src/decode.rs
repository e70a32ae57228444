//! Reads the lines in which `schema-generate` wrote the structure of all types.
//!
//! The types of versions that are served by default come first and refer to no others; a line `#` follows, then the others.
//! A type is a line `=NAME TAB FLAGS` (`a`: atomic), followed by its fields in declaration order:
//! `NAME TAB TAG TAB PRESENCE TAB REQUIRED TAB SHAPE TAB PATCH TAB KEY TAB DEFAULT`.
//! A shape is a letter (`s`tring, `t`ime, `m`icrotime, `d`uration, b`y`tes, `b`oolean, `i`nt32, `l` int64, `n`umber,
//! `q`uantity, `x` int-or-string, `a`ny), `$` and a type's place in the file, `[` with `a`, `s` or `m(keys)` and the
//! item's shape, or `{` with `!` if atomic and the value's shape.

use std::collections::HashMap;

use trireme_machinery::schema::{
    Field, ListType, PatchStrategy, Presence, Shape, StringFormat, TypeDef, TypeId, TypeTable,
};

use crate::{short_name, unpublished};

/// Parts the types of versions that are served by default from the others.
///
/// # Panics
/// If the text was not made by `schema-generate`.
pub(crate) fn served_by_default(text: &str) -> &str {
    let (served, _) = text.split_once("\n#\n").expect("schema-generate parts the types");
    served
}

/// Builds the table of the types in `text`.
///
/// # Panics
/// If the text was not made by `schema-generate`.
pub(crate) fn type_table(text: &str) -> TypeTable {
    let mut table = TypeTable::default();
    // First of all, so that they have the same ids in each table.
    unpublished::define(&mut table);
    let ids: Vec<TypeId> = headers(text).map(|(name, _)| table.declare(name)).collect();
    let mut current: Option<TypeDef> = None;
    for line in text.lines() {
        if let Some((name, flags)) = header(line) {
            define(
                &mut table,
                current.replace(TypeDef {
                    name: name.to_owned(),
                    fields: Vec::new(),
                    atomic: flags == "a",
                }),
            );
        } else if let Some(ty) = &mut current {
            if line == "#" {
                continue;
            }
            ty.fields
                .push(field(line, &ids).expect("schema-generate wrote this line"));
        }
    }
    define(&mut table, current);
    table
}

/// Adds what Go calls the types of fields and the structs that they are embedded with: lines
/// `TYPE FIELD=GOTYPE ... FIELD@STRUCT ...`, the type by its short name. Lines about types that the table does not hold are
/// passed over.
///
/// # Panics
/// If a line names a field that does not exist.
pub(crate) fn name_go_types(table: &mut TypeTable, text: &str) {
    let ids: HashMap<String, TypeId> = table
        .iter()
        .filter_map(|ty| Some((short_name(&ty.name).to_owned(), table.find(&ty.name)?)))
        .collect();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split(' ');
        let Some(id) = words.next().and_then(|ty| ids.get(ty)) else {
            continue;
        };
        for word in words {
            let (field, is_type, name) = match (word.split_once('='), word.split_once('@')) {
                (Some((field, go_type)), _) => (field, true, go_type),
                (None, Some((field, embedded))) => (field, false, embedded),
                (None, None) => continue,
            };
            assert!(table.field(*id, field).is_some(), "{field} is no field: {line}");
            if is_type {
                table.name_go_type(*id, field, name);
            } else {
                table.name_embedded(*id, field, name);
            }
        }
    }
}

fn define(table: &mut TypeTable, ty: Option<TypeDef>) {
    if let Some(ty) = ty {
        table.define(ty);
    }
}

fn header(line: &str) -> Option<(&str, &str)> {
    line.strip_prefix('=')?.split_once('\t')
}

fn headers(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines().filter_map(header)
}

fn field(line: &str, ids: &[TypeId]) -> Option<Field> {
    let mut parts = line.splitn(8, '\t');
    let name = parts.next()?.to_owned();
    let tag = parts.next()?.parse().ok()?;
    let presence = presence(parts.next()?)?;
    let required = parts.next()? == "r";
    let shape = shape(parts.next()?, ids)?;
    let patch = patch(parts.next()?, parts.next()?);
    let default = Some(parts.next()?).filter(|text| !text.is_empty());
    Some(Field {
        name,
        shape,
        presence,
        required,
        default: default.and_then(|text| serde_json::from_str(text).ok()),
        patch,
        tag,
    })
}

fn presence(letter: &str) -> Option<Presence> {
    Some(match letter {
        "p" => Presence::Pointer,
        "o" => Presence::OmitZero,
        "a" => Presence::Always,
        "n" => Presence::Nullable,
        _ => return None,
    })
}

fn patch(strategies: &str, key: &str) -> PatchStrategy {
    let named = |strategy| strategies.split(',').any(|part| part == strategy);
    PatchStrategy {
        merge: named("merge"),
        replace: named("replace"),
        retain_keys: named("retainKeys"),
        merge_key: Some(key).filter(|key| !key.is_empty()).map(str::to_owned),
    }
}

fn shape(text: &str, ids: &[TypeId]) -> Option<Shape> {
    let mut letters = text.chars();
    let first = letters.next()?;
    let rest = letters.as_str();
    Some(match first {
        's' => Shape::String(StringFormat::Plain),
        't' => Shape::String(StringFormat::Time),
        'm' => Shape::String(StringFormat::MicroTime),
        'd' => Shape::String(StringFormat::Duration),
        'y' => Shape::String(StringFormat::Bytes),
        'b' => Shape::Boolean,
        'i' => Shape::Int32,
        'l' => Shape::Int64,
        'n' => Shape::Number,
        'q' => Shape::Quantity,
        'x' => Shape::IntOrString,
        'a' => Shape::Any,
        '$' => Shape::Struct(*ids.get(rest.parse::<usize>().ok()?)?),
        '[' => list(rest, ids)?,
        '{' => Shape::Map {
            value: Box::new(shape(rest.trim_start_matches('!'), ids)?),
            atomic: rest.starts_with('!'),
        },
        _ => return None,
    })
}

fn list(text: &str, ids: &[TypeId]) -> Option<Shape> {
    let (list_type, item) = if let Some(rest) = text.strip_prefix("m(") {
        let (keys, item) = rest.split_once(')')?;
        (ListType::Map(keys.split(',').map(str::to_owned).collect()), item)
    } else if let Some(item) = text.strip_prefix('s') {
        (ListType::Set, item)
    } else {
        (ListType::Atomic, text.strip_prefix('a')?)
    };
    Some(Shape::List {
        item: Box::new(shape(item, ids)?),
        list_type,
    })
}
