//! Notices heads that say in two ways how long their body is.
//!
//! With both `Content-Length` and `Transfer-Encoding`, a proxy in front may see other requests than the server does.
//! hyper goes by `Transfer-Encoding`, as it may, and hides that there was a `Content-Length`; so the bytes are looked at
//! before it has them. A head that was sent together with the request before it is not looked at, as it is not known where it
//! begins: if it says that its body comes in chunks, the connection ends with its answer.

#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

const LENGTH: &[u8] = b"content-length";
const ENCODING: &[u8] = b"transfer-encoding";

/// The lengths seen in one head.
#[derive(Debug, Default)]
pub(super) struct Lengths {
    /// The beginning of the current line.
    line: Vec<u8>,
    lengths: bool,
    encodings: bool,
    /// There has been a line that is not empty: empty ones before the head are passed over.
    begun: bool,
    complete: bool,
}

impl Lengths {
    /// Looks at the next bytes. Reports whether the head has both headers.
    pub(super) fn see(&mut self, bytes: &[u8]) -> bool {
        for &byte in bytes {
            if self.complete {
                break;
            }
            if byte == b'\n' {
                self.end_line();
            } else if self.line.len() <= ENCODING.len() {
                self.line.push(byte);
            }
        }
        self.lengths && self.encodings
    }

    fn end_line(&mut self) {
        let name = self.line.split(|byte| *byte == b':').next().unwrap_or_default();
        self.lengths |= name.eq_ignore_ascii_case(LENGTH);
        self.encodings |= name.eq_ignore_ascii_case(ENCODING);
        let is_empty = matches!(self.line.as_slice(), b"" | b"\r");
        self.complete = is_empty && self.begun;
        self.begun |= !is_empty;
        self.line.clear();
    }

    /// Reports whether a whole head has been looked at.
    pub(super) fn is_complete(&self) -> bool {
        self.complete
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(head: &str, both: bool) {
        assert_eq!(Lengths::default().see(head.as_bytes()), both, "{head:?}");
        let mut bytewise = Lengths::default();
        let seen = head.bytes().fold(false, |_, byte| bytewise.see(&[byte]));
        assert_eq!(seen, both, "{head:?} byte by byte");
    }

    #[test]
    fn both_headers_are_noticed() {
        check(
            "POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            true,
        );
        check("POST / HTTP/1.1\nTRANSFER-ENCODING:chunked\ncontent-length:1\n\n", true);
        check(
            "POST / HTTP/1.1\r\nContent-Length: 1\r\n\r\nTransfer-Encoding: chunked\r\n",
            false,
        );
        check(
            "POST / HTTP/1.1\r\nX-Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            false,
        );
        check(
            "POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
            false,
        );
        check(
            "\r\n\n\r\nPOST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            true,
        );
        check("GET /content-length:transfer-encoding: HTTP/1.1\r\n\r\n", false);
    }
}
