//! The address of a webhook, as a `clientConfig` has it: a URL, or a service.

use serde_json::Value;

use crate::{
    field::{Error, ErrorList, Path},
    names, url,
};

const URL_FORM: &str = "desired format: https://host[/path]";

/// The address of a webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WebhookAddress {
    /// A server that the configuration names.
    Url {
        /// Scheme, host and port.
        origin: String,
        /// The path.
        path: String,
    },
    /// A service of the cluster.
    Service {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// The port of the service.
        port: u16,
        /// The path.
        path: String,
    },
}

impl WebhookAddress {
    /// Reads a `clientConfig`.
    ///
    /// # Errors
    /// If it is none: the text of the failed call.
    pub fn read(config: &Value) -> Result<Self, String> {
        let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        if let Some(service) = config.get("service").filter(|service| !service.is_null()) {
            let port = service.get("port").and_then(Value::as_u64).unwrap_or(443);
            return Ok(Self::Service {
                namespace: text(service, "namespace"),
                name: text(service, "name"),
                port: u16::try_from(port).map_err(|error| error.to_string())?,
                path: text(service, "path"),
            });
        }
        let url = text(config, "url");
        let Some((scheme, rest)) = url.split_once("://") else {
            return Err("webhook configuration must have either service or URL".to_owned());
        };
        let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        Ok(Self::Url {
            origin: format!("{scheme}://{host}"),
            path: path.to_owned(),
        })
    }

    /// Scheme, host and port; a service goes by its name.
    pub fn origin(&self) -> String {
        match self {
            Self::Url { origin, .. } => origin.clone(),
            Self::Service {
                namespace, name, port, ..
            } => format!("https://{name}.{namespace}.svc:{port}"),
        }
    }

    /// The host and the port of the server, by which its credentials are found.
    pub fn host_and_port(&self) -> String {
        let origin = self.origin();
        let host = origin.split_once("://").map_or(origin.as_str(), |(_, host)| host);
        let has_port = host.rsplit(']').next().is_some_and(|rest| rest.contains(':'));
        if has_port {
            host.to_owned()
        } else {
            format!("{host}:443")
        }
    }

    /// The path, with a slash in front and none at the end, `.` and `..` followed, as kube-apiserver calls it.
    pub fn path(&self) -> String {
        let (Self::Url { path, .. } | Self::Service { path, .. }) = self;
        let mut kept = Vec::new();
        for step in path.split('/') {
            match step {
                "" | "." => {}
                ".." => {
                    kept.pop();
                }
                step => kept.push(step),
            }
        }
        format!("/{}", kept.join("/"))
    }
}

/// Checks the URL of a `clientConfig`: it must be of HTTPS and have no more than a host and a path (`ValidateWebhookURL` of
/// `k8s.io/apiserver/pkg/util/webhook`).
pub fn validate_url(text: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let url = match url::parse(text) {
        Ok(url) => url,
        Err(error) => {
            let detail = format!("url must be a valid URL: {error}; {URL_FORM}");
            return errors.push(Error::required(path, &detail));
        }
    };
    let mut refuse = |value: &str, detail: &str| errors.push(Error::invalid_str(path, value, detail));
    if url.scheme != "https" {
        refuse(
            &url.scheme,
            &format!("'https' is the only allowed URL scheme; {URL_FORM}"),
        );
    }
    if url.host.is_empty() {
        refuse("", &format!("host must be specified; {URL_FORM}"));
    }
    if let Some(user) = url.user {
        refuse(user, "user information is not permitted in the URL");
    }
    for (part, what) in [
        (url.fragment, "fragments are not permitted in the URL"),
        (url.query, "query parameters are not permitted in the URL"),
    ] {
        if !part.is_empty() {
            refuse(part, what);
        }
    }
}

/// Checks the port and the path of the service of a `clientConfig` (`ValidateWebhookService` of
/// `k8s.io/apiserver/pkg/util/webhook`, which also asks for its name and namespace).
pub fn validate_port_and_path(service: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let port = service.get("port").and_then(Value::as_i64).unwrap_or(443);
    for why in names::port_number(port) {
        let detail = format!("port is not valid: {why}");
        errors.push(Error::invalid(&path.child("port"), &port.into(), &detail));
    }
    if let Some(called) = service.get("path").and_then(Value::as_str) {
        validate_called_path(called, &path.child("path"), errors);
    }
}

