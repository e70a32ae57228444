//! Tests of writes, reads and watches when connections break and members of etcd die or freeze.

#![expect(
    clippy::disallowed_methods,
    reason = "the clients' tasks end with the test's runtime"
)]

mod full;
mod members;
mod proxy;
mod writes;
