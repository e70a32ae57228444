//! The errors of the settings, all reported at once.

use std::fmt;

/// One thing that is wrong: where it was said, what was said, and what may be said there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SettingError {
    /// `--secure-port`, `TRIREME_SECURE_PORT (--secure-port)` or `secure-port in FILE`.
    pub(crate) origin: String,
    /// The value as given, if one was.
    pub(crate) value: Option<String>,
    /// The allowed values, as a sentence without a full stop.
    pub(crate) allowed: String,
}

impl fmt::Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Some(value) => write!(f, "{}: {value:?}: {}", self.origin, self.allowed),
            None => write!(f, "{}: {}", self.origin, self.allowed),
        }
    }
}

/// All errors of one set of settings; never empty.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) struct SettingsErrors(pub(crate) Vec<SettingError>);

impl fmt::Display for SettingsErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.len() {
            1 => write!(f, "1 error in the settings")?,
            count => write!(f, "{count} errors in the settings")?,
        }
        self.0.iter().try_for_each(|error| write!(f, "\n  {error}"))
    }
}