fn validate_called_path(called: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if called == "/" || called.is_empty() {
        return;
    }
    let mut refuse = |detail: &str| errors.push(Error::invalid_str(path, called, detail));
    if called == "//" {
        return refuse("segment[0] may not be empty");
    }
    if !called.starts_with('/') {
        refuse("must start with a '/'");
    }
    // Upstream takes the first character for a slash, whatever it is.
    let mut characters = called.chars();
    characters.next();
    let stripped = characters.as_str();
    let stripped = stripped.strip_suffix('/').unwrap_or(stripped);
    for (index, segment) in stripped.split('/').enumerate() {
        if segment.is_empty() {
            refuse(&format!("segment[{index}] may not be empty"));
            continue;
        }
        for why in names::dns1123_subdomain(segment) {
            refuse(&format!("segment[{index}]: {why}"));
        }
    }
}

/// The host and port behind the port of a service, which is `name`: kube-apiserver goes to the address of the service, and
/// not to its endpoints, unless configured otherwise (`ResolveCluster` of `k8s.io/apiserver/pkg/util/proxy`).
///
/// # Errors
/// If there is no way there.
pub fn resolve_cluster(service: &Value, name: &str, port: u16) -> Result<String, String> {
    let text = |pointer: &str| service.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let address = text("/spec/clusterIP");
    match text("/spec/type") {
        "ExternalName" => return Ok(text("/spec/externalName").to_owned()),
        "ClusterIP" if address == "None" => return Err("cannot route to service with ClusterIP \"None\"".to_owned()),
        "ClusterIP" | "LoadBalancer" | "NodePort" => {}
        other => return Err(format!("unsupported service type \"{other}\"")),
    }
    let ports = service.pointer("/spec/ports").and_then(Value::as_array);
    let mut ports = ports.into_iter().flatten();
    if ports.any(|known| known.get("port").and_then(Value::as_u64) == Some(port.into())) {
        Ok(address.to_owned())
    } else {
        Err(format!("no service port {port} found for service \"{name}\""))
    }
}

/// The host and port of a ready endpoint behind the port of a service, which is `name`; `offset` picks one of several
/// (`ResolveEndpoint` of `k8s.io/apiserver/pkg/util/proxy`).
///
/// # Errors
/// If there is none.
pub fn resolve_endpoint(
    service: &Value,
    slices: &[Value],
    name: &str,
    port: u16,
    offset: usize,
) -> Result<(String, u16), String> {
    let kind = service
        .pointer("/spec/type")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if !matches!(kind, "ClusterIP" | "LoadBalancer" | "NodePort") {
        return Err(format!("unsupported service type \"{kind}\""));
    }
    let ports = service.pointer("/spec/ports").and_then(Value::as_array);
    let mut ports = ports.into_iter().flatten();
    let known = ports.find(|known| known.get("port").and_then(Value::as_u64) == Some(port.into()));
    let known = known.ok_or_else(|| format!("no service port {port} found for service \"{name}\""))?;
    let port_name = known.get("name").and_then(Value::as_str).unwrap_or_default();
    let family = service.pointer("/spec/ipFamilies/0").and_then(Value::as_str);
    let is_preferred = |slice: &&Value| family.is_some() && slice.get("addressType").and_then(Value::as_str) == family;
    let (preferred, others): (Vec<&Value>, Vec<&Value>) = slices.iter().partition(is_preferred);
    let mut slices = preferred.into_iter().chain(others);
    let found = slices.find_map(|slice| ready_endpoint(slice, port_name, offset));
    found.ok_or_else(|| format!("no endpoints available for service \"{name}\""))
}

