//! Metrics for Prometheus: over HTTP while something goes on, and in a file when it is over.

mod answerer;
mod of_load;
mod of_server;
mod text;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Mutex;

use clap::Args;
use netrig_host::{HostAddress, HostAddressError};

use self::answerer::Answerer;
use crate::failure::Failure;
use crate::output::replace;

pub use of_load::page as of_load;
pub use of_server::page as of_server;
pub use text::Page;

/// Where metrics go.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Watching")]
pub struct MetricsArguments {
    /// Serve metrics at `http://IP:PORT/metrics` in Prometheus' text format while it goes on: `192.0.2.1:9464`,
    /// `[fe80::1%eth0]:9464`; a port alone is this machine's loopback
    #[arg(long, value_name = "[IP:]PORT")]
    pub metrics: Option<Place>,
    /// Write the last metrics to a file, as a node exporter collects them
    #[arg(long, value_name = "FILE")]
    pub metrics_file: Option<PathBuf>,
}

/// Where to listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(pub SocketAddr);

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(port) = text.parse::<u16>() {
            return Ok(Self((Ipv4Addr::LOCALHOST, port).into()));
        }
        HostAddress::with_port(text, None).map(Self).map_err(|why| match why {
            HostAddressError::Form => {
                format!("`{text}` is no place to listen: expected 127.0.0.1:9464, or a port")
            }
            why => format!("`{text}`: {why}"),
        })
    }
}

/// Metrics as they were asked for.
pub struct Metrics {
    answerer: Option<Answerer>,
    file: Option<PathBuf>,
    last: Mutex<String>,
}

impl Metrics {
    /// Listens, and says where; `None` if nothing was asked for.
    pub fn open(typed: &MetricsArguments, say: impl FnOnce(String)) -> Result<Option<Self>, Failure> {
        if typed.metrics.is_none() && typed.metrics_file.is_none() {
            return Ok(None);
        }
        let open = |Place(at)| {
            Answerer::open(at).map_err(|error| {
                let at = HostAddress::text_with_port(at);
                Failure::failed(format!("metrics cannot be served at {at}: {error}"))
            })
        };
        let answerer = typed.metrics.map(open).transpose()?;
        if let Some(answerer) = &answerer {
            say(format!("metrics: {}", url(answerer.at())));
        }
        Ok(Some(Self { answerer, file: typed.metrics_file.clone(), last: Mutex::default() }))
    }

    /// What holds from now on.
    pub fn show(&self, page: Page) {
        let text = page.into_text();
        if let Some(answerer) = &self.answerer {
            answerer.show(&text);
        }
        *self.last.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = text;
    }

    /// It is over: writes the file.
    pub fn finish(self) -> Result<(), Failure> {
        let last = self.last.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        self.file.map_or(Ok(()), |file| replace(&file, last.as_bytes()))
    }
}

/// Where a scraper of this host finds them. The sign before an interface is escaped (RFC 6874 section 2).
fn url(at: SocketAddr) -> String {
    format!("http://{}/metrics", HostAddress::text_with_port(at).replace('%', "%25"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_served_at_an_address_of_a_link_with_its_interface() {
        let link = "fe80::1%lo".parse::<HostAddress>().unwrap().at(9464);
        assert_eq!("[fe80::1%lo]:9464".parse(), Ok(Place(link)));
        assert_eq!(url(link), "http://[fe80::1%25lo]:9464/metrics");
        assert_eq!(url(([127, 0, 0, 1], 1).into()), "http://127.0.0.1:1/metrics");
        let unscoped = "[fe80::1]:9464".parse::<Place>().unwrap_err();
        assert!(unscoped.contains("expected its interface, too"), "{unscoped}");
        assert!("[fe80::1%lo]".parse::<Place>().is_err(), "a port is needed");
    }

    #[test]
    fn a_port_alone_is_of_this_machine() {
        let at = |text: &str| text.parse::<Place>().map(|place| place.0.to_string());
        assert_eq!(at("9464").unwrap(), "127.0.0.1:9464");
        assert_eq!(at("0.0.0.0:9464").unwrap(), "0.0.0.0:9464");
        assert_eq!(at("[::1]:1").unwrap(), "[::1]:1");
        assert!(at("example.com:1").is_err() && at("99999").is_err());
    }
}
