//! The kinds of changes that a watch sends, with the frame that each has around the object.

/// The kind of a change, from a watcher's point of view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// It was created, or now matches the selector.
    Added,
    /// It was changed.
    Modified,
    /// It was deleted, or no longer matches the selector.
    Deleted,
}

impl EventKind {
    /// The `type` of a watch event.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }

    /// The beginning of a watch line, before the object.
    pub(crate) fn line_head(self) -> &'static [u8] {
        match self {
            Self::Added => br#"{"type":"ADDED","object":"#,
            Self::Modified => br#"{"type":"MODIFIED","object":"#,
            Self::Deleted => br#"{"type":"DELETED","object":"#,
        }
    }
}

/// The end of a watch line, after the object.
pub(crate) const LINE_TAIL: &[u8] = b"}\n";
