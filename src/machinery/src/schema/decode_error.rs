//! The reason that a value is not of its type, in the words of Go's JSON decoder.

use crate::{
    quantity::QuantityError,
    time::{DurationError, TimeError},
};

/// A value that its type cannot hold. Prints as the reference server does, to stand after
/// `… cannot be handled as a …: `.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The JSON type does not fit the field.
    #[error("json: cannot unmarshal {found} into Go struct field {owner}.{path} of type {go_type}")]
    Field {
        /// The value that was found, such as `string` or `number 1.5`.
        found: String,
        /// The struct that holds the field, such as `PodSpec`.
        owner: String,
        /// The field's path from the root, without list positions.
        path: String,
        /// Go's name for the expected type.
        go_type: String,
        /// The same error, as [`DecodeError::restored`] words it.
        restored: String,
    },
    /// The document as a whole is not an object.
    #[error("json: cannot unmarshal {found} into Go value of type {go_type}")]
    Root {
        /// The value that was found.
        found: String,
        /// Go's name for the expected type.
        go_type: String,
        /// The same error, as [`DecodeError::restored`] words it.
        restored: String,
    },
    /// A part of an embedded resource that is of another type.
    #[error("{path}: Invalid value: {shown}: {why}")]
    Embedded {
        /// The part's path from the root.
        path: String,
        /// The value that was found.
        shown: String,
        /// The reason.
        why: String,
    },
    /// Neither a schema nor a flag in a field of a schema that holds one of the two.
    #[error("boolean or JSON schema expected")]
    SchemaOrBool,
    /// Bytes that are not base64.
    #[error("illegal base64 data at input byte {0}")]
    Base64(usize),
    /// A time that is none.
    #[error(transparent)]
    Time(#[from] TimeError),
    /// A duration that is none.
    #[error(transparent)]
    Duration(#[from] DurationError),
    /// A quantity that is none.
    #[error(transparent)]
    Quantity(#[from] QuantityError),
}

impl DecodeError {
    /// The error in the words of Go's converter of trees, which restores an object that was never text: the result of a
    /// strategic merge.
    pub fn restored(&self) -> String {
        match self {
            Self::Field { restored, .. } | Self::Root { restored, .. } => restored.clone(),
            Self::Base64(_) => format!("error decoding from json: {self}"),
            Self::Embedded { .. } | Self::SchemaOrBool | Self::Time(_) | Self::Duration(_) | Self::Quantity(_) => {
                self.to_string()
            }
        }
    }
}
