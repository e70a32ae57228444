//! Authenticators and authorizers.
