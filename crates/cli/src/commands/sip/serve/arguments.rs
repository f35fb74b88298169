//! What may be typed behind `netrig sip serve`.

use std::net::SocketAddr;
use std::num::NonZeroU8;
use std::path::PathBuf;
use std::str::FromStr;

use crate::choice::{Choice, choice};
use crate::commands::sip::keeping::KeepArguments;
use crate::commands::sip::metrics_arguments::MetricsArguments;
use crate::commands::sip::scenario::ServedScenario;
use crate::connection_limits::ConnectionLimits;
use clap::{Args, Subcommand};
use netrig_core::{Duration, Fraction, SpanDistribution};
use netrig_host::{HostAddress, HostAddressError};
use netrig_sip::digest::Algorithm;
use netrig_sip_net::ListeningPoint;

/// The algorithms of digest authentication.
const ALGORITHMS: &[Choice<Algorithm>] = &[
    ("md5", "As RFC 3261 has it; all know it", Algorithm::MD5),
    ("sha-256", "As RFC 8760 has it", Algorithm::SHA_256),
];

/// `netrig sip serve`.
#[derive(Debug, Args)]
pub struct Serve {
    /// Which server
    #[command(subcommand)]
    pub server: Server,
}

/// What may be served.
#[derive(Debug, Subcommand)]
pub enum Server {
    #[command(flatten)]
    Sip(Box<Role>),
    /// Answer calls as a scenario says, message by message
    Scenario(Box<ServedScenario>),
    /// Answer what SIP asks the DNS (NAPTR, SRV, A, AAAA) from a table, as late and with as many losses as is wanted
    Dns(Dns),
}

/// The servers.
#[derive(Debug, Subcommand)]
pub enum Role {
    /// Take registrations (RFC 3261 section 10)
    Registrar(Registrar),
    /// Take registrations and forward to the users; it keeps the state of transactions, and forks (RFC 3261 section 16)
    Proxy(Proxy),
    /// Forward to users whose addresses are given, and remember nothing (RFC 3261 section 16.11)
    StatelessProxy(StatelessProxy),
    /// Take registrations, and tell callers where users are (RFC 3261 section 8.3)
    Redirect(Redirect),
    /// Answer calls: a user agent for whoever is called (RFC 3261 sections 8.2 and 13.3)
    Uas(Uas),
}

/// Where a server listens, and how much it takes.
#[derive(Debug, Args)]
pub struct Place {
    /// Where to listen, once for each: `udp:127.0.0.1:5060`, `tcp:[::1]:5060`, `tls:192.0.2.1`, `udp:[fe80::1%eth0]:5060`; udp and
    /// tcp at 127.0.0.1:5060 if not given. With port 0 the system chooses one
    #[arg(long, help_heading = "Sockets", value_name = "TRANSPORT:ADDRESS[:PORT]")]
    pub listen: Vec<ListeningPoint>,
    /// Number of threads. Each has its own sockets and a part of the state: `uas` by Call-ID, all others by user
    #[arg(long, help_heading = "Sockets", value_name = "N", default_value = "1")]
    pub threads: NonZeroU8,
    /// Serve anybody who reaches it, also over a network and without digest authentication
    #[arg(long, help_heading = "Sockets")]
    pub open: bool,
    /// An address of a name, once for each; names that have none here cannot be reached: no DNS is asked
    #[arg(long, help_heading = "Sockets", value_name = "NAME=ADDRESS")]
    pub hosts: Vec<NamedHost>,
    /// Connections at once, 10000 or as many as there may be open files if not given; for one more another gives way that has
    /// carried no message
    #[arg(long, help_heading = "Sockets", value_name = "N")]
    pub max_connections: Option<usize>,
    #[command(flatten)]
    pub slots: ConnectionLimits,
    /// A connection that carries no message for so long is closed
    #[arg(long, help_heading = "Sockets", value_name = "TIME", default_value = "120s")]
    pub idle: Duration,
    /// A certificate in PEM, those that sign it behind; without one a server makes its own
    #[arg(long, help_heading = "TLS", value_name = "FILE", requires = "private_key")]
    pub certificate: Option<PathBuf>,
    /// The key of the certificate, in PEM
    #[arg(long, help_heading = "TLS", value_name = "FILE", requires = "certificate")]
    pub private_key: Option<PathBuf>,
    /// Clients must show a certificate that one of these authorities has signed; in PEM
    #[arg(long, help_heading = "TLS", value_name = "FILE")]
    pub client_authorities: Option<PathBuf>,
    /// Servers to which it opens connections must show a certificate that one of these authorities has signed; in PEM. Without
    /// them it opens none
    #[arg(long, help_heading = "TLS", value_name = "FILE")]
    pub authorities: Option<PathBuf>,
}

