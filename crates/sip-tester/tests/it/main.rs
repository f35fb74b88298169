//! Tests of the public interface.

mod any_trace;
mod corpus;
mod scenario;
