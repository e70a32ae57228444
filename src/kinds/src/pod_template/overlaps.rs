//! Warnings on files of one volume that would hide each other.

use serde_json::Value;

use trireme_machinery::go_text::quote;

use crate::values::{items, text};

/// A file's path, and its source as a text unless the volume has but one.
struct File<'a> {
    path: &'a str,
    source: String,
}

impl<'a> File<'a> {
    fn new(path: &'a str, source: &str) -> Self {
        Self {
            path: path.trim_end_matches('/'),
            source: source.to_owned(),
        }
    }

    /// Reports whether one of the files would stand within the other or be it (`checkForOverlap`).
    fn overlaps(&self, other: &Self) -> bool {
        let within = |inner: &Self, outer: &Self| {
            let rest = inner.path.strip_prefix(outer.path);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        !self.path.is_empty() && !other.path.is_empty() && (within(self, other) || within(other, self))
    }

    fn shown(&self) -> String {
        if self.source.is_empty() {
            quote(self.path)
        } else {
            format!("{} ({})", quote(self.path), self.source)
        }
    }
}

/// Warns of the files of all volumes that are made of keys (`warningsForOverlappingVirtualPaths`).
pub(super) fn warn_of_files(spec: &Value, warnings: &mut Vec<String>) {
    for volume in items(spec, "volumes") {
        let name = quote(text(volume, "name"));
        for (kind, shown, owner) in [("configMap", "ConfigMap", "name"), ("secret", "Secret", "secretName")] {
            if let Some(source) = volume.get(kind) {
                let what = format!("volume {name} ({shown} {})", quote(text(source, owner)));
                push_overlaps(&files(source, ""), &what, warnings);
            }
        }
        if let Some(source) = volume.get("downwardAPI") {
            push_overlaps(&files(source, ""), &format!("volume {name} (DownwardAPI)"), warnings);
        }
        if let Some(source) = volume.get("projected") {
            warn_of_projected(source, &format!("volume {name} (Projected)"), warnings);
        }
    }
}

/// The files of one source may not overlap either.
fn warn_of_projected(projected: &Value, what: &str, warnings: &mut Vec<String>) {
    let mut all = Vec::new();
    for source in items(projected, "sources") {
        if source.as_object().is_none_or(serde_json::Map::is_empty) {
            warnings.push(format!("{what} has no sources provided"));
        } else {
            all.extend(projected_files(source));
        }
    }
    push_overlaps(&all, what, warnings);
}

fn projected_files(source: &Value) -> Vec<File<'_>> {
    let with_items = |kind: &str| source.get(kind).filter(|part| part.get("items").is_some());
    let named = |kind: &str, part: &Value| format!("{kind} {}", quote(text(part, "name")));
    if let Some(map) = with_items("configMap") {
        files(map, &named("ConfigMap", map))
    } else if let Some(secret) = with_items("secret") {
        files(secret, &named("Secret", secret))
    } else if let Some(fields) = with_items("downwardAPI") {
        files(fields, "DownwardAPI")
    } else if let Some(token) = source.get("serviceAccountToken") {
        vec![File::new(text(token, "path"), "ServiceAccountToken")]
    } else if let Some(bundle) = source.get("clusterTrustBundle") {
        let name = bundle.get("name").or_else(|| bundle.get("signerName"));
        let name = quote(name.and_then(Value::as_str).unwrap_or_default());
        vec![File::new(text(bundle, "path"), &format!("ClusterTrustBundle {name}"))]
    } else {
        let certificate = source.get("podCertificate").unwrap_or(&Value::Null);
        certificate_files(certificate)
    }
}

fn certificate_files(certificate: &Value) -> Vec<File<'_>> {
    let parts = [
        ("certificateChainPath", "PodCertificate chain"),
        ("keyPath", "PodCertificate key"),
        ("credentialBundlePath", "PodCertificate credential bundle"),
    ];
    let given = parts.iter().filter(|(field, _)| !text(certificate, field).is_empty());
    given
        .map(|(field, source)| File::new(text(certificate, field), source))
        .collect()
}

fn files<'a>(source: &'a Value, shown: &str) -> Vec<File<'a>> {
    let paths = items(source, "items").iter().map(|item| text(item, "path"));
    paths.map(|path| File::new(path, shown)).collect()
}

fn push_overlaps(files: &[File<'_>], what: &str, warnings: &mut Vec<String>) {
    for (index, file) in files.iter().enumerate() {
        for other in files.iter().take(index).filter(|other| file.overlaps(other)) {
            let (file, other) = (file.shown(), other.shown());
            warnings.push(format!("{what}: overlapping paths: {file} with {other}"));
        }
    }
}
