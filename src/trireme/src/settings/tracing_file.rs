//! Reads the file of `--tracing-config-file`: kube-apiserver's `TracingConfiguration`.

use std::path::Path;

use serde_json::{Map, Value};
use trireme_machinery::yaml;

use super::Tracing;
use super::errors::SettingError;
use super::values::port;

const GROUP: &str = "apiserver.config.k8s.io/";
const VERSIONS: [&str; 3] = ["v1", "v1beta1", "v1alpha1"];
const DEFAULT_ENDPOINT: &str = "localhost:4317";
const MOST_SAMPLES: u32 = 1_000_000;

/// Reads the file, or says everything that is wrong with it.
pub(super) fn read(path: &Path, origin: &str) -> Result<Tracing, Vec<SettingError>> {
    let failure = |allowed: String| {
        vec![SettingError {
            origin: origin.to_owned(),
            value: Some(path.display().to_string()),
            allowed,
        }]
    };
    let bytes = std::fs::read(path).map_err(|error| failure(format!("give a file that can be read ({error})")))?;
    let decoded = yaml::decode(&bytes).map_err(|error| failure(format!("give a file of YAML or JSON ({error})")))?;
    let Value::Object(fields) = decoded.value else {
        return Err(failure("give a TracingConfiguration".to_owned()));
    };
    let mut file = File {
        path,
        fields,
        errors: Vec::new(),
    };
    for duplicate in &decoded.duplicates {
        file.refuse("fields", None, duplicate);
    }
    let tracing = file.tracing();
    if file.errors.is_empty() {
        Ok(tracing)
    } else {
        Err(file.errors)
    }
}

struct File<'a> {
    path: &'a Path,
    fields: Map<String, Value>,
    errors: Vec<SettingError>,
}

impl File<'_> {
    fn tracing(&mut self) -> Tracing {
        let is_version = |text: &str| text.strip_prefix(GROUP).is_some_and(|text| VERSIONS.contains(&text));
        self.required("apiVersion", "give apiserver.config.k8s.io/v1beta1", |value| {
            value.as_str().filter(|text| is_version(text)).map(drop)
        });
        self.required("kind", "give TracingConfiguration", |value| {
            (value == "TracingConfiguration").then_some(())
        });
        let endpoint = self.optional(
            "endpoint",
            "give host:port of an OTLP collector that speaks gRPC",
            |value| value.as_str().and_then(address),
        );
        let allowed = "give a whole number from 0 to 1000000";
        let samples_per_million = self.optional("samplingRatePerMillion", allowed, |value| {
            let samples = value.as_u64().and_then(|samples| u32::try_from(samples).ok());
            samples.filter(|samples| *samples <= MOST_SAMPLES)
        });
        let unknown: Vec<String> = self.fields.keys().cloned().collect();
        for name in unknown {
            self.refuse(&name, None, "no such field");
        }
        Tracing {
            endpoint: endpoint.unwrap_or_else(|| DEFAULT_ENDPOINT.to_owned()),
            samples_per_million: samples_per_million.unwrap_or(0),
        }
    }

    fn required(&mut self, name: &str, allowed: &str, read: impl Fn(&Value) -> Option<()>) {
        if self.fields.get(name).is_none_or(Value::is_null) {
            self.fields.remove(name);
            self.refuse(name, None, &format!("is missing: {allowed}"));
        } else {
            self.optional(name, allowed, read);
        }
    }

    /// Takes a field out, so that what is left at the end is unknown.
    fn optional<T>(&mut self, name: &str, allowed: &str, read: impl Fn(&Value) -> Option<T>) -> Option<T> {
        let value = self.fields.remove(name).filter(|value| !value.is_null())?;
        let read = read(&value);
        if read.is_none() {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            self.refuse(name, Some(text), allowed);
        }
        read
    }

    fn refuse(&mut self, name: &str, value: Option<String>, allowed: &str) {
        self.errors.push(SettingError {
            origin: format!("{name} in {}", self.path.display()),
            value,
            allowed: allowed.to_owned(),
        });
    }
}

/// `host:port`, perhaps as gRPC's `dns:///host:port`.
fn address(text: &str) -> Option<String> {
    let text = text
        .strip_prefix("dns:///")
        .or_else(|| text.strip_prefix("dns:"))
        .unwrap_or(text);
    let (host, number) = text.rsplit_once(':')?;
    let is_host = !host.is_empty() && host.chars().all(|c| c.is_ascii_alphanumeric() || ".-_[]:".contains(c));
    (is_host && port(number).is_some()).then(|| text.to_owned())
}
