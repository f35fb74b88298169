//! `probe web`: the throughput of one object that is fetched by HTTP/1.1.
//!
//! [`answer`] builds the answers of an object server. It uses no socket.

pub mod answer;
mod fetch;
mod url;

pub use fetch::{WebOrder, WebReport, WebSettings, web};
pub use url::{Url, UrlError};
