//! Settings of the lookup of a server by its name.

use std::net::SocketAddr;

use netrig_core::{Duration, Fraction, choices};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::drawn_time::DrawnTime;
use super::error::{SettingError, wrong};
use crate::header::Transport;
use crate::location::Zone;
use crate::{SipUri, Uri};

/// How users find their server by its name (RFC 3263).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LocationSettings {
    /// The name of the server. It is also the users' domain.
    pub name: String,
    /// The name service.
    #[serde(default)]
    pub dns: NameService,
    /// When the server is looked up.
    #[serde(default)]
    pub lookup: LookupSettings,
    /// Lines of a zone file that replace the default records of the name (service, host and address). `{address}` is
    /// the server's address, and `{address:NODE}` that of a node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub records: Vec<String>,
    /// Node of the DNS server. By default the node of the users' server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Port of the DNS server.
    #[serde(default = "dns_port")]
    pub port: u16,
    /// How long the DNS server delays each answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<DrawnTime>,
    /// Share of its answers over UDP that the DNS server drops.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<Fraction>,
    /// Time after which an unanswered question is sent again.
    #[serde(default = "retry")]
    pub retry: Duration,
    /// How often a question is sent before it times out.
    #[serde(default = "tries")]
    pub tries: u32,
}

fn dns_port() -> u16 {
    53
}

fn retry() -> Duration {
    Duration::from_secs(2)
}

fn tries() -> u32 {
    3
}

choices! {
    /// A name service.
    #[derive(Default)]
    pub enum NameService {
        /// No name service: the users are given the server's address.
        [default]
        None = "none",
        /// A table of records that the users read without DNS messages.
        Table = "table",
        /// A DNS server of netrig.
        Server = "server",
        /// Another DNS server, which the node runs.
        Program = "program",
    }
}

choices! {
    /// When a server is looked up.
    #[derive(Default)]
    pub enum LookupSettings {
        /// Before the flow starts.
        [default]
        Once = "once",
        /// Before the first request of each attempt.
        PerAttempt = "per-attempt",
        /// Before the first request of each attempt, with a cache that obeys the time to live.
        Cached = "cached",
    }
}

impl LocationSettings {
    /// Whether a DNS server is used.
    pub const fn asks(&self) -> bool {
        matches!(self.dns, NameService::Server | NameService::Program)
    }

    /// Whether the lookup takes time before the flow starts.
    pub fn takes_time(&self) -> bool {
        self.asks() && self.lookup == LookupSettings::Once
    }

    /// The URI that is looked up: a SIPS URI if `is_secure`. `None` if the name is not a host name.
    pub fn uri(&self, is_secure: bool) -> Option<SipUri> {
        let scheme = if is_secure { "sips" } else { "sip" };
        let uri = format!("{scheme}:{}", self.name).parse::<Uri>().ok()?;
        uri.as_sip().filter(|uri| uri.host.to_string() == self.name && uri.user.is_none()).cloned()
    }

    /// The records of the name: those of the file, or by default a service over this transport at this address.
    /// `address_of` returns the address of a node.
    ///
    /// # Errors
    /// If a node has no address.
    pub fn table(
        &self,
        transport: Transport,
        server: SocketAddr,
        address_of: impl Fn(&str) -> Option<std::net::IpAddr>,
    ) -> Result<String, SettingError> {
        let Self { name, records, .. } = self;
        if records.is_empty() {
            return Ok(usual(name, transport, server));
        }
        let mut text = records.join("\n").replace("{address}", &server.ip().to_string());
        while let Some((before, behind)) = text.split_once("{address:") {
            let (node, behind) = behind.split_once('}').unwrap_or((behind, ""));
            let Some(address) = address_of(node) else {
                let why = format!("there is no node `{node}` with an address");
                return Err(SettingError { field: "location.records", why });
            };
            text = format!("{before}{address}{behind}");
        }
        Ok(text)
    }

