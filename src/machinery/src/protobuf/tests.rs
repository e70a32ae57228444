//! Messages written by hand, one shape after another, and input that is no message.

mod broken;
mod shapes;
mod writer;
