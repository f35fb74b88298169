//! Tests of the crate through its public interface.

mod any_text;
mod diagnostics;
mod experiment;
mod judging;
mod properties;
mod routes;
mod schema;
