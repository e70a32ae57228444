//! The ids of requests.

use std::fmt;

use uuid::Uuid;

/// A longer id of a client is not taken over: it would go into every log line and header.
const MAX_CLIENT_ID_BYTES: usize = 1024;

/// Names one request in headers and logs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditId(String);

impl AuditId {
    /// The id that the client sent in `Audit-ID`, if it is printable ASCII of a bearable length; else a new one.
    pub fn from_client(header: Option<&[u8]>) -> Self {
        header
            .filter(|id| (1..=MAX_CLIENT_ID_BYTES).contains(&id.len()))
            .filter(|id| id.iter().all(|byte| byte.is_ascii_graphic() || *byte == b' '))
            .and_then(|id| std::str::from_utf8(id).ok())
            .map_or_else(Self::random, |id| Self(id.to_owned()))
    }

    /// A new id.
    pub fn random() -> Self {
        Self(Uuid::new_v4().to_string())
    }

    /// The id as it stands in headers: printable ASCII.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AuditId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_may_name_its_request() {
        for id in ["abc-1", "my own / with spaces & more"] {
            assert_eq!(AuditId::from_client(Some(id.as_bytes())).as_str(), id);
        }
    }

    #[test]
    fn unusable_ids_are_replaced() {
        for bad in [&b""[..], b"a\nb", &[b'x'; 1025], "\u{e4}".as_bytes()] {
            let id = AuditId::from_client(Some(bad));
            assert_eq!(id.as_str().len(), 36, "{bad:?} became {id}");
        }
    }

    #[test]
    fn requests_without_an_id_get_different_ones() {
        assert_ne!(AuditId::from_client(None), AuditId::from_client(None));
    }
}
