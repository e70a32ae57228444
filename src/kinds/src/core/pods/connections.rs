//! `/log`, `/exec`, `/attach`, `/portforward` and `/proxy`: which container is meant, and whether there is a node or an
//! address to ask.

use std::net::IpAddr;

use futures_util::future::BoxFuture;
use serde_json::Value;
use trireme_machinery::{
    ApiError, GroupKind,
    field::{Error, ErrorList, Path},
    go_text::{parse_int, quote},
};
use trireme_registry::subresource::{Connect, ConnectCall, Destination};

use super::status::addresses;
use crate::{
    core::proxy,
    values::{items, text, text_at},
};

/// `/log`: an empty answer as long as the pod has no node.
pub(super) struct PodLog;

impl Connect for PodLog {
    fn name(&self) -> &'static str {
        "log"
    }

    fn is_admitted(&self) -> bool {
        false
    }

    fn find<'a>(&'a self, call: &'a ConnectCall) -> BoxFuture<'a, Result<Destination, ApiError>> {
        Box::pin(async move {
            check_log_options(call)?;
            let pod = call.object(&call.target.name).await?;
            check_container(&pod, call.option("container").unwrap_or(""))?;
            Ok(if text_at(&pod, "/spec/nodeName").is_empty() {
                Destination::Absent
            } else {
                Destination::Backend
            })
        })
    }
}

/// `/exec`, `/attach` and `/portforward`: they need a node.
pub(super) struct PodStream {
    name: &'static str,
    /// True if it is about one of the pod's containers.
    of_container: bool,
}

pub(super) const EXEC: PodStream = PodStream {
    name: "exec",
    of_container: true,
};
pub(super) const ATTACH: PodStream = PodStream {
    name: "attach",
    of_container: true,
};
pub(super) const PORT_FORWARD: PodStream = PodStream {
    name: "portforward",
    of_container: false,
};

impl Connect for PodStream {
    fn name(&self) -> &'static str {
        self.name
    }

    fn needs_create(&self) -> bool {
        true
    }

    fn find<'a>(&'a self, call: &'a ConnectCall) -> BoxFuture<'a, Result<Destination, ApiError>> {
        Box::pin(async move {
            let name = &call.target.name;
            let pod = call.object(name).await?;
            if self.of_container {
                check_container(&pod, text(&call.options, "container"))?;
            }
            if text_at(&pod, "/spec/nodeName").is_empty() {
                return Err(ApiError::bad_request(format!(
                    "pod {name} does not have a host assigned"
                )));
            }
            Ok(Destination::Backend)
        })
    }
}

/// `/proxy`: it needs an address.
pub(super) struct PodProxy;

impl Connect for PodProxy {
    fn name(&self) -> &'static str {
        "proxy"
    }

    fn find<'a>(&'a self, call: &'a ConnectCall) -> BoxFuture<'a, Result<Destination, ApiError>> {
        Box::pin(async move {
            let pod = call.object(proxy::address(&call.target.name, "pod")?.name).await?;
            let address = match addresses(&pod, "podIPs").first() {
                Some(address) => (*address).to_owned(),
                None => text_at(&pod, "/status/podIP").to_owned(),
            };
            if !address.parse().is_ok_and(may_be_reached) {
                return Err(ApiError::bad_request("address not allowed"));
            }
            Ok(Destination::Backend)
        })
    }
}

/// No client is proxied to the server's own host or its link-local neighbours.
fn may_be_reached(address: IpAddr) -> bool {
    let is_local = match address {
        IpAddr::V4(address) => address.is_link_local() || address.is_broadcast(),
        IpAddr::V6(address) => address.is_unicast_link_local() || address.to_ipv4_mapped().is_some(),
    };
    !is_local && !address.is_loopback() && !address.is_unspecified() && !address.is_multicast()
}

/// The container must be one of the pod's; it may be left out if there is only one.
fn check_container(pod: &Value, container: &str) -> Result<(), ApiError> {
    let none = Value::Null;
    let spec = pod.get("spec").unwrap_or(&none);
    let names = |list: &str| {
        items(spec, list)
            .iter()
            .map(|one| text(one, "name"))
            .collect::<Vec<_>>()
    };
    let (containers, init) = (names("containers"), names("initContainers"));
    let pod = text_at(pod, "/metadata/name");
    if !container.is_empty() {
        let known = [containers, init, names("ephemeralContainers")].concat();
        if known.contains(&container) {
            return Ok(());
        }
        let text = format!("container {container} is not valid for pod {pod}");
        return Err(ApiError::bad_request(text));
    }
    let mut why = format!("a container name must be specified for pod {pod}");
    match containers.as_slice() {
        [_] => return Ok(()),
        [] => {}
        _ => {
            why.push_str(&format!(", choose one of: [{}]", containers.join(" ")));
            if !init.is_empty() {
                why.push_str(&format!(" or one of the init containers: [{}]", init.join(" ")));
            }
        }
    }
    Err(ApiError::bad_request(why))
}

/// `PodLogOptions`: first each by itself, then together.
fn check_log_options(call: &ConnectCall) -> Result<(), ApiError> {
    let number = |name: &str| -> Result<Option<i64>, ApiError> {
        let Some(given) = call.option(name) else {
            return Ok(None);
        };
        parse_int(given).map(Some).map_err(ApiError::bad_request)
    };
    let since_seconds = number("sinceSeconds")?;
    let since_time = call.option("sinceTime").filter(|given| !matches!(*given, "" | "null"));
    if let Some(given) = since_time.filter(|given| given.parse::<jiff::Timestamp>().is_err()) {
        let shown = quote(given);
        let text = format!("parsing time {shown} as \"2006-01-02T15:04:05Z07:00\": cannot parse {shown} as \"2006\"");
        return Err(ApiError::bad_request(text));
    }
    let (tail_lines, limit_bytes) = (number("tailLines")?, number("limitBytes")?);
    let mut errors = ErrorList::new();
    let mut at_least = |least: i64, name: &'static str, value: Option<i64>| {
        if let Some(value) = value.filter(|value| *value < least) {
            let detail = if least == 0 {
                "must be greater than or equal to 0"
            } else {
                "must be greater than 0"
            };
            errors.push(Error::invalid(&Path::new(name), &value.into(), detail));
        }
    };
    at_least(0, "tailLines", tail_lines);
    at_least(1, "limitBytes", limit_bytes);
    if since_time.is_none() {
        at_least(1, "sinceSeconds", since_seconds);
    } else if since_seconds.is_some() {
        let detail = "at most one of `sinceTime` or `sinceSeconds` may be specified";
        errors.push(Error::forbidden(&Path::new("[]"), detail));
    }
    if call.option("stream").is_some() {
        errors.push(Error::forbidden(&Path::new("stream"), "may not be specified"));
    }
    if errors.is_empty() {
        return Ok(());
    }
    let kind = GroupKind {
        group: "".into(),
        kind: "PodLogOptions".into(),
    };
    Err(ApiError::invalid(&kind, &call.target.name, &errors))
}
