//! The arguments of `netrig sip serve`.

use std::num::NonZeroU8;
use std::path::PathBuf;
use std::str::FromStr;

use super::options::ServeOptions;
use super::roles::{ProxyPart, RedirectPart, RegistrarPart, StatelessProxyPart, UasPart};
use crate::commands::sip::keeping::KeepArguments;
use crate::commands::sip::metrics_arguments::MetricsArguments;
use crate::commands::sip::scenario::ServedScenario;
use crate::typed::{Typed, value};
use clap::{Args, Subcommand};
use netrig_core::setting::{PartOf, TablePart};
use netrig_core::{Duration, Fraction, SpanDistribution};
use netrig_host::{ConnectionLimits, HostAddress, HostAddressError};
use netrig_sip::settings::ServerSettings;
use netrig_sip_net::ListeningPoint;

/// `netrig sip serve`.
#[derive(Debug, Args)]
pub struct Serve {
    /// The server
    #[command(subcommand)]
    pub server: Server,
}

/// A server of SIP, of a scenario, or of DNS.
#[derive(Debug, Subcommand)]
pub enum Server {
    #[command(flatten)]
    Sip(Box<Role>),
    /// Answer calls by a scenario, message by message
    Scenario(Box<ServedScenario>),
    /// Answer DNS questions of SIP (NAPTR, SRV, A, AAAA) from a table, optionally with delay and loss
    Dns(Dns),
}

/// The roles of a SIP server.
#[derive(Debug, Subcommand)]
pub enum Role {
    /// Accept registrations (RFC 3261 section 10)
    Registrar(Served<RegistrarPart>),
    /// Accept registrations and forward requests to the registered users, with transaction state and forking (RFC 3261
    /// section 16)
    Proxy(Served<ProxyPart>),
    /// Forward requests to users at given contacts, without state (RFC 3261 section 16.11)
    StatelessProxy(Served<StatelessProxyPart>),
    /// Accept registrations, and redirect callers to the users (RFC 3261 section 8.3)
    Redirect(Served<RedirectPart>),
    /// Answer calls to any user: a user agent server (RFC 3261 sections 8.2 and 13.3)
    Uas(Served<UasPart>),
}

/// The sockets of a server, and their limits.
#[derive(Debug, Args)]
pub struct SocketArguments {
    /// Where to listen; repeat the option for each address: `udp:127.0.0.1:5060`, `tcp:[::1]:5060`, `tls:192.0.2.1`, `udp:[fe80::1%eth0]:5060`. By
    /// default udp and tcp at 127.0.0.1:5060. With port 0 the system chooses one
    #[arg(long, help_heading = "Sockets", value_name = "TRANSPORT:ADDRESS[:PORT]")]
    pub listen: Vec<ListeningPoint>,
    /// Number of threads. Each has its own sockets and a part of the state: `uas` by Call-ID, all others by user
    #[arg(long, help_heading = "Sockets", value_name = "N", default_value = "1", value_parser = value::<NonZeroU8>)]
    pub threads: NonZeroU8,
    /// Allow addresses that can be reached over a network although users are not authenticated
    #[arg(long, help_heading = "Sockets")]
    pub open: bool,
    /// The address of a host name; repeat the option for each. Other names cannot be reached: the server uses no DNS
    #[arg(long, help_heading = "Sockets", value_name = "NAME=ADDRESS")]
    pub hosts: Vec<NamedHost>,
    /// Maximum number of concurrent connections; by default 10000, or fewer if the limit of open files allows fewer.
    /// Beyond it, a connection that has carried no message is closed
    #[arg(long, help_heading = "Sockets", value_name = "N", value_parser = value::<usize>)]
    pub max_connections: Option<usize>,
    #[command(flatten)]
    pub slots: Typed<ConnectionLimits>,
    /// A connection without a message for this time is closed
    #[arg(long, help_heading = "Sockets", value_name = "TIME", default_value = "120s")]
    pub idle: Duration,
    /// The certificate chain in PEM, the server's certificate first; by default the server makes its own
    #[arg(long, help_heading = "TLS", value_name = "FILE", requires = "private_key")]
    pub certificate: Option<PathBuf>,
    /// The key of the certificate, in PEM
    #[arg(long, help_heading = "TLS", value_name = "FILE", requires = "certificate")]
    pub private_key: Option<PathBuf>,
    /// CA certificates in PEM. Clients must show a certificate that one of these authorities has signed
    #[arg(long, help_heading = "TLS", value_name = "FILE")]
    pub client_authorities: Option<PathBuf>,
    /// CA certificates in PEM. Servers to which it opens connections must show a certificate that one of these authorities has
    /// signed. Without them the server opens no TLS connection
    #[arg(long, help_heading = "TLS", value_name = "FILE")]
    pub authorities: Option<PathBuf>,
}

/// A host name and its address.
#[derive(Clone, Debug)]
pub struct NamedHost {
    /// The host name.
    pub name: String,
    /// One of its addresses.
    pub address: HostAddress,
}

impl FromStr for NamedHost {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || format!("`{text}` is not NAME=ADDRESS, for example `example.com=192.0.2.1`");
        let (name, address) =
            text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(expected)?;
        let address = address.trim_matches(['[', ']']).parse::<HostAddress>().map_err(|why| match why {
            HostAddressError::Form => expected(),
            why => format!("`{text}`: {why}"),
        })?;
        Ok(Self { name: name.to_owned(), address })
    }
}

