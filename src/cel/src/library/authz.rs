//! Questions to the authorizer. Each step adds to the question; `check` asks it.

use trireme_machinery::{
    names,
    selector::{FieldSelector, LabelSelector},
};

use super::{CallContext, Cost, FunctionResult, FunctionRow, MEMBER, no_overload};
use crate::{
    authorizer::{AuthorizerCheck, CheckDecision, CheckObject, ResourceCheck},
    meter::EvalError,
    value::{AuthorizerValue, Opaque, Value},
};

/// Two checks an evaluation are within its limit.
const CHECK_COST: u64 = 350_000;

pub(super) const TABLE: &[FunctionRow] = &[
    ("path", MEMBER, Cost::Fixed(1), |args, _| match args {
        [Value::Opaque(Opaque::Authority(_)), Value::String(path)] if path.as_str().is_empty() => {
            Err(EvalError::fixed("path must not be empty"))
        }
        _ => with_object("path", args, |_, path| Some(CheckObject::Path(path.to_owned()))),
    }),
    ("group", MEMBER, Cost::Fixed(1), |args, _| {
        with_object("group", args, |_, group| Some(CheckObject::Group(group.to_owned())))
    }),
    ("serviceAccount", MEMBER, Cost::Fixed(1), service_account),
    ("resource", MEMBER, Cost::Fixed(1), |args, _| {
        with_object("resource", args, |object, resource| match object {
            CheckObject::Group(group) => Some(CheckObject::Resource(Box::new(ResourceCheck {
                group: group.clone(),
                resource: resource.to_owned(),
                ..ResourceCheck::default()
            }))),
            _ => None,
        })
    }),
    ("subresource", MEMBER, Cost::Fixed(1), |args, _| {
        with_part("subresource", args, |check, text| check.subresource = text.to_owned())
    }),
    ("namespace", MEMBER, Cost::Fixed(1), |args, _| {
        with_part("namespace", args, |check, text| check.namespace = text.to_owned())
    }),
    ("name", MEMBER, Cost::Fixed(1), |args, _| {
        with_part("name", args, |check, text| check.name = text.to_owned())
    }),
    ("fieldSelector", MEMBER, Cost::Selector, |args, _| {
        with_part("fieldSelector", args, |check, text| {
            check.field_selector = Some(FieldSelector::parse(text).map_err(|error| error.to_string()));
        })
    }),
    ("labelSelector", MEMBER, Cost::Selector, |args, _| {
        with_part("labelSelector", args, |check, text| {
            check.label_selector = Some(LabelSelector::parse(text).map_err(|error| error.to_string()));
        })
    }),
    ("check", MEMBER, Cost::Fixed(CHECK_COST), |args, _| match args {
        [Value::Opaque(Opaque::Authority(authority)), Value::String(verb)] => {
            let check = AuthorizerCheck {
                verb: verb.as_str().to_owned(),
                ..authority.check.clone()
            };
            let decision = authority.authorizer.0.authorize(&check);
            Ok(Value::Opaque(Opaque::Decision(decision.into())))
        }
        _ => no_overload("check", args),
    }),
    ("allowed", MEMBER, Cost::Fixed(1), |args, _| {
        of_decision("allowed", args, |decision| Value::Bool(decision.allowed))
    }),
    ("reason", MEMBER, Cost::Fixed(1), |args, _| {
        of_decision("reason", args, |decision| Value::text(decision.reason.as_str()))
    }),
    ("errored", MEMBER, Cost::Fixed(1), |args, _| {
        of_decision("errored", args, |decision| Value::Bool(decision.error.is_some()))
    }),
    ("error", MEMBER, Cost::Fixed(1), |args, _| {
        of_decision("error", args, |decision| {
            Value::text(decision.error.clone().unwrap_or_default())
        })
    }),
];

fn of_decision<'v>(name: &str, args: &[Value<'v>], part: fn(&CheckDecision) -> Value<'v>) -> FunctionResult<'v> {
    match args {
        [Value::Opaque(Opaque::Decision(decision))] => Ok(part(decision)),
        _ => no_overload(name, args),
    }
}

fn with_object<'v>(
    name: &str,
    args: &[Value<'v>],
    object: fn(&CheckObject, &str) -> Option<CheckObject>,
) -> FunctionResult<'v> {
    let [Value::Opaque(Opaque::Authority(authority)), Value::String(text)] = args else {
        return no_overload(name, args);
    };
    let Some(object) = object(&authority.check.object, text.as_str()) else {
        return no_overload(name, args);
    };
    let mut authority = AuthorizerValue::clone(authority);
    authority.check.object = object;
    Ok(Value::Opaque(Opaque::Authority(authority.into())))
}

fn with_part<'v>(name: &str, args: &[Value<'v>], set: fn(&mut ResourceCheck, &str)) -> FunctionResult<'v> {
    let [Value::Opaque(Opaque::Authority(authority)), Value::String(text)] = args else {
        return no_overload(name, args);
    };
    let mut authority = AuthorizerValue::clone(authority);
    let CheckObject::Resource(check) = &mut authority.check.object else {
        return no_overload(name, args);
    };
    set(check, text.as_str());
    Ok(Value::Opaque(Opaque::Authority(authority.into())))
}

fn service_account<'v>(args: &[Value<'v>], _: &mut CallContext<'v, '_>) -> FunctionResult<'v> {
    let [
        Value::Opaque(Opaque::Authority(authority)),
        Value::String(namespace),
        Value::String(name),
    ] = args
    else {
        return no_overload("serviceAccount", args);
    };
    if !names::dns1123_subdomain(name.as_str()).is_empty() {
        return Err(EvalError::fixed("Invalid service account name"));
    }
    if !names::dns1123_label(namespace.as_str()).is_empty() {
        return Err(EvalError::fixed("Invalid service account namespace"));
    }
    let mut authority = AuthorizerValue::clone(authority);
    authority.check.service_account = Some((namespace.as_str().to_owned(), name.as_str().to_owned()));
    Ok(Value::Opaque(Opaque::Authority(authority.into())))
}
