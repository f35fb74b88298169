//! `probe web`: bytes over seconds of one object by HTTP/1.1.
//!
//! Heads are in [`message`], where bodies end in [`body`], what a server of objects answers in [`answer`]: bytes in, bytes out.

pub mod answer;
pub mod body;
mod fetch;
pub mod message;
mod url;

pub use fetch::{WebOrder, WebReport, web};
pub use url::{Url, UrlError};
