//! Warnings on files of one volume that would hide each other.

use std::collections::BTreeSet;

use serde_json::Value;

use trireme_machinery::go_text::quote;

use crate::values::{items, text};

/// Warns of the files of all volumes that are made of keys.
pub(super) fn warn_of_files(spec: &Value, warnings: &mut Vec<String>) {
    for volume in items(spec, "volumes") {
        let name = quote(text(volume, "name"));
        for (kind, shown, owner) in [("configMap", "ConfigMap", "name"), ("secret", "Secret", "secretName")] {
            if let Some(source) = volume.get(kind) {
                let what = format!(
                    "volume {name} ({shown} {}): overlapping paths",
                    quote(text(source, owner))
                );
                push_overlaps(&paths(source), &what, warnings);
            }
        }
        if let Some(source) = volume.get("downwardAPI") {
            let what = format!("volume {name} (DownwardAPI): overlapping paths");
            push_overlaps(&paths(source), &what, warnings);
        }
        if let Some(source) = volume.get("projected") {
            warn_of_projected(source, &name, warnings);
        }
    }
}

/// Sources must not overlap within themselves, nor with those before them.
fn warn_of_projected(projected: &Value, name: &str, warnings: &mut Vec<String>) {
    let mut all: BTreeSet<&str> = BTreeSet::new();
    for source in items(projected, "sources") {
        if source.as_object().is_none_or(serde_json::Map::is_empty) {
            warnings.push(format!("volume {name} (Projected) has no sources provided"));
            continue;
        }
        let named = |kind: &str| {
            let part = source.get(kind).filter(|part| part.get("items").is_some())?;
            Some((paths(part), quote(text(part, "name"))))
        };
        let (files, what) = if let Some((files, map)) = named("configMap") {
            (files, format!("ConfigMap {map}"))
        } else if let Some((files, secret)) = named("secret") {
            (files, format!("Secret {secret}"))
        } else if let Some((files, _)) = named("downwardAPI") {
            (files, "DownwardAPI".to_owned())
        } else if let Some(token) = source.get("serviceAccountToken") {
            (vec![text(token, "path")], "ServiceAccountToken".to_owned())
        } else {
            continue;
        };
        if files.is_empty() {
            continue;
        }
        let what = format!("volume {name} (Projected {what}): overlapping paths");
        push_overlaps(&files, &what, warnings);
        let own: BTreeSet<&str> = files.into_iter().collect();
        let mut together: Vec<&str> = own.iter().chain(&all).copied().collect();
        together.sort_unstable();
        push_overlaps(&together, &what, warnings);
        all.extend(own);
    }
}

fn paths(source: &Value) -> Vec<&str> {
    items(source, "items").iter().map(|item| text(item, "path")).collect()
}

fn push_overlaps(paths: &[&str], what: &str, warnings: &mut Vec<String>) {
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for path in paths {
        let path = path.trim_end_matches('/');
        let hides = |other: &&&str| {
            let within = |inner: &str, outer: &str| format!("{inner}/").starts_with(outer);
            !path.is_empty() && !other.is_empty() && (within(other, path) || within(path, other))
        };
        if let Some(other) = seen.iter().find(hides) {
            warnings.push(format!("{what}: {} with {}", quote(path), quote(other)));
        }
        seen.insert(path);
    }
}