/// The end of a server, and its output.
#[derive(Debug, Args)]
pub struct Ending {
    #[command(flatten)]
    pub metrics: MetricsArguments,
    /// End after this time
    #[arg(long = "for", value_name = "TIME")]
    pub lasts: Option<Duration>,
    /// Print one JSON document at the end instead of a table
    #[arg(long)]
    pub json: bool,
    /// Seed of all random draws: tags, branches, delays. With a known seed, nonces can be guessed. By default a new one
    /// for each start
    #[arg(long, value_name = "N", value_parser = value::<u64>)]
    pub seed: Option<u64>,
    #[command(flatten)]
    pub keeping: KeepArguments,
}

/// Arguments of a server of one role.
#[derive(Debug, Args)]
pub struct Served<P>
where
    P: TablePart<ServerSettings> + TablePart<ServeOptions> + Clone + Send + Sync + 'static,
{
    #[command(flatten)]
    pub server: Typed<PartOf<ServerSettings, P>>,
    #[command(flatten)]
    pub options: Typed<PartOf<ServeOptions, P>>,
    #[command(flatten)]
    pub sockets: SocketArguments,
    #[command(flatten)]
    pub ending: Ending,
}

/// `netrig sip serve dns`.
#[derive(Debug, Args)]
pub struct Dns {
    /// The table: NAPTR, SRV, A and AAAA records as a zone file has them
    #[arg(long, value_name = "FILE")]
    pub zone: PathBuf,
    /// Where to listen; repeat the option for each address: `udp:127.0.0.1:5353`, `tcp:[::1]:53`; udp and tcp at 127.0.0.1:5353 if
    /// not given. An answer too long for UDP is truncated; the client asks again over TCP. With port 0 the system chooses one
    #[arg(long, help_heading = "Sockets", value_name = "TRANSPORT:ADDRESS:PORT")]
    pub listen: Vec<ListeningPoint>,
    /// Answer any peer, also over a network
    #[arg(long, help_heading = "Sockets")]
    pub open: bool,
    #[command(flatten)]
    pub slots: Typed<ConnectionLimits>,
    /// Delay of each answer: `5ms`, or drawn: `exponential:5ms`, `uniform:1ms..9ms`, `pareto:5ms,1.5` (mean, shape),
    /// `lognormal:5ms,1` (mean, deviation of the logarithm)
    #[arg(long, value_name = "TIME")]
    pub delay: Option<SpanDistribution>,
    /// The share of answers over UDP that are not sent
    #[arg(long, value_name = "SHARE", default_value = "0%")]
    pub loss: Fraction,
    /// End after this time
    #[arg(long = "for", value_name = "TIME")]
    pub lasts: Option<Duration>,
    /// Print one JSON document at the end instead of a line
    #[arg(long)]
    pub json: bool,
    /// Seed of losses and delays
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value::<u64>)]
    pub seed: u64,
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use clap::Parser;

    use super::super::options::MediaAddress;
    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        serve: Serve,
    }

    fn typed(words: &[&str]) -> Result<Server, String> {
        let words = std::iter::once(&"serve").chain(words);
        Line::try_parse_from(words).map(|line| line.serve.server).map_err(|error| error.to_string())
    }

    #[test]
    fn a_server_takes_link_local_addresses_with_their_interface() {
        let link = "fe80::1%lo".parse::<HostAddress>().unwrap();
        let points = ["--listen", "udp:[fe80::1%lo]:5070", "--listen", "tcp:fe80::1%lo"];
        let hosts = ["--hosts", "a.test=fe80::1%lo", "--hosts", "b.test=[fe80::1%lo]"];
        let metrics = ["--metrics", "[fe80::1%lo]:9464"];
        let server = typed(&[&["proxy"][..], &points, &hosts, &metrics].concat()).unwrap();
        let Server::Sip(role) = server else { panic!("{server:?}") };
        let Role::Proxy(proxy) = *role else { panic!("{role:?}") };
        let listens: Vec<SocketAddr> = proxy.sockets.listen.iter().map(|point| point.address).collect();
        assert_eq!(listens, [link.at(5070), link.at(5060)]);
        assert_eq!(proxy.sockets.hosts.iter().map(|host| host.address).collect::<Vec<_>>(), [link; 2]);
        assert_eq!(proxy.ending.metrics.metrics.map(|place| place.0), Some(link.at(9464)));
        let dns = typed(&["dns", "--zone", "table", "--listen", "udp:[fe80::1%lo]:5353"]).unwrap();
        let Server::Dns(dns) = dns else { panic!("{dns:?}") };
        assert_eq!(dns.listen[0].address, link.at(5353));
        let server = typed(&["uas", "--media", "[fe80::1%lo]:9"]).unwrap();
        let Server::Sip(role) = server else { panic!("{server:?}") };
        let Role::Uas(uas) = *role else { panic!("{role:?}") };
        assert_eq!(uas.options.settings.table.media, Some(MediaAddress(link.at(9))));
    }

    #[test]
    fn a_link_local_address_without_its_interface_is_refused() {
        for words in [
            &["uas", "--listen", "udp:[fe80::1]:5070"][..],
            &["proxy", "--hosts", "a.test=fe80::1"],
            &["uas", "--metrics", "[fe80::1]:9464"],
            &["uas", "--media", "[fe80::1]:9"],
        ] {
            let error = typed(words).unwrap_err();
            assert!(error.contains("needs an interface: expected `fe80::1%eth0`"), "{error}");
        }
        let error = typed(&["uas", "--listen", "tcp:fe80::1%no-such-link"]).unwrap_err();
        assert!(error.contains("there is no interface `no-such-link`"), "{error}");
    }
}