/// A name and its address.
#[derive(Clone, Debug)]
pub struct NamedHost {
    /// The name.
    pub name: String,
    /// One of its addresses.
    pub address: HostAddress,
}

impl FromStr for NamedHost {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected =
            || format!("`{text}` is no name with an address: expected one as example.com=192.0.2.1");
        let (name, address) =
            text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(expected)?;
        let address = address.trim_matches(['[', ']']).parse::<HostAddress>().map_err(|why| match why {
            HostAddressError::Form => expected(),
            why => format!("`{text}`: {why}"),
        })?;
        Ok(Self { name: name.to_owned(), address })
    }
}

/// When it ends, and what is told then.
#[derive(Debug, Args)]
pub struct Ending {
    #[command(flatten)]
    pub metrics: MetricsArguments,
    /// End by itself after this time
    #[arg(long = "for", value_name = "TIME")]
    pub lasts: Option<Duration>,
    /// Print one JSON document at the end instead of a table
    #[arg(long)]
    pub json: bool,
    /// Seed of all that is drawn: tags, branches, delays. Nonces can be guessed of a seed that is known; another one each time if
    /// not given
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    #[command(flatten)]
    pub keeping: KeepArguments,
}

/// How many transactions, and how long.
#[derive(Debug, Args)]
pub struct Transactions {
    /// Transactions at once, about 2 KB each; one more is answered with 503. Over UDP each is kept for 64 T1 after its end. Eight
    /// of plain calls to `uas` count as one
    #[arg(long, help_heading = "Transactions", value_name = "N", default_value_t = 1_000_000)]
    pub max_transactions: usize,
    /// T1, the estimate of a round trip from which all timers follow (RFC 3261 section 17.1.1.1)
    #[arg(long, help_heading = "Transactions", value_name = "TIME", default_value = "500ms")]
    pub t1: Duration,
}

/// Who there is.
#[derive(Debug, Args)]
pub struct Users {
    /// A name that it answers for beside its addresses, once for each; the first is its realm
    #[arg(long, help_heading = "Users", value_name = "NAME")]
    pub domain: Vec<String>,
    /// So many users, `user000000` and on; whoever comes is one if neither this nor a file is given
    #[arg(long, help_heading = "Users", value_name = "N", conflicts_with = "users_file")]
    pub users: Option<u32>,
    /// Users from a file of lines `name,password` or `name,password,contact`
    #[arg(long, help_heading = "Users", value_name = "FILE")]
    pub users_file: Option<PathBuf>,
    /// Users with a registration at once, and bindings of theirs
    #[arg(long, help_heading = "Users", value_name = "N", default_value_t = 1_000_000)]
    pub max_users: usize,
}

/// How users prove who they are.
#[derive(Debug, Args)]
pub struct Digest {
    /// Ask users for their password, by this algorithm (RFC 8760)
    #[arg(long, help_heading = "Users", value_parser = choice(ALGORITHMS))]
    pub digest: Option<Algorithm>,
    /// A variable of the environment with the password of each of `--users`
    #[arg(
        long,
        help_heading = "Users",
        value_name = "NAME",
        requires = "users",
        conflicts_with = "password"
    )]
    pub password_env: Option<String>,
    /// The password of each of `--users`; other users of this machine can read it in the list of processes
    #[arg(long, help_heading = "Users", value_name = "TEXT", requires = "users")]
    pub password: Option<String>,
    /// For whom the passwords are; the first domain, or else address, if not given
    #[arg(long, help_heading = "Users", value_name = "TEXT", requires = "digest")]
    pub realm: Option<String>,
}

