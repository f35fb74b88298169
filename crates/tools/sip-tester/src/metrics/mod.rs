//! Metrics of loads and servers in the text format of Prometheus, served over HTTP while the load or the server runs.

mod answerer;
mod of_load;
mod of_server;

use std::io;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

use netrig_core::prometheus::MetricsPage;
use netrig_host::HostAddress;

use self::answerer::Answerer;

pub use of_load::page as of_load;
pub use of_server::page as of_server;

/// The current page of metrics, and the HTTP server that serves it.
#[derive(Debug)]
pub struct Metrics {
    answerer: Option<Answerer>,
    last: Mutex<String>,
}

impl Metrics {
    /// Serves metrics at `at`. Without an address, they are only kept for [`Metrics::finish`].
    ///
    /// # Errors
    /// If the address is not available.
    pub fn open(at: Option<SocketAddr>) -> io::Result<Self> {
        Ok(Self { answerer: at.map(Answerer::open).transpose()?, last: Mutex::default() })
    }

    /// The URL for scrapers on this host.
    pub fn url(&self) -> Option<String> {
        self.answerer.as_ref().map(|answerer| url(answerer.at()))
    }

    /// Replaces the page.
    pub fn show(&self, page: MetricsPage) {
        let text = page.into_text();
        if let Some(answerer) = &self.answerer {
            answerer.show(&text);
        }
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = text;
    }

    /// Stops serving; returns the last page.
    pub fn finish(self) -> String {
        self.last.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The URL of an address. The `%` before an interface is escaped (RFC 6874 section 2).
fn url(at: SocketAddr) -> String {
    format!("http://{}/metrics", HostAddress::text_with_port(at).replace('%', "%25"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_of_an_address_of_a_link_has_its_interface() {
        let link = "fe80::1%lo".parse::<HostAddress>().unwrap().at(9464);
        assert_eq!(url(link), "http://[fe80::1%25lo]:9464/metrics");
        assert_eq!(url(([127, 0, 0, 1], 1).into()), "http://127.0.0.1:1/metrics");
    }
}
