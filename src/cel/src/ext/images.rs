//! References to images, as `github.com/distribution/reference` reads and completes them.

use std::{fmt, sync::LazyLock};

use regex::Regex;

const DOMAIN: &str = r"(?:(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])(?:\.(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9]))*|\[(?:[a-fA-F0-9:]+)\])(?::[0-9]+)?";
const COMPONENT: &str = r"[a-z0-9]+(?:(?:[._]|__|[-]+)[a-z0-9]+)*";

static REFERENCE: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = format!(
        r"^(?:({DOMAIN})/)?({COMPONENT}(?:/{COMPONENT})*)(?::([\w][\w.-]{{0,127}}))?(?:@([A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{{32,}}))?$"
    );
    Regex::new(&pattern).expect("the pattern is one")
});

const DEFAULT_DOMAIN: &str = "docker.io";

/// A reference with its defaults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// The host of the registry.
    pub registry: String,
    /// The path in the registry.
    pub repository: String,
    /// The tag; `latest` if there is neither tag nor digest.
    pub tag: String,
    /// The digest, if any.
    pub digest: String,
}

impl Image {
    /// Reads a reference.
    ///
    /// # Errors
    /// If the text is none.
    pub fn parse(text: &str) -> Result<Self, String> {
        let invalid = || "couldn't parse image reference: invalid reference format".to_owned();
        let (first, rest) = text.split_once('/').unwrap_or(("", text));
        let is_domain =
            first.contains(['.', ':']) || first == "localhost" || first.chars().any(|c| c.is_ascii_uppercase());
        let full = match (first, is_domain) {
            ("", _) => format!("{DEFAULT_DOMAIN}/library/{rest}"),
            ("index.docker.io", _) => format!("{DEFAULT_DOMAIN}/{rest}"),
            (_, true) => text.to_owned(),
            _ => format!("{DEFAULT_DOMAIN}/{text}"),
        };
        if text.starts_with('/') {
            return Err(invalid());
        }
        let found = REFERENCE.captures(&full).ok_or_else(invalid)?;
        let part = |index: usize| found.get(index).map_or("", |part| part.as_str()).to_owned();
        let (tag, digest) = (part(3), part(4));
        Ok(Self {
            registry: part(1),
            repository: part(2),
            tag: match tag.is_empty() && digest.is_empty() {
                true => "latest".to_owned(),
                false => tag,
            },
            digest,
        })
    }

    /// The digest, or the tag if there is none.
    pub fn identifier(&self) -> &str {
        if self.digest.is_empty() {
            &self.tag
        } else {
            &self.digest
        }
    }
}

impl fmt::Display for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.registry, self.repository)?;
        if !self.tag.is_empty() {
            write!(f, ":{}", self.tag)?;
        }
        if !self.digest.is_empty() {
            write!(f, "@{}", self.digest)?;
        }
        Ok(())
    }
}