/// Where users are that have not registered.
#[derive(Debug, Args)]
pub struct Contact {
    /// Where each user is without having registered, with `{user}` for its name: `sip:{user}@192.0.2.1:5060;transport=tcp`
    #[arg(long, help_heading = "Users", value_name = "URI")]
    pub contact: Option<String>,
}

/// A time that is taken on purpose.
#[derive(Debug, Args)]
pub struct Delay {
    /// Keep each response back: `5ms`, or drawn: `exponential:5ms`, `uniform:1ms..9ms`, `pareto:5ms,1.5` (the mean and the shape),
    /// `lognormal:5ms,1` (the mean, and the deviation of the logarithm)
    #[arg(long, value_name = "TIME")]
    pub delay: Option<SpanDistribution>,
}

/// `netrig sip serve registrar`.
#[derive(Debug, Args)]
pub struct Registrar {
    #[command(flatten)]
    pub place: Place,
    #[command(flatten)]
    pub users: Users,
    #[command(flatten)]
    pub digest: Digest,
    #[command(flatten)]
    pub delay: Delay,
    #[command(flatten)]
    pub transactions: Transactions,
    #[command(flatten)]
    pub ending: Ending,
}

/// `netrig sip serve proxy`.
#[derive(Debug, Args)]
pub struct Proxy {
    /// Stay in the way of the calls that begin here: all their requests pass it
    #[arg(long)]
    pub record_route: bool,
    #[command(flatten)]
    pub place: Place,
    #[command(flatten)]
    pub users: Users,
    #[command(flatten)]
    pub digest: Digest,
    #[command(flatten)]
    pub contact: Contact,
    #[command(flatten)]
    pub transactions: Transactions,
    #[command(flatten)]
    pub ending: Ending,
}

/// `netrig sip serve stateless-proxy`.
#[derive(Debug, Args)]
pub struct StatelessProxy {
    #[command(flatten)]
    pub place: Place,
    #[command(flatten)]
    pub users: Users,
    #[command(flatten)]
    pub contact: Contact,
    #[command(flatten)]
    pub ending: Ending,
}

/// `netrig sip serve redirect`.
#[derive(Debug, Args)]
pub struct Redirect {
    #[command(flatten)]
    pub place: Place,
    #[command(flatten)]
    pub users: Users,
    #[command(flatten)]
    pub digest: Digest,
    #[command(flatten)]
    pub contact: Contact,
    #[command(flatten)]
    pub delay: Delay,
    #[command(flatten)]
    pub transactions: Transactions,
    #[command(flatten)]
    pub ending: Ending,
}

/// `netrig sip serve uas`.
#[derive(Debug, Args)]
pub struct Uas {
    /// How long it rings before it answers; 180 is said at once
    #[arg(long, help_heading = "Calls", value_name = "TIME", default_value = "0s")]
    pub ring: Duration,
    /// Answer with this status, 300 to 699, instead of taking the call
    #[arg(long, help_heading = "Calls", value_name = "STATUS", value_parser = clap::value_parser!(u16).range(300..700))]
    pub refuse: Option<u16>,
    /// Ring until the caller gives up
    #[arg(long, help_heading = "Calls", conflicts_with = "refuse")]
    pub never: bool,
    /// Hang up so long after the caller's ACK; the caller does it if not given
    #[arg(long, help_heading = "Calls", value_name = "TIME", conflicts_with_all = ["refuse", "never"])]
    pub talk: Option<Duration>,
    /// Hang up, or stop to ring, when a call has lasted so long: a caller may be gone without a word
    #[arg(long, help_heading = "Calls", value_name = "TIME", default_value = "1h")]
    pub max_call: Duration,
    /// Say 183 with a session description after 180
    #[arg(long, help_heading = "Calls")]
    pub early_media: bool,
    /// Send provisional responses reliably to callers that support it (RFC 3262)
    #[arg(long, help_heading = "Calls")]
    pub reliable: bool,
    /// Where callers are told to send their media: `192.0.2.1:9`, `[fe80::1%eth0]:9`. Nothing listens there. Port 9 of the first
    /// address if not given
    #[arg(long, help_heading = "Calls", value_name = "ADDRESS:PORT", value_parser = media_address)]
    pub media: Option<SocketAddr>,
    #[command(flatten)]
    pub place: Place,
    #[command(flatten)]
    pub delay: Delay,
    #[command(flatten)]
    pub transactions: Transactions,
    #[command(flatten)]
    pub ending: Ending,
}

