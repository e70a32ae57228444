//! `/log`, `/exec`, `/attach`, `/portforward` and `/proxy`: which container is meant, and whether there is a node or an
//! address to ask.

use futures_util::future::BoxFuture;
use serde_json::Value;
use trireme_machinery::{
    ApiError, Feature, Features, GroupKind,
    field::{Error, ErrorList, Path},
    go_text::parse_int,
    time::Time,
};
use trireme_registry::subresource::{
    BackendHost, Connect, ConnectCall, ConnectTarget, Destination, Passing, may_be_reached,
};

use super::status::addresses;
use crate::{
    core::proxy,
    pod_template::annotations::WHOLE_POD,
    values::{integer_at, items, text, text_at},
};

/// The streams that logs are asked for by.
const STREAMS: [&str; 3] = [ALL_STREAMS, "Stderr", "Stdout"];
const ALL_STREAMS: &str = "All";

/// `/log`: an empty answer as long as the pod has no node.
pub(super) struct PodLog {
    pub(super) features: Features,
}

impl Connect for PodLog {
    fn name(&self) -> &'static str {
        "log"
    }

    fn is_admitted(&self) -> bool {
        false
    }

    fn find<'a>(&'a self, call: &'a ConnectCall) -> BoxFuture<'a, Result<Destination, ApiError>> {
        Box::pin(async move {
            let splits_streams = self.features.has(Feature::PodLogsQuerySplitStreams);
            check_log_options(call, splits_streams)?;
            let pod = call.object(&call.target.name).await?;
            let container = container(&pod, call.option("container").unwrap_or(""))?;
            let node = text_at(&pod, "/spec/nodeName");
            if node.is_empty() {
                return Ok(Destination::Absent);
            }
            Ok(Destination::Backend(ConnectTarget {
                host: BackendHost::Kubelet(node.to_owned()),
                path: format!("/containerLogs/{}/{container}", path_of(&pod)),
                passing: Passing::Text {
                    query: log_query(&|name| call.option(name), splits_streams),
                    unverified: flag(&|name| call.option(name), "insecureSkipTLSVerifyBackend"),
                },
            }))
        })
    }
}

/// `/exec`, `/attach` and `/portforward`: they need a node.
pub(super) struct PodStream {
    name: &'static str,
    /// As the URLs of kubelets name it.
    kubelet_path: &'static str,
    /// True if it is about one of the pod's containers.
    of_container: bool,
}

pub(super) const EXEC: PodStream = PodStream {
    name: "exec",
    kubelet_path: "exec",
    of_container: true,
};
pub(super) const ATTACH: PodStream = PodStream {
    name: "attach",
    kubelet_path: "attach",
    of_container: true,
};
pub(super) const PORT_FORWARD: PodStream = PodStream {
    name: "portforward",
    kubelet_path: "portForward",
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
            let mut path = format!("/{}/{}", self.kubelet_path, path_of(&pod));
            if self.of_container {
                let container = container(&pod, text(&call.options, "container"))?;
                path = format!("{path}/{container}");
            }
            let node = text_at(&pod, "/spec/nodeName");
            if node.is_empty() {
                return Err(ApiError::bad_request(format!(
                    "pod {name} does not have a host assigned"
                )));
            }
            Ok(Destination::Backend(ConnectTarget {
                host: BackendHost::Kubelet(node.to_owned()),
                path,
                passing: Passing::Stream {
                    query: stream_query(&call.options),
                },
            }))
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
            let asked = proxy::address(&call.target.name, "pod")?;
            let pod = call.object(asked.name).await?;
            let address = match addresses(&pod, "podIPs").first() {
                Some(address) => (*address).to_owned(),
                None => text_at(&pod, "/status/podIP").to_owned(),
            };
            let host = address.parse().ok().filter(|address| may_be_reached(*address));
            let host = host.ok_or_else(|| ApiError::bad_request("address not allowed"))?;
            let port = match asked.port {
                "" => first_port(&pod),
                port => port.to_owned(),
            };
            let scheme = asked.scheme.to_owned();
            Ok(proxy::destination(BackendHost::Address { scheme, host, port }, call))
        })
    }
}

/// The first port that a container of the pod names; empty if none does.
fn first_port(pod: &Value) -> String {
    let containers = items(pod.get("spec").unwrap_or(&Value::Null), "containers");
    let first = containers
        .iter()
        .find_map(|container| items(container, "ports").first());
    first.map_or_else(String::new, |port| {
        integer_at(port, "/containerPort").unwrap_or_default().to_string()
    })
}

/// `namespace/name`
fn path_of(pod: &Value) -> String {
    let metadata = pod.get("metadata").unwrap_or(&Value::Null);
    format!("{}/{}", text(metadata, "namespace"), text(metadata, "name"))
}

