//! The settings of a server.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use netrig_core::{setting_texts, settings};
use netrig_host::HostAddress;

use crate::protocol::PORT;

/// Heading of help texts.
const KEY: &str = "Key";

settings! {
    /// The settings of a server.
    #[derive(Clone, Debug)]
    pub struct SpeedServerSettings with defaults {
        /// Address to listen at, may be repeated; a link-local one with its interface: `fe80::1%eth0`. By default the loopback
        /// addresses.
        listen: Vec<HostAddress> {};
        /// Port for TCP and UDP.
        port: u16 { value_name: "PORT" } = PORT;
        /// Also listen at this port for iperf3 clients; with `--open` by default at 5201. They are served at all ports.
        iperf3_port: Option<u16> { value_name: "PORT", flag_value: "5201" };
        /// Let any host measure without a key: clients of iperf3, ndt7 and HTTP, which cannot authenticate, are otherwise served
        /// on the loopback addresses only.
        open: bool {};
        /// Allow web pages of this origin (`https://example.com`; `*` for any) to measure by ndt7. By default only pages of the
        /// server itself.
        allow_origin: Vec<PageOrigin> {};
        /// Certificate of the server, a PEM file. By default a new self-signed one.
        certificate: Option<PathBuf> { heading: KEY, requires: &["certificate_key"] };
        /// Private key of the certificate, a PEM file.
        certificate_key: Option<PathBuf> { heading: KEY, requires: &["certificate"] };
    }
}

/// Origin of web pages (RFC 6454): `https://example.com`, or `*` for any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageOrigin(String);

impl FromStr for PageOrigin {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_origin =
            |(scheme, host): (&str, &str)| !scheme.is_empty() && !host.is_empty() && !host.contains('/');
        match text == "*" || text.split_once("://").is_some_and(is_origin) {
            true => Ok(Self(text.to_owned())),
            false => Err("expected a scheme and a host, such as https://example.com, or *"),
        }
    }
}

impl fmt::Display for PageOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

setting_texts! {
    PageOrigin = "ORIGIN";
}
