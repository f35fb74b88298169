//! Tests of the crate through its public interface.
#![allow(clippy::unwrap_used, reason = "what cannot go on has failed")]

mod any_text;
mod diagnostics;
mod experiment;
mod judging;
mod properties;
mod routes;
mod schema;
