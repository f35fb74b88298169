//! The settings of a load over real sockets that no experiment file has.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use netrig_core::setting::{AboveZero, AtLeastOne, PartOf, TablePart, Within};
use netrig_core::{Duration, Fraction, setting_texts, settings};
use netrig_host::{HostAddress, HostAddressError};
use netrig_sip::index::{DelayStatistic, Thresholds};
use netrig_sip::settings::LookupSettings;
use netrig_sip_net::load::Reconnecting;

settings! {
    /// The settings of a load over real sockets that no experiment file has.
    #[derive(Clone, Debug)]
    pub struct TesterSettings with defaults {
        /// The server: `udp:192.0.2.1:5060`, `tcp:example.com`, `tls:[2001:db8::1]:5061`, `udp:[fe80::1%eth0]:5060`. With
        /// `--zone` or `--resolver` also `sip:example.com` and `sips:example.com`, whose transport and port are looked up.
        target: String { is_positional: true, value_name: "TARGET" };
        /// End the load when the server stops sending. By default the load continues, because the server may recover.
        stop_on_loss_of_server: bool {};
        /// Look up the server (RFC 3263) in a table of NAPTR, SRV, A and AAAA records, written as in a zone file.
        zone: Option<PathBuf> { heading: NAMES, group: NAME_SOURCE, excludes: &["fail_over"] };
        /// Look up the server (RFC 3263) at this DNS server, and at no other: `192.0.2.53`, `[2001:db8::53]:5353`,
        /// `[fe80::1%eth0]:53`. The default port is 53.
        resolver: Option<ResolverAddress> { heading: NAMES, group: NAME_SOURCE, excludes: &["fail_over"] };
        /// When the server is looked up. By default once, before the load.
        lookup: Option<LookupSettings> { heading: NAMES, value_name: "WHEN", requires: &[NAME_SOURCE] };
        /// Time after which an unanswered DNS question is sent again.
        dns_retry: Duration as AboveZero { heading: NAMES, requires: &["resolver"] } = Duration::from_secs(2);
        /// How often a DNS question is sent before it times out.
        dns_tries: u32 as Within<1, 100> { heading: NAMES, requires: &["resolver"] } = 3;
        /// The first user's name. Its final zeros are counted up for the users and then for their peers.
        names: String { heading: USERS, value_name: "NAME", excludes: &["users_from"] } = "user000000".to_owned();
        /// A file with `name` or `name,password` on each line: first the callers, then their peers.
        users_from: Option<PathBuf> { heading: USERS };
        /// The variable of the environment with the password of all users, for a server that requires one.
        password_env: Option<String> { heading: USERS, value_name: "NAME" };
        /// How long a call may ring, or wait after a 100, before the tester cancels it.
        longest_ringing: Duration as AboveZero { heading: CALLS } = Duration::from_secs(180);
        /// A file of TOML with own header fields and bodies for messages of the scenarios: a table `[[messages]]` for each
        /// step, with `set`, `add`, `body` or `parts`.
        messages: Option<PathBuf> { heading: CALLS };
        /// When a lost connection may be opened again by the next request: a time, or `never` in this load. Requests
        /// before that fail like those that waited for the connection.
        reconnect: Option<Reconnecting> { heading: CONNECTIONS };
        /// CA certificates in PEM. One of these authorities must have signed the certificate of the server, for the name of
        /// the target. Without them any certificate is accepted.
        authorities: Option<PathBuf> { heading: CONNECTIONS };
        /// The certificate chain in PEM, the tester's certificate first. It is shown to a server that requests one, and
        /// by peers that are called back. Without it, peers create their own certificate.
        certificate: Option<PathBuf> { heading: CONNECTIONS, requires: &["private_key"] };
        /// The key of the certificate, in PEM.
        private_key: Option<PathBuf> { heading: CONNECTIONS, requires: &["certificate"] };
        /// The statistic of each delay that is compared with its threshold.
        statistic: DelayStatistic { heading: THRESHOLDS } = DelayStatistic::Mean;
        /// The smallest share of attempts that must succeed.
        success: Fraction { heading: THRESHOLDS } = Fraction::new(Thresholds::default().success).unwrap_or_default();
        /// Cores of the tester, each with a thread and a socket. By default all cores but one.
        cpus: Option<u16> as AtLeastOne { heading: TESTER };
        /// Threads keep their cores busy before each arrival, which is then late by microseconds only.
        punctual: bool { heading: TESTER };
        /// The local address; a link-local one with its interface (`fe80::1%eth0`). By default the system chooses it.
        local: Option<HostAddress> { heading: TESTER };
        /// The local port of the first thread. By default the system chooses it.
        local_port: Option<u16> { heading: TESTER, value_name: "PORT" };
        /// Seed of the arrivals: the same seed gives the same times.
        seed: u64 { heading: TESTER } = 1;
        /// Your consent to test this host. A public target needs it, with the same name.
        i_may_test: Option<String> { heading: TESTER, value_name: "HOST", is_saved: false };
    }
}

/// Headings of help texts.
const NAMES: &str = "Names";
const USERS: &str = "Users";
const CALLS: &str = "Calls";
const CONNECTIONS: &str = "Connections";
const THRESHOLDS: &str = "Thresholds";
const TESTER: &str = "Tester";

/// The group of the sources of names.
const NAME_SOURCE: &str = "name_source";

/// The settings for commands that use a server without a load.
pub type ReachSettings = PartOf<TesterSettings, ReachPart>;

/// The part of the settings of the tester that apply without a load.
#[derive(Clone, Debug)]
pub struct ReachPart;

impl TablePart<TesterSettings> for ReachPart {
    fn has(key: &str) -> bool {
        ["authorities", "local", "i_may_test"].contains(&key)
    }

    fn usual() -> TesterSettings {
        TesterSettings::default()
    }
}

/// The port of the DNS.
const DNS_PORT: u16 = 53;

/// The address of a DNS server: `192.0.2.53`, `[2001:db8::53]:5353`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResolverAddress(pub SocketAddr);

impl FromStr for ResolverAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        HostAddress::with_port(text, Some(DNS_PORT)).map(Self).map_err(|why| match why {
            HostAddressError::Form => "expected an address, as 192.0.2.53 or [2001:db8::53]:5353".to_owned(),
            why => why.to_string(),
        })
    }
}

impl fmt::Display for ResolverAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HostAddress::text_with_port(self.0))
    }
}

setting_texts! {
    ResolverAddress = "IP[:PORT]";
}
