//! `/flagz` and `/statusz`: the flags and the state of this server, as text, or as an object for clients that ask for one
//! (`k8s.io/component-base/zpages`).

use std::fmt::Write as _;

use actix_web::{
    HttpResponse,
    http::{StatusCode, header},
};
use jiff::Timestamp;
use serde_json::{Value, json};
use trireme_machinery::{ApiError, Reason, yaml};

use crate::{
    api::{Api, EdgeShared},
    exchange::CurrentExchange,
    respond, status,
};

const COMPONENT: &str = "apiserver";
const WARNING: &str = "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for debugging purposes only.";
const GROUP: &str = "config.k8s.io";
/// Clients are warned of it.
const DEPRECATED: &str = "v1alpha1";
const VERSIONS: [&str; 2] = [DEPRECATED, "v1beta1"];
const NOT_ACCEPTABLE: &str =
    "only the following media types are accepted: application/json, application/yaml, text/plain";
/// The pages that `/statusz` names.
const PATHS: [&str; 7] = [
    "/flagz", "/healthz", "/livez", "/metrics", "/readyz", "/statusz", "/version",
];

/// The form of a page.
#[derive(Debug, PartialEq, Eq)]
enum PageForm {
    Text,
    Object(Encoding, &'static str),
}

/// The encoding of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encoding {
    Json,
    Yaml,
}

/// `/flagz`
pub(super) async fn flagz(exchange: CurrentExchange, api: EdgeShared) -> HttpResponse {
    let Some(flags) = &api.flagz else {
        return status::page_not_found();
    };
    page(
        &exchange,
        "Flagz",
        || {
            let mut text = format!("\n{COMPONENT} flagz\n{WARNING}\n");
            for (name, value) in flags {
                // Writing to a string does not fail.
                let _ = writeln!(text, "{name}={value}");
            }
            text
        },
        || {
            let flags = flags.iter().map(|(name, value)| (name.clone(), value.as_str().into()));
            ("flags", Value::Object(flags.collect()))
        },
    )
}

/// `/statusz`
pub(super) async fn statusz(exchange: CurrentExchange, api: EdgeShared) -> HttpResponse {
    let Some(started) = api.started else {
        return status::page_not_found();
    };
    let now = Timestamp::try_from(api.clock.wall()).unwrap_or(started);
    let up = now.duration_since(started).as_secs().max(0);
    let (binary, emulated) = versions(&api);
    let object = || {
        json!({
            "startTime": started.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            "uptimeSeconds": up,
            "goVersion": super::plain::GO_VERSION,
            "binaryVersion": binary,
            "emulationVersion": emulated,
            "paths": PATHS,
        })
    };
    let text = || {
        let lines = [
            ("Started", started.strftime("%a %b %e %H:%M:%S UTC %Y").to_string()),
            ("Up", shown_duration(up)),
            ("Go version", super::plain::GO_VERSION.to_owned()),
            ("Binary version", binary.clone()),
            ("Emulation version", emulated.clone()),
            ("Paths", PATHS.join(" ")),
        ];
        let lines = lines.map(|(name, value)| format!("{name}: {value}\n"));
        format!("\n{COMPONENT} statusz\n{WARNING}\n\n{}", lines.concat())
    };
    page(&exchange, "Statusz", text, || ("", object()))
}

/// `0 hr 01 min 47 sec`
fn shown_duration(seconds: i64) -> String {
    format!(
        "{} hr {:02} min {:02} sec",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )
}

/// The version of Kubernetes that is served, with its patch and without.
fn versions(api: &Api) -> (String, String) {
    let binary = api.version.release();
    let emulated: Vec<&str> = binary.split('.').take(2).collect();
    (binary.to_owned(), emulated.join("."))
}

/// A page in the form that the client asks for. The fields of the object stand under a name, or beside its metadata.
fn page(
    exchange: &CurrentExchange,
    kind: &'static str,
    text: impl FnOnce() -> String,
    fields: impl FnOnce() -> (&'static str, Value),
) -> HttpResponse {
    let form = form(exchange.accept.as_deref().unwrap_or_default(), kind);
    let answered = form.map(|form| match form {
        PageForm::Text => respond::text(StatusCode::OK, text()),
        PageForm::Object(format, version) => {
            if version == DEPRECATED {
                let endpoint = kind.to_lowercase();
                exchange.warn(format!(
                    "This version of the {endpoint} endpoint is deprecated. Please use a newer version."
                ));
            }
            let mut object = json!({
                "kind": kind,
                "apiVersion": format!("{GROUP}/{version}"),
                "metadata": {"name": COMPONENT},
            });
            match fields() {
                ("", Value::Object(fields)) => {
                    for (name, value) in fields {
                        object[name] = value;
                    }
                }
                (name, value) => object[name] = value,
            }
            let (media_type, body) = match format {
                Encoding::Json => ("application/json", object.to_string() + "\n"),
                Encoding::Yaml => ("application/yaml", yaml::encode(&object)),
            };
            let media_type = format!("{media_type};g={GROUP};v={version};as={kind}");
            HttpResponse::Ok()
                .insert_header((header::CONTENT_TYPE, media_type))
                .body(body)
        }
    });
    respond::finish(exchange, answered)
}

/// The first form of an `Accept` header that there is.
fn form(accept: &str, kind: &str) -> Result<PageForm, ApiError> {
    if accept.trim().is_empty() {
        return Ok(PageForm::Text);
    }
    let found = accept.split(',').find_map(|clause| {
        let mut parts = clause.split(';').map(str::trim);
        let format = match parts.next()? {
            "*/*" | "text/*" | "text/plain" => return Some(PageForm::Text),
            "application/json" => Encoding::Json,
            "application/yaml" => Encoding::Yaml,
            _ => return None,
        };
        let parameters: Vec<&str> = parts.collect();
        let value = |name: &str| {
            let mut values = parameters.iter().filter_map(|parameter| parameter.split_once('='));
            values.find(|(known, _)| *known == name).map(|(_, value)| value)
        };
        let version = VERSIONS.iter().find(|version| value("v") == Some(version))?;
        (value("g") == Some(GROUP) && value("as") == Some(kind)).then_some(PageForm::Object(format, version))
    });
    found.ok_or_else(|| ApiError::new(Reason::NotAcceptable, NOT_ACCEPTABLE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_text_unless_an_object_is_asked_for() {
        for accept in ["", "*/*", "text/plain", "text/html, text/plain;q=0.5"] {
            assert_eq!(form(accept, "Flagz").ok(), Some(PageForm::Text), "{accept}");
        }
        let object = |accept: &str| form(accept, "Flagz").ok();
        assert_eq!(
            object("application/json;as=Flagz;v=v1beta1;g=config.k8s.io"),
            Some(PageForm::Object(Encoding::Json, "v1beta1"))
        );
        assert_eq!(
            object("application/yaml;as=Flagz;v=v1alpha1;g=config.k8s.io"),
            Some(PageForm::Object(Encoding::Yaml, "v1alpha1"))
        );
        for refused in [
            "application/json",
            "application/yaml",
            "text/html",
            "application/json;as=Flagz;v=v1;g=config.k8s.io",
            "application/json;as=Nope;v=v1beta1;g=config.k8s.io",
        ] {
            assert_eq!(object(refused), None, "{refused}");
        }
    }

    #[test]
    fn durations_are_shown_by_hours() {
        assert_eq!(shown_duration(107), "0 hr 01 min 47 sec");
        assert_eq!(shown_duration(36_061), "10 hr 01 min 01 sec");
    }
}
