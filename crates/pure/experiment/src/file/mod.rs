//! Reading and checking an experiment file: text, values, sections and diagnostics.

mod buckets;
mod captures;
mod check;
mod conditioned;
mod definition;
pub(crate) mod diagnostic;
pub(crate) mod document;
mod error;
pub(crate) mod factors;
mod load;
mod misfits;
mod placeholder;
pub(crate) mod read;
mod render;
mod schema;
pub(crate) mod sections;
mod set;
mod warnings;

pub use captures::{FileReader, ScenarioFault, ScenarioText, with_files};
pub use diagnostic::{Diagnostic, Diagnostics, Note, Severity, Span};
pub use document::LONGEST_FILE;
pub use schema::schema;
pub(crate) use set::is_read;
pub use set::{Assignment, SetError};

pub(crate) use check::{Checked, check};
pub(crate) use definition::{Definition, definition};
