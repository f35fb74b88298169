//! Tests of the public interface.

mod any_media;
mod any_scenario;
mod any_trace;
mod capacity;
mod corpus;
mod scenario;
