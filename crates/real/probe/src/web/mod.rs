//! `probe web`: the throughput of one object by HTTP/1.1.
//!
//! The answers of an object server are in [`answer`]: bytes in, bytes out.

pub mod answer;
mod fetch;
mod url;

pub use fetch::{WebOrder, WebReport, WebSettings, web};
pub use url::{Url, UrlError};