/// Looks up a parameter of the URL.
type Parameters<'c, 'a> = &'c dyn Fn(&str) -> Option<&'a str>;

/// Reports whether a parameter is true, as Go's clients write that.
fn flag(option: Parameters<'_, '_>, name: &str) -> bool {
    option(name).is_some_and(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
}

/// The parameters that kubelets know, sorted. They are in order: see [`check_log_options`].
fn log_query(option: Parameters<'_, '_>, splits_streams: bool) -> Vec<(String, String)> {
    let flags = ["follow", "previous", "timestamps"]
        .into_iter()
        .filter(|name| flag(option, name));
    let flags = flags.map(|name| (name.to_owned(), "true".to_owned()));
    let numbers = ["sinceSeconds", "tailLines", "limitBytes"].into_iter();
    let numbers = numbers.filter_map(|name| Some((name.to_owned(), parse_int(option(name)?).ok()?.to_string())));
    let since = since_time(option).and_then(|given| Time::parse(given).ok());
    let since = since.map(|time| ("sinceTime".to_owned(), time.to_string()));
    let stream = splits_streams.then(|| ("stream".to_owned(), stream(option).to_owned()));
    let mut query: Vec<_> = flags.chain(numbers).chain(since).chain(stream).collect();
    query.sort();
    query
}

/// The stream that is asked for: both, unless it is said.
fn stream<'a>(option: Parameters<'_, 'a>) -> &'a str {
    option("stream").unwrap_or(ALL_STREAMS)
}

/// The time since which log lines are asked for, if there is one.
fn since_time<'a>(option: Parameters<'_, 'a>) -> Option<&'a str> {
    option("sinceTime").filter(|given| !matches!(*given, "" | "null"))
}

/// The parameters that kubelets know of `exec`, `attach` and `portforward`, sorted.
fn stream_query(options: &Value) -> Vec<(String, String)> {
    let texts = |name: &str| items(options, name).iter();
    let commands = texts("command").map(|word| ("command", word.as_str().unwrap_or_default().to_owned()));
    let mut query: Vec<(&str, String)> = commands.collect();
    for (option, parameter) in [
        ("stderr", "error"),
        ("stdin", "input"),
        ("stdout", "output"),
        ("tty", "tty"),
    ] {
        if options.get(option) == Some(&Value::Bool(true)) {
            query.push((parameter, "1".to_owned()));
        }
    }
    let ports: Vec<String> = texts("ports").map(Value::to_string).collect();
    if !ports.is_empty() {
        query.push(("port", ports.join(",")));
    }
    // Stable: the words of the command stay in their order.
    query.sort_by_key(|(name, _)| *name);
    query
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

/// The container that is meant: one of the pod's; it may be left out if there is only one.
fn container<'p>(pod: &'p Value, container: &'p str) -> Result<&'p str, ApiError> {
    let spec = pod.get("spec").unwrap_or(&Value::Null);
    let names = |list: &str| {
        items(spec, list)
            .iter()
            .map(|one| text(one, "name"))
            .collect::<Vec<_>>()
    };
    let containers = names("containers");
    let all = || {
        [
            names("initContainers"),
            containers.clone(),
            names("ephemeralContainers"),
        ]
        .concat()
    };
    let pod = text_at(pod, "/metadata/name");
    if !container.is_empty() {
        if all().contains(&container) {
            return Ok(container);
        }
        let text = format!("container {container} is not valid for pod {pod}");
        return Err(ApiError::bad_request(text));
    }
    let why = format!("a container name must be specified for pod {pod}");
    match containers.as_slice() {
        [only] => Ok(only),
        [] => Err(ApiError::bad_request(why)),
        _ => {
            let choice = all().join(" ");
            Err(ApiError::bad_request(format!("{why}, choose one of: [{choice}]")))
        }
    }
}

fn validate_stream(stream: &str, tail_lines: Option<i64>, errors: &mut ErrorList) {
    if !STREAMS.contains(&stream) {
        errors.push(Error::not_supported(&Path::new("stream"), stream, &STREAMS));
    }
    if stream != ALL_STREAMS && tail_lines.is_some() {
        let detail = "`tailLines` and specific `stream` are mutually exclusive for now";
        errors.push(Error::forbidden(&WHOLE_POD, detail));
    }
}

/// Checks `PodLogOptions`.
fn check_log_options(call: &ConnectCall, splits_streams: bool) -> Result<(), ApiError> {
    let errors = validate_log_options(&|name| call.option(name), splits_streams)?;
    if errors.is_empty() {
        return Ok(());
    }
    let kind = GroupKind {
        group: "".into(),
        kind: "PodLogOptions".into(),
    };
    Err(ApiError::invalid(&kind, &call.target.name, &errors))
}

/// Validates `PodLogOptions`: first each by itself, then together (`ValidatePodLogOptions`).
fn validate_log_options(option: Parameters<'_, '_>, splits_streams: bool) -> Result<ErrorList, ApiError> {
    let number = |name: &str| -> Result<Option<i64>, ApiError> {
        let Some(given) = option(name) else {
            return Ok(None);
        };
        parse_int(given).map(Some).map_err(ApiError::bad_request)
    };
    let since_seconds = number("sinceSeconds")?;
    let since_time = since_time(option);
    if let Some(given) = since_time {
        Time::parse(given).map_err(|error| ApiError::bad_request(error.to_string()))?;
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
        errors.push(Error::forbidden(&WHOLE_POD, detail));
    }
    if splits_streams {
        validate_stream(stream(option), tail_lines, &mut errors);
    } else if option("stream").is_some() {
        errors.push(Error::forbidden(&Path::new("stream"), "may not be specified"));
    }
    Ok(errors)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use trireme_machinery::Reason;

    use super::*;

    fn lookup<'a>(given: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<&'a str> {
        |name| given.iter().find(|(key, _)| *key == name).map(|(_, value)| *value)
    }

    fn errors(given: &[(&str, &str)], splits_streams: bool) -> Vec<String> {
        let errors = validate_log_options(&lookup(given), splits_streams).unwrap();
        errors.iter().map(ToString::to_string).collect()
    }

    fn query(given: &[(&str, &str)], splits_streams: bool) -> Vec<String> {
        let query = log_query(&lookup(given), splits_streams).into_iter();
        query.map(|(name, value)| format!("{name}={value}")).collect()
    }

    #[test]
    fn times_are_read_as_go_reads_them() {
        for (given, why) in [
            ("2026-01-02 03:04:05Z", "cannot parse \" 03:04:05Z\" as \"T\""),
            ("2026-01-02t03:04:05Z", "cannot parse \"t03:04:05Z\" as \"T\""),
            ("2026-01-02T03:04:05z", "cannot parse \"z\" as \"Z07:00\""),
            ("yesterday", "cannot parse \"yesterday\" as \"2006\""),
        ] {
            let error = validate_log_options(&lookup(&[("sinceTime", given)]), false).expect_err(given);
            let expected = format!("parsing time \"{given}\" as \"2006-01-02T15:04:05Z07:00\": {why}");
            assert_eq!((error.reason, error.message), (Reason::BadRequest, expected));
        }
        let fraction = [("sinceTime", "2026-01-02T03:04:05.5+01:00")];
        assert!(errors(&fraction, false).is_empty());
        assert_eq!(query(&fraction, false), ["sinceTime=2026-01-02T02:04:05Z"]);
    }

    #[test]
    fn a_container_must_be_named_where_there_are_several() {
        let names = |names: &[&str]| -> Vec<Value> { names.iter().map(|name| json!({"name": name})).collect() };
        let pod = |containers: &[&str]| {
            json!({"metadata": {"name": "test"}, "spec": {
                "initContainers": names(&["i"]), "containers": names(containers), "ephemeralContainers": names(&["debugger"]),
            }})
        };
        let of = |containers: &[&str], asked: &str| {
            let found = container(&pod(containers), asked).map(str::to_owned);
            found.map_err(|error| error.message)
        };
        assert_eq!(of(&["a"], ""), Ok("a".to_owned()));
        assert_eq!(of(&["a"], "debugger"), Ok("debugger".to_owned()));
        let needed = "a container name must be specified for pod test";
        assert_eq!(of(&[], ""), Err(needed.to_owned()));
        let choice = format!("{needed}, choose one of: [i a b debugger]");
        assert_eq!(of(&["a", "b"], ""), Err(choice));
        let unknown = "container c is not valid for pod test";
        assert_eq!(of(&["a", "b"], "c"), Err(unknown.to_owned()));
    }

    #[test]
    fn logs_are_split_by_stream_where_the_feature_is_on() {
        let of_one = [("stream", "Stderr"), ("follow", "true")];
        assert_eq!(errors(&of_one, false), ["stream: Forbidden: may not be specified"]);
        assert_eq!(query(&[("tailLines", "3")], false), ["tailLines=3"]);
        assert!(errors(&of_one, true).is_empty());
        assert_eq!(query(&of_one, true), ["follow=true", "stream=Stderr"]);
        let of_all = [("tailLines", "3")];
        assert!(errors(&of_all, true).is_empty());
        assert_eq!(query(&of_all, true), ["stream=All", "tailLines=3"]);
        assert_eq!(
            errors(&[("stream", "Both"), ("tailLines", "3")], true),
            [
                "stream: Unsupported value: \"Both\": supported values: \"All\", \"Stderr\", \"Stdout\"",
                "[]: Forbidden: `tailLines` and specific `stream` are mutually exclusive for now",
            ]
        );
    }
}
