//! How users find their server by its name, as an experiment file says it.

use std::net::SocketAddr;

use netrig_core::{Duration, Fraction};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::drawn_time::DrawnTime;
use super::{SettingError, wrong};
use crate::header::Transport;
use crate::location::Zone;
use crate::{SipUri, Uri};

/// How users find their server by its name (RFC 3263).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LocationSettings {
    /// The name. It is also the users' domain, whoever knows it.
    pub name: String,
    /// Who knows it.
    #[serde(default)]
    pub dns: NameService,
    /// When it is looked for.
    #[serde(default)]
    pub lookup: LookupSettings,
    /// Records in place of those of the name's service, host and address: lines of a zone file, with `{address}` for the server's
    /// address and `{address:NODE}` for that of a node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub records: Vec<String>,
    /// The node of the DNS server; that of the users' server if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The port of the DNS server.
    #[serde(default = "dns_port")]
    pub port: u16,
    /// How long the DNS server keeps each answer back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<DrawnTime>,
    /// The share of its answers over UDP that the DNS server does not send.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<Fraction>,
    /// A question that is not answered is sent again after it.
    #[serde(default = "retry")]
    pub retry: Duration,
    /// How often a question is sent before it is given up.
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

/// Who knows names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NameService {
    /// Nobody is asked: the server's address is known.
    #[default]
    None,
    /// A table that the users have.
    Table,
    /// A DNS server of netrig's.
    Server,
    /// A DNS server of others that the node runs.
    Program,
}

/// When a server is looked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LookupSettings {
    /// Before the flow starts.
    #[default]
    Once,
    /// Before the first request of each attempt.
    PerAttempt,
    /// The same, but answers are kept as long as they say.
    Cached,
}

impl LocationSettings {
    /// Whether a DNS server is asked.
    pub const fn asks(&self) -> bool {
        matches!(self.dns, NameService::Server | NameService::Program)
    }

    /// Whether that takes time before the flow starts.
    pub fn takes_time(&self) -> bool {
        self.asks() && self.lookup == LookupSettings::Once
    }

    /// What is looked for: by SIP over TLS only if so.
    pub fn uri(&self, is_secure: bool) -> Option<SipUri> {
        let scheme = if is_secure { "sips" } else { "sip" };
        let uri = format!("{scheme}:{}", self.name).parse::<Uri>().ok()?;
        uri.as_sip().filter(|uri| uri.host.to_string() == self.name && uri.user.is_none()).cloned()
    }

    /// The records of the name: those of the file, or a service over this transport at this address. `address_of` knows where a node
    /// is.
    ///
    /// # Errors
    /// A node that is none.
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
            return wrong("location.name", "it is no name of a host, as `example.com`");
        }
        let somewhere = SocketAddr::from(([192, 0, 2, 1], 5060));
        let table = self.table(Transport::Udp, somewhere, |_| Some(somewhere.ip()))?;
        // An address of the other version is no matter of the line's form.
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

/// A service over one transport by one host: NAPTR, SRV and its address.
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
