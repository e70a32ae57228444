//! The admission chain and its built-in plugins.
