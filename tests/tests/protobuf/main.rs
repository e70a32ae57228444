//! Answers in protobuf as a client sees them: each is decoded by the project's own decoder and held against the JSON of the
//! same moment, and what is encoded of that JSON is held against the bytes. That the encoding is kube-apiserver's is what the
//! recorded pairs show in `src/schema`.

mod answers;
mod client;
mod negotiation;
mod watches;
