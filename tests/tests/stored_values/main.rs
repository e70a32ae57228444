//! Tests of values that others, or accidents, have put into the store.

mod encrypted;
mod foreign;
mod support;
mod unreadable;