fn media_address(text: &str) -> Result<SocketAddr, String> {
    HostAddress::with_port(text, None).map_err(|why| match why {
        HostAddressError::Form => {
            "expected an address with a port: 192.0.2.1:9, [2001:db8::1]:9 or [fe80::1%eth0]:9".to_owned()
        }
        why => why.to_string(),
    })
}

/// `netrig sip serve dns`.
#[derive(Debug, Args)]
pub struct Dns {
    /// The table: NAPTR, SRV, A and AAAA records as a zone file has them
    #[arg(long, value_name = "FILE")]
    pub zone: PathBuf,
    /// Where to listen, once for each: `udp:127.0.0.1:5353`, `tcp:[::1]:53`; udp and tcp at 127.0.0.1:5353 if not given. What is too
    /// long for a datagram is asked for over tcp. With port 0 the system chooses one
    #[arg(long, help_heading = "Sockets", value_name = "TRANSPORT:ADDRESS:PORT")]
    pub listen: Vec<ListeningPoint>,
    /// Answer anybody who reaches it, also over a network
    #[arg(long, help_heading = "Sockets")]
    pub open: bool,
    #[command(flatten)]
    pub slots: ConnectionLimits,
    #[command(flatten)]
    pub delay: Delay,
    /// The share of answers over UDP that are not sent
    #[arg(long, value_name = "SHARE", default_value = "0%")]
    pub loss: Fraction,
    /// End by itself after this time
    #[arg(long = "for", value_name = "TIME")]
    pub lasts: Option<Duration>,
    /// Print one JSON document at the end instead of a line
    #[arg(long)]
    pub json: bool,
    /// Seed of losses and delays
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

#[cfg(test)]
mod tests {
    use clap::Parser;

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
    fn a_server_takes_addresses_of_a_link_with_their_interface() {
        let link = "fe80::1%lo".parse::<HostAddress>().unwrap();
        let points = ["--listen", "udp:[fe80::1%lo]:5070", "--listen", "tcp:fe80::1%lo"];
        let hosts = ["--hosts", "a.test=fe80::1%lo", "--hosts", "b.test=[fe80::1%lo]"];
        let metrics = ["--metrics", "[fe80::1%lo]:9464"];
        let server = typed(&[&["proxy"][..], &points, &hosts, &metrics].concat()).unwrap();
        let Server::Sip(role) = server else { panic!("{server:?}") };
        let Role::Proxy(proxy) = *role else { panic!("{role:?}") };
        let listens: Vec<SocketAddr> = proxy.place.listen.iter().map(|point| point.address).collect();
        assert_eq!(listens, [link.at(5070), link.at(5060)]);
        assert_eq!(proxy.place.hosts.iter().map(|host| host.address).collect::<Vec<_>>(), [link; 2]);
        assert_eq!(proxy.ending.metrics.metrics.map(|place| place.0), Some(link.at(9464)));
        let dns = typed(&["dns", "--zone", "table", "--listen", "udp:[fe80::1%lo]:5353"]).unwrap();
        let Server::Dns(dns) = dns else { panic!("{dns:?}") };
        assert_eq!(dns.listen[0].address, link.at(5353));
        let server = typed(&["uas", "--media", "[fe80::1%lo]:9"]).unwrap();
        let Server::Sip(role) = server else { panic!("{server:?}") };
        let Role::Uas(uas) = *role else { panic!("{role:?}") };
        assert_eq!(uas.media, Some(link.at(9)));
    }

    #[test]
    fn an_address_of_a_link_without_its_interface_is_refused() {
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
