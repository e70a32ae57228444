//! Warnings on files of one volume that would hide each other.

use std::cmp::Ordering;

use serde_json::Value;

use trireme_machinery::go_text::quote;

use crate::values::{items, text};

/// The most warnings about the files of one volume.
const MAX_OVERLAPS: usize = 100;
/// The bytes of warnings about files after which an object gets no more of them. A client is sent 4 KiB of warnings at most.
const MAX_BYTES: usize = 16 * 1024;

/// A file's path, and its source as a text unless the volume has but one.
struct VolumeFile<'a> {
    path: &'a str,
    source: String,
}

impl<'a> VolumeFile<'a> {
    fn new(path: &'a str, source: &str) -> Self {
        Self {
            path: path.trim_end_matches('/'),
            source: source.to_owned(),
        }
    }

    /// Returns true if the file is the other one or stands within it.
    fn is_within(&self, outer: &Self) -> bool {
        let rest = self.path.strip_prefix(outer.path);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Orders paths so that what is within a file comes right after it: `a`, `a/b`, `a b`.
    fn cmp_path(&self, other: &Self) -> Ordering {
        let [own, others] = [self, other].map(|file| file.path.bytes().map(|byte| (byte != b'/', byte)));
        own.cmp(others)
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
    let mut left = MAX_BYTES;
    for volume in items(spec, "volumes") {
        let name = quote(text(volume, "name"));
        for (kind, shown, owner) in [("configMap", "ConfigMap", "name"), ("secret", "Secret", "secretName")] {
            if let Some(source) = volume.get(kind) {
                let what = format!("volume {name} ({shown} {})", quote(text(source, owner)));
                push_overlaps(&files(source, ""), &what, &mut left, warnings);
            }
        }
        if let Some(source) = volume.get("downwardAPI") {
            push_overlaps(
                &files(source, ""),
                &format!("volume {name} (DownwardAPI)"),
                &mut left,
                warnings,
            );
        }
        if let Some(source) = volume.get("projected") {
            warn_of_projected(source, &format!("volume {name} (Projected)"), &mut left, warnings);
        }
    }
}

/// The files of one source may not overlap either.
fn warn_of_projected(projected: &Value, what: &str, left: &mut usize, warnings: &mut Vec<String>) {
    let mut all = Vec::new();
    for source in items(projected, "sources") {
        if source.as_object().is_none_or(serde_json::Map::is_empty) {
            warnings.push(format!("{what} has no sources provided"));
        } else {
            all.extend(projected_files(source));
        }
    }
    push_overlaps(&all, what, left, warnings);
}

fn projected_files(source: &Value) -> Vec<VolumeFile<'_>> {
    let with_items = |kind: &str| source.get(kind).filter(|part| part.get("items").is_some());
    let named = |kind: &str, part: &Value| format!("{kind} {}", quote(text(part, "name")));
    if let Some(map) = with_items("configMap") {
        files(map, &named("ConfigMap", map))
    } else if let Some(secret) = with_items("secret") {
        files(secret, &named("Secret", secret))
    } else if let Some(fields) = with_items("downwardAPI") {
        files(fields, "DownwardAPI")
    } else if let Some(token) = source.get("serviceAccountToken") {
        vec![VolumeFile::new(text(token, "path"), "ServiceAccountToken")]
    } else if let Some(bundle) = source.get("clusterTrustBundle") {
        let name = bundle.get("name").or_else(|| bundle.get("signerName"));
        let name = quote(name.and_then(Value::as_str).unwrap_or_default());
        vec![VolumeFile::new(
            text(bundle, "path"),
            &format!("ClusterTrustBundle {name}"),
        )]
    } else {
        let certificate = source.get("podCertificate").unwrap_or(&Value::Null);
        certificate_files(certificate)
    }
}

fn certificate_files(certificate: &Value) -> Vec<VolumeFile<'_>> {
    let parts = [
        ("certificateChainPath", "PodCertificate chain"),
        ("keyPath", "PodCertificate key"),
        ("credentialBundlePath", "PodCertificate credential bundle"),
    ];
    let given = parts.iter().filter(|(field, _)| !text(certificate, field).is_empty());
    given
        .map(|(field, source)| VolumeFile::new(text(certificate, field), source))
        .collect()
}

