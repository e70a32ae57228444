//! Text with a meaning: URLs, named formats, keys in patches.

use std::{collections::BTreeMap, sync::Arc};

use super::{Cost, FunctionResult, FunctionRow, GLOBAL, MEMBER, no_overload};
use crate::{
    ext::{formats, urls::Url},
    meter::EvalError,
    value::{Map, MapEntries, MapKey, Opaque, Text, Value},
};

pub(super) const TABLE: &[FunctionRow] = &[
    ("url", GLOBAL, Cost::Traversal(1), |args, _| match args {
        [Value::String(text)] => match Url::parse(text.as_str()) {
            Ok(url) => Ok(Value::Opaque(Opaque::Url(url.into()))),
            Err(reason) => Err(EvalError::failed(format!(
                "URL parse error during conversion from string: {reason}"
            ))),
        },
        _ => no_overload("url", args),
    }),
    ("isURL", GLOBAL, Cost::Fixed(1), |args, _| match args {
        [Value::String(text)] => Ok(Value::Bool(Url::parse(text.as_str()).is_ok())),
        _ => no_overload("isURL", args),
    }),
    ("getScheme", MEMBER, Cost::Fixed(1), |args, _| {
        of_url("getScheme", args, |url| url.scheme.clone())
    }),
    ("getHost", MEMBER, Cost::Fixed(1), |args, _| {
        of_url("getHost", args, |url| url.host.clone())
    }),
    ("getHostname", MEMBER, Cost::Fixed(1), |args, _| {
        of_url("getHostname", args, |url| url.hostname().to_owned())
    }),
    ("getPort", MEMBER, Cost::Fixed(1), |args, _| {
        of_url("getPort", args, |url| url.port().to_owned())
    }),
    ("getEscapedPath", MEMBER, Cost::Fixed(1), |args, _| {
        of_url("getEscapedPath", args, |url| url.path.clone())
    }),
    ("getQuery", MEMBER, Cost::Fixed(1), |args, _| match args {
        [Value::Opaque(Opaque::Url(url))] => Ok(parameters(url.query())),
        _ => no_overload("getQuery", args),
    }),
    ("format.named", GLOBAL, Cost::Fixed(1), |args, _| match args {
        [Value::String(name)] => {
            let format = formats::named(name.as_str()).map(|format| Value::Opaque(Opaque::Format(format)));
            Ok(Value::Optional(format.map(Arc::new)))
        }
        _ => no_overload("format.named", args),
    }),
    ("format.dns1123Label", GLOBAL, Cost::Fixed(1), |_, _| {
        format("dns1123Label")
    }),
    ("format.dns1123Subdomain", GLOBAL, Cost::Fixed(1), |_, _| {
        format("dns1123Subdomain")
    }),
    ("format.dns1035Label", GLOBAL, Cost::Fixed(1), |_, _| {
        format("dns1035Label")
    }),
    ("format.qualifiedName", GLOBAL, Cost::Fixed(1), |_, _| {
        format("qualifiedName")
    }),
    ("format.dns1123LabelPrefix", GLOBAL, Cost::Fixed(1), |_, _| {
        format("dns1123LabelPrefix")
    }),
    ("format.dns1123SubdomainPrefix", GLOBAL, Cost::Fixed(1), |_, _| {
        format("dns1123SubdomainPrefix")
    }),
    ("format.dns1035LabelPrefix", GLOBAL, Cost::Fixed(1), |_, _| {
        format("dns1035LabelPrefix")
    }),
    ("format.labelValue", GLOBAL, Cost::Fixed(1), |_, _| format("labelValue")),
    ("format.uri", GLOBAL, Cost::Fixed(1), |_, _| format("uri")),
    ("format.uuid", GLOBAL, Cost::Fixed(1), |_, _| format("uuid")),
    ("format.byte", GLOBAL, Cost::Fixed(1), |_, _| format("byte")),
    ("format.date", GLOBAL, Cost::Fixed(1), |_, _| format("date")),
    ("format.datetime", GLOBAL, Cost::Fixed(1), |_, _| format("datetime")),
    ("validate", MEMBER, Cost::Format, |args, _| match args {
        [Value::Opaque(Opaque::Format(format)), Value::String(text)] => {
            let errors: Vec<Value<'_>> = (format.validate)(text.as_str()).into_iter().map(Value::text).collect();
            Ok(Value::Optional(
                (!errors.is_empty()).then(|| Arc::new(Value::list(errors))),
            ))
        }
        _ => no_overload("validate", args),
    }),
    (
        "jsonpatch.escapeKey",
        GLOBAL,
        Cost::Traversal(1),
        |args, _| match args {
            [Value::String(key)] => Ok(Value::text(key.as_str().replace('~', "~0").replace('/', "~1"))),
            _ => no_overload("jsonpatch.escapeKey", args),
        },
    ),
];

fn of_url<'v>(name: &str, args: &[Value<'v>], part: fn(&Url) -> String) -> FunctionResult<'v> {
    match args {
        [Value::Opaque(Opaque::Url(url))] => Ok(Value::text(part(url))),
        _ => no_overload(name, args),
    }
}

fn parameters<'v>(query: BTreeMap<String, Vec<String>>) -> Value<'v> {
    let entry = |(key, values): (String, Vec<String>)| {
        let values = values.into_iter().map(Value::text).collect();
        (MapKey::String(Text::Shared(key.into())), Value::list(values))
    };
    let entries = query.into_iter().map(entry).collect();
    Value::Map(Map::Made(Arc::new(MapEntries { name: None, entries })))
}

fn format<'v>(name: &str) -> FunctionResult<'v> {
    match formats::named(name) {
        Some(format) => Ok(Value::Opaque(Opaque::Format(format))),
        None => no_overload(name, &[]),
    }
}
