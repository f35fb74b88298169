//! Reports of synthetic results, parsed as other programs parse them: as XML, CSV and JSON.
#![allow(clippy::disallowed_methods, reason = "a test of drawings may use the platform's arithmetic")]

mod agreement;
mod charts;
mod exchange;
mod fixture;
mod hostile;
mod page;
mod terminal;
