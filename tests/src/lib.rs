//! Integration tests and the harness that starts real servers.
