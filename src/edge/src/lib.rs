//! The HTTP edge: TLS, filter chain, routes, negotiation, handlers and watch streams.
