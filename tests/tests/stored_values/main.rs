//! Tests of values that others, or accidents, have put into the store.

mod derived;
mod encrypted;
mod every_kind;
mod foreign;
mod kms;
mod kms_plugin;
mod leases;
mod migration;
mod support;
mod unreadable;
mod upgraded;
