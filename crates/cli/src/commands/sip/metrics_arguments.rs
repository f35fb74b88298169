//! Where the metrics of a load, a search or a server are served and written.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use netrig_host::{HostAddress, HostAddressError};

use crate::failure::Failure;
use crate::output::replace;
use netrig_sip_tester::metrics::Metrics;

/// Options of `--metrics` and `--metrics-file`.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Watching")]
pub struct MetricsArguments {
    /// Serve metrics at `http://IP:PORT/metrics` in Prometheus' text format during the run: `192.0.2.1:9464`,
    /// `[fe80::1%eth0]:9464`; a port alone means the loopback address
    #[arg(long, value_name = "[IP:]PORT")]
    pub metrics: Option<MetricsAddress>,
    /// Write the last metrics to a file, as a node exporter collects them
    #[arg(long, value_name = "FILE")]
    pub metrics_file: Option<PathBuf>,
}

/// The address at which metrics are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetricsAddress(pub SocketAddr);

impl FromStr for MetricsAddress {
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

impl MetricsArguments {
    /// Opens the metrics; `None` without `--metrics` and `--metrics-file`. `say` is called with a line that has their
    /// URL.
    pub fn open(&self, say: impl FnOnce(String)) -> Result<Option<Metrics>, Failure> {
        if self.metrics.is_none() && self.metrics_file.is_none() {
            return Ok(None);
        }
        if let Some(folder) = self.metrics_file.as_deref().filter(|file| file.is_dir()) {
            return Err(Failure::request(format!(
                "--metrics-file {}: it is a folder, and the metrics are one file",
                folder.display()
            )));
        }
        let at = self.metrics.map(|MetricsAddress(at)| at);
        let metrics = Metrics::open(at).map_err(|error| {
            let at = at.map(HostAddress::text_with_port).unwrap_or_default();
            Failure::failed(format!("metrics cannot be served at {at}: {error}"))
        })?;
        if let Some(url) = metrics.url() {
            say(format!("metrics: {url}"));
        }
        Ok(Some(metrics))
    }

    /// Writes the last metrics to the file of `--metrics-file`, if there is one.
    pub fn write(&self, last: &str) -> Result<(), Failure> {
        self.metrics_file.as_deref().map_or(Ok(()), |file| replace(file, last.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_served_at_an_address_of_a_link_with_its_interface() {
        let link = "fe80::1%lo".parse::<HostAddress>().unwrap().at(9464);
        assert_eq!("[fe80::1%lo]:9464".parse(), Ok(MetricsAddress(link)));
        let unscoped = "[fe80::1]:9464".parse::<MetricsAddress>().unwrap_err();
        assert!(unscoped.contains("needs an interface"), "{unscoped}");
        assert!("[fe80::1%lo]".parse::<MetricsAddress>().is_err(), "a port is needed");
    }

    #[test]
    fn a_port_alone_is_of_this_machine() {
        let at = |text: &str| text.parse::<MetricsAddress>().map(|address| address.0.to_string());
        assert_eq!(at("9464").unwrap(), "127.0.0.1:9464");
        assert_eq!(at("0.0.0.0:9464").unwrap(), "0.0.0.0:9464");
        assert_eq!(at("[::1]:1").unwrap(), "[::1]:1");
        assert!(at("example.com:1").is_err() && at("99999").is_err());
    }
}