/// A ready endpoint of a slice that has a port of this name.
fn ready_endpoint(slice: &Value, port_name: &str, offset: usize) -> Option<(String, u16)> {
    let port = named_port(slice, port_name)?;
    let ready: Vec<&Value> = ready_endpoints(slice).collect();
    let endpoint = ready.get(offset.checked_rem(ready.len())?)?;
    let address = endpoint.pointer("/addresses/0").and_then(Value::as_str)?;
    Some((address.to_owned(), port))
}

/// The port of this name that a slice has.
pub fn named_port(slice: &Value, name: &str) -> Option<u16> {
    let mut ports = slice.get("ports").and_then(Value::as_array).into_iter().flatten();
    let port = ports.find(|port| port.get("name").and_then(Value::as_str).unwrap_or_default() == name)?;
    u16::try_from(port.get("port").and_then(Value::as_u64)?).ok()
}

/// The endpoints of a slice that are ready, or do not say that they are not.
pub fn ready_endpoints(slice: &Value) -> impl Iterator<Item = &Value> {
    let endpoints = slice.get("endpoints").and_then(Value::as_array).into_iter().flatten();
    endpoints.filter(|endpoint| endpoint.pointer("/conditions/ready") != Some(&Value::Bool(false)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_address_has_an_origin_and_a_path() {
        let read = |config: Value| {
            let address = WebhookAddress::read(&config).expect("an address");
            format!("{} {}", address.origin(), address.path())
        };
        assert_eq!(read(json!({"url": "https://a:8443/x/y"})), "https://a:8443 /x/y");
        assert_eq!(read(json!({"url": "https://a"})), "https://a /");
        assert_eq!(read(json!({"url": "https://a//x/./y/../z%20/"})), "https://a /x/z%20");
        let service = json!({"service": {"namespace": "n", "name": "s", "path": "p"}});
        assert_eq!(read(service), "https://s.n.svc:443 /p");
        assert!(WebhookAddress::read(&json!({})).is_err());
    }

    #[test]
    fn a_service_leads_to_a_ready_endpoint_of_its_port() {
        let service =
            json!({"spec": {"type": "ClusterIP", "ipFamilies": ["IPv6"], "ports": [{"port": 443, "name": "https"}]}});
        let slice = |family: &str, address: &str, ready: bool| {
            json!({
                "addressType": family,
                "ports": [{"name": "other", "port": 1}, {"name": "https", "port": 8443}],
                "endpoints": [
                    {"addresses": ["10.0.0.1"], "conditions": {"ready": false}},
                    {"addresses": [address], "conditions": {"ready": ready}},
                ],
            })
        };
        let slices = [slice("IPv4", "10.0.0.2", true), slice("IPv6", "fd00::2", true)];
        let resolve = |slices: &[Value], port| resolve_endpoint(&service, slices, "s", port, 7);
        assert_eq!(resolve(&slices, 443), Ok(("fd00::2".to_owned(), 8443)));
        assert_eq!(resolve(&slices[..1], 443), Ok(("10.0.0.2".to_owned(), 8443)));
        let none = Err("no endpoints available for service \"s\"".to_owned());
        assert_eq!(resolve(&[slice("IPv4", "10.0.0.2", false)], 443), none);
        assert_eq!(resolve(&[], 443), none);
        let missing = Err("no service port 80 found for service \"s\"".to_owned());
        assert_eq!(resolve(&slices, 80), missing);
    }

    #[test]
    fn a_service_leads_to_its_address_if_it_has_the_port() {
        let service = |kind: &str, address: &str| json!({"spec": {"type": kind, "clusterIP": address, "externalName": "e.example", "ports": [{"port": 443}]}});
        let resolve = |kind: &str, address: &str, port| resolve_cluster(&service(kind, address), "s", port);
        assert_eq!(resolve("ClusterIP", "10.0.0.9", 443), Ok("10.0.0.9".to_owned()));
        assert_eq!(resolve("ExternalName", "", 8443), Ok("e.example".to_owned()));
        let missing = resolve("NodePort", "10.0.0.9", 80).expect_err("no such port");
        assert_eq!(missing, "no service port 80 found for service \"s\"");
        assert!(resolve("ClusterIP", "None", 443).is_err());
    }
}
