//! What becomes of writes, reads and watches when connections break and members of etcd die or freeze.

mod full;
mod members;
mod proxy;
mod writes;
