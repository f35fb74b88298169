//! Tests of the public interface.

mod any_scenario;
mod any_trace;
mod corpus;
mod scenario;
