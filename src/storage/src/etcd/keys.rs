//! Prefixes as etcd's half-open byte ranges, and etcd's entries as ours.

use std::sync::Arc;

use bytes::Bytes;

use crate::KeyValue;

/// The first key of a range that covers `prefix`; etcd has no empty key.
pub(super) fn range_start(prefix: &str) -> Vec<u8> {
    if prefix.is_empty() {
        vec![0]
    } else {
        prefix.as_bytes().to_vec()
    }
}

/// The first key behind all that start with `prefix`; a lone zero byte is etcd's "to the end".
pub(super) fn range_end(prefix: &str) -> Vec<u8> {
    let mut end = prefix.as_bytes().to_vec();
    match end.last_mut() {
        // The last byte of UTF-8 text is never 0xff.
        Some(last) => *last += 1,
        None => end.push(0),
    }
    end
}

/// `None` if the key is not text: another user of the etcd wrote it, and no key of ours can name it.
pub(super) fn entry(found: etcd_client::KeyValue) -> Option<KeyValue> {
    let (create_revision, mod_revision) = (found.create_revision(), found.mod_revision());
    let (key, value) = found.into_key_value();
    let key: Arc<str> = String::from_utf8(key).ok()?.into();
    Some(KeyValue {
        key,
        value: Bytes::from(value),
        create_revision,
        mod_revision,
    })
}

/// The name of the type in kube-apiserver's metrics: the segment that names the resource.
pub(super) fn resource(key: &str) -> &str {
    let mut segments = key.split('/').filter(|segment| !segment.is_empty());
    match (segments.next(), segments.next()) {
        (_, Some(resource)) => resource,
        _ => "all",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_cover_exactly_the_prefix() {
        assert_eq!((range_start(""), range_end("")), (vec![0], vec![0]));
        assert_eq!(
            (range_start("/a/"), range_end("/a/")),
            (b"/a/".to_vec(), b"/a0".to_vec())
        );
        assert_eq!(range_end("\u{10ffff}"), [0xf4, 0x8f, 0xbf, 0xc0]);
    }

    #[test]
    fn types_are_taken_from_the_key() {
        assert_eq!(resource("/registry/pods/default/a"), "pods");
        assert_eq!(resource("/registry/pods/"), "pods");
        assert_eq!(resource("/registry/"), "all");
        assert_eq!(resource(""), "all");
    }
}
