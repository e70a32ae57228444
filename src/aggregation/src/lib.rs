//! APIServices.
