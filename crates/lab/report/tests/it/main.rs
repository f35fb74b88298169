//! Reports of synthetic results, read as other programs do: as XML, as CSV, as JSON.
#![allow(clippy::disallowed_methods, reason = "a test of drawings may use the platform's arithmetic")]

mod agreement;
mod charts;
mod exchange;
mod fixture;
mod hostile;
mod page;
mod terminal;