    pub(super) fn check(&self) -> Result<(), SettingError> {
        if self.uri(false).is_none() {
            return wrong("location.name", "it is not a host name such as `example.com`");
        }
        let somewhere = SocketAddr::from(([192, 0, 2, 1], 5060));
        let table = self.table(Transport::Udp, somewhere, |_| Some(somewhere.ip()))?;
        // The address of a node may have the other IP version.
        let table = table.replace(" AAAA 192.0.2.1", " AAAA ::1");
        if let Err(error) = Zone::parse(&table) {
            return wrong("location.records", error.to_string());
        }
        if self.port == 0 {
            return wrong("location.port", "a server listens at a port from 1 on");
        }
        if let Some(Err(error)) = self.delay.as_ref().map(DrawnTime::check) {
            return wrong("location.delay", error.to_string());
        }
        if self.retry.is_zero() {
            return wrong("location.retry", "it must be above zero");
        }
        if !(1..=100).contains(&self.tries) {
            return wrong("location.tries", "from 1 to 100");
        }
        Ok(())
    }
}

/// The default records: one service over one transport at one host, by NAPTR, SRV and address.
fn usual(name: &str, transport: Transport, server: SocketAddr) -> String {
    let (service, label) = match transport {
        Transport::Tls => ("SIPS+D2T", "_sips._tcp"),
        Transport::Tcp => ("SIP+D2T", "_sip._tcp"),
        _ => ("SIP+D2U", "_sip._udp"),
    };
    let kind = if server.is_ipv4() { "A" } else { "AAAA" };
    let (port, address) = (server.port(), server.ip());
    format!(
        "{name} NAPTR 10 10 \"s\" \"{service}\" \"\" {label}.{name}\n{label}.{name} SRV 0 1 {port} server.{name}\n\
         server.{name} {kind} {address}\n"
    )
}

#[cfg(test)]
mod tests {
    use netrig_core::SpanDistribution;

    use super::*;

    fn settings(records: &[&str]) -> LocationSettings {
        LocationSettings {
            name: "example.test".into(),
            dns: NameService::Table,
            lookup: LookupSettings::Once,
            records: records.iter().map(|&line| line.to_owned()).collect(),
            node: None,
            port: 53,
            delay: None,
            loss: None,
            retry: Duration::from_secs(2),
            tries: 3,
        }
    }

    #[test]
    fn records_are_the_usual_ones_or_those_of_the_file() {
        let server: SocketAddr = "10.0.0.2:5070".parse().unwrap();
        let node = |name: &str| (name == "far").then(|| [10, 0, 0, 9].into());
        let usual = settings(&[]).table(Transport::Tcp, server, node).unwrap();
        assert!(usual.contains("_sip._tcp.example.test SRV 0 1 5070 server.example.test"), "{usual}");
        assert!(Zone::parse(&usual).is_ok());
        let own = settings(&["a.test A {address}", "b.test A {address:far}"]);
        assert_eq!(own.table(Transport::Udp, server, node).unwrap(), "a.test A 10.0.0.2\nb.test A 10.0.0.9");
        assert!(settings(&["a.test A {address:x}"]).table(Transport::Udp, server, node).is_err());
    }

    #[test]
    fn what_cannot_be_is_refused() {
        settings(&["a.test A {address:far}", "a.test AAAA {address}"]).check().unwrap();
        let field = |settings: LocationSettings| settings.check().unwrap_err().field;
        assert_eq!(field(settings(&["a.test MX 1 x"])), "location.records");
        assert_eq!(field(LocationSettings { name: "a b".into(), ..settings(&[]) }), "location.name");
        assert_eq!(field(LocationSettings { port: 0, ..settings(&[]) }), "location.port");
        let heavy = SpanDistribution::Pareto { mean: Duration::from_secs(1), shape: 1.0 };
        assert_eq!(
            field(LocationSettings { delay: Some(DrawnTime(heavy)), ..settings(&[]) }),
            "location.delay"
        );
        assert_eq!(field(LocationSettings { tries: 0, ..settings(&[]) }), "location.tries");
        assert_eq!(field(LocationSettings { retry: Duration::ZERO, ..settings(&[]) }), "location.retry");
    }
}
