//! `probe web`: the throughput of one object by HTTP/1.1.
//!
//! Message heads are in [`message`], the ends of bodies in [`body`], and the answers of an object server in [`answer`]:
//! bytes in, bytes out.

pub mod answer;
pub mod body;
mod fetch;
pub mod message;
mod url;

pub use fetch::{WebOrder, WebReport, web};
pub use url::{Url, UrlError};
