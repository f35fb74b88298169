//! Tests of the crate by its public interface.

mod any_text;
mod diagnostics;
mod experiment;
mod judging;
mod properties;
mod routes;
mod schema;
