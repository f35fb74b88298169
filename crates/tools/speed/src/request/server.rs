//! The settings of a server, and the order that they give.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use netrig_core::setting::{AboveZero, AtLeastOne};
use netrig_core::{Duration, Rate, Size, setting_texts, settings};
use netrig_host::tls::{Identity, TlsError};
use netrig_host::{ConnectionLimits, HostAddress, loopback_addresses};

use crate::admission::AdmissionLimits;
use crate::iperf3;
use crate::protocol::{Keyring, PORT};
use crate::serve::ServerOrder;

/// Headings of help texts.
const KEY: &str = "Key";
const LIMITS: &str = "Limits";

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
        /// Sessions that measure at the same time.
        sessions: usize as AtLeastOne { heading: LIMITS } = AdmissionLimits::default().sessions;
        /// Sessions that may wait for their turn.
        queue: usize { heading: LIMITS } = AdmissionLimits::default().queue;
        /// Sessions of one address (of IPv6: of one /64) that measure at the same time.
        per_address: usize as AtLeastOne { heading: LIMITS } = AdmissionLimits::default().per_household;
        /// Sessions of one address that may wait for their turn.
        queue_per_address: usize { heading: LIMITS } = AdmissionLimits::default().queue_per_household;
        /// Sessions with one key that measure at the same time. By default, no limit per key.
        per_key: Option<usize> as AtLeastOne { heading: LIMITS };
        /// Rate of all sessions together in one direction; a session that does not state its rate is limited to an equal share.
        max_rate: Option<Rate> as AboveZero { heading: LIMITS };
        /// Longest duration of a session.
        max_time: Duration as AboveZero { heading: LIMITS } = AdmissionLimits::default().lasts;
        /// Bytes that a session may carry in both directions together.
        max_size: Size as AboveZero { heading: LIMITS } = Size::from_bytes(AdmissionLimits::default().bytes);
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

impl SpeedServerSettings {
    /// The order for a server whose clients must have one of these keys.
    ///
    /// # Errors
    /// If the certificate or its key cannot be read.
    pub fn order(&self, keys: Keyring, connections: ConnectionLimits) -> Result<ServerOrder, TlsError> {
        let listen = if self.listen.is_empty() { loopback_addresses() } else { self.listen.clone() };
        let identity = self.certificate.as_ref().zip(self.certificate_key.as_ref());
        let at = |port| listen.iter().map(|address| address.at(port)).collect();
        let iperf3_port = self.iperf3_port.or(self.open.then_some(iperf3::PORT));
        Ok(ServerOrder {
            listen: at(self.port),
            iperf3: iperf3_port.filter(|port| *port != self.port).map(at).unwrap_or_default(),
            keys,
            open: self.open,
            origins: self.allow_origin.iter().map(|origin| origin.0.clone()).collect(),
            identity: identity.map(|(certificate, key)| Identity::read(certificate, key)).transpose()?,
            limits: AdmissionLimits {
                sessions: self.sessions,
                queue: self.queue,
                per_household: self.per_address,
                queue_per_household: self.queue_per_address,
                per_key: self.per_key,
                rate: self.max_rate,
                lasts: self.max_time,
                bytes: self.max_size.bytes(),
            },
            connections_per_address: connections.connections_per_address,
            connections_per_group: connections.connections_per_group,
        })
    }
}