fn files<'a>(source: &'a Value, shown: &str) -> Vec<VolumeFile<'a>> {
    let paths = items(source, "items").iter().map(|item| text(item, "path"));
    paths.map(|path| VolumeFile::new(path, shown)).collect()
}

/// Warns of each file that stands within an earlier one, is it, or has it within itself (`checkForOverlap`).
fn push_overlaps(files: &[VolumeFile<'_>], what: &str, left: &mut usize, warnings: &mut Vec<String>) {
    for (file, other) in overlaps(files, MAX_OVERLAPS) {
        if *left == 0 {
            return;
        }
        let (file, other) = (file.shown(), other.shown());
        let warning = format!("{what}: overlapping paths: {file} with {other}");
        *left = left.saturating_sub(warning.len());
        warnings.push(warning);
    }
}

/// A file and an earlier one that it overlaps.
type Overlap<'f, 'a> = (&'f VolumeFile<'a>, &'f VolumeFile<'a>);

/// Up to `limit` pairs of files that overlap, in the order of the later file. If there are more, it is those whose paths come
/// first.
fn overlaps<'f, 'a>(files: &'f [VolumeFile<'a>], limit: usize) -> Vec<Overlap<'f, 'a>> {
    let named = files.iter().enumerate().filter(|(_, file)| !file.path.is_empty());
    let mut sorted: Vec<(usize, &VolumeFile<'_>)> = named.collect();
    sorted.sort_by(|(_, one), (_, other)| one.cmp_path(other));
    let mut around: Vec<(usize, &VolumeFile<'_>)> = Vec::new();
    let mut pairs: Vec<[(usize, &VolumeFile<'_>); 2]> = Vec::new();
    for file in sorted {
        while around.pop_if(|(_, outer)| !file.1.is_within(outer)).is_some() {}
        let room = limit.saturating_sub(pairs.len());
        pairs.extend(around.iter().take(room).map(|outer| {
            if outer.0 < file.0 {
                [file, *outer]
            } else {
                [*outer, file]
            }
        }));
        if pairs.len() >= limit {
            break;
        }
        around.push(file);
    }
    pairs.sort_by_key(|pair| pair.map(|(index, _)| index));
    pairs.into_iter().map(|[(_, file), (_, other)]| (file, other)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn warnings(paths: impl Iterator<Item = String>) -> Vec<String> {
        let items: Value = paths.map(|path| json!({ "key": "k", "path": path })).collect();
        let mut warnings = Vec::new();
        let spec = json!({ "volumes": [{ "name": "v", "configMap": { "name": "m", "items": items } }] });
        warn_of_files(&spec, &mut warnings);
        warnings
    }

    #[test]
    fn pairs_come_in_the_order_of_the_later_file() {
        let paths = ["a/b/c", "a b", "a/b", "", "a", "a/b/", "b/a"];
        let expected = [
            r#""a/b" with "a/b/c""#,
            r#""a" with "a/b/c""#,
            r#""a" with "a/b""#,
            r#""a/b" with "a/b/c""#,
            r#""a/b" with "a/b""#,
            r#""a/b" with "a""#,
        ];
        let expected = expected.map(|pair| format!(r#"volume "v" (ConfigMap "m"): overlapping paths: {pair}"#));
        assert_eq!(warnings(paths.map(str::to_owned).into_iter()), expected);
    }

    #[test]
    fn many_files_get_few_warnings() {
        let repeated = std::iter::repeat_n("a".to_owned(), 20_000);
        assert_eq!(warnings(repeated).len(), MAX_OVERLAPS);
        let long = (0..50).map(|_| "a".repeat(10_000));
        assert_eq!(warnings(long).len(), 1);
        let distinct = (0..20_000).map(|index| format!("a{index}"));
        assert_eq!(warnings(distinct).len(), 0);
    }
}
