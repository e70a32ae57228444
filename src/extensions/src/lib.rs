//! CustomResourceDefinitions.
//!
//! Definitions are stored and served as objects like any other, by `kinds`. What makes them work — establishing names,
//! serving the custom resources, pruning, conversion, their OpenAPI — is not there yet, and this room holds no code
//! until it is: a definition never becomes `Established`.
