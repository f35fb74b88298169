//! What may be typed about what is tested and how.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use netrig_core::{Duration, Fraction, Size, SpanDistribution};
use netrig_host::HostAddress;
use netrig_sip::settings::ScenarioName;

use super::location_arguments::LocationArguments;
use super::typed::{TypedMix, TypedReconnect, scenarios};

/// A server, what users do with it, and what it has to keep to.
#[derive(Debug, Args)]
pub struct Subject {
    /// The server: `udp:192.0.2.1:5060`, `tcp:example.com`, `tls:[2001:db8::1]:5061`, `udp:[fe80::1%eth0]:5060`; with `--zone` or
    /// `--resolver` also `sip:example.com` and `sips:example.com`, whose transport and port are looked for too
    #[arg(value_name = "TARGET")]
    pub target: String,
    /// What users do
    #[arg(long, value_parser = scenarios(), default_value_t = ScenarioName::Call)]
    pub scenario: ScenarioName,
    /// Several scenarios in one load, each with its share: `call=70%,busy=10%,no-answer=10%,cancel=5%,register=5%`
    #[arg(long, value_name = "SCENARIO=SHARE,..", conflicts_with = "scenario")]
    pub mix: Option<TypedMix>,
    /// A server that takes over when the target, or the one given before it, does not answer, answers 503 or is not reached (RFC
    /// 3263 section 4.3): written as the target is, of the same transport; given several times, seven at most
    #[arg(long, value_name = "TARGET")]
    pub fail_over: Vec<String>,
    /// End the load when nothing comes from the server any more: by itself it goes on, in case the server comes back
    #[arg(long)]
    pub stop_on_loss_of_server: bool,
    #[command(flatten)]
    pub location: LocationArguments,
    #[command(flatten)]
    pub population: Population,
    #[command(flatten)]
    pub call: CallArguments,
    #[command(flatten)]
    pub connections: Connections,
    #[command(flatten)]
    pub judge: Judge,
    #[command(flatten)]
    pub tester: Tester,
}

/// Who there is.
#[derive(Debug, Args)]
#[command(next_help_heading = "Users")]
pub struct Population {
    /// How many users there are; as many as the scenario needs if not given, and 1000 where it needs no number. In a search for a
    /// capacity of registrations each step takes as many of them as its rate needs
    #[arg(long, value_name = "N")]
    pub users: Option<u32>,
    /// The first user's name: it ends with zeros, which count the users that follow, and the peers behind them
    #[arg(long, value_name = "NAME", default_value = "user000000")]
    pub names: String,
    /// Users from a file: `name` or `name,password` on each line, first those who call, then their peers
    #[arg(long, value_name = "FILE", conflicts_with_all = ["users", "names"])]
    pub users_from: Option<PathBuf>,
    /// A variable of the environment with the password of all users, for servers that ask for one
    #[arg(long, value_name = "NAME")]
    pub password_env: Option<String>,
    /// The domain of all users; the target's address if not given, with its port if that is not 5060
    #[arg(long, value_name = "NAME")]
    pub domain: Option<String>,
    /// How long a registration, or a subscription, is to last
    #[arg(long, value_name = "TIME", default_value = "1h")]
    pub expires: Duration,
}

/// What a call is like.
#[derive(Debug, Args)]
#[command(next_help_heading = "Calls")]
pub struct CallArguments {
    /// Who is called
    #[arg(long, value_enum, default_value_t = CalleeName::Server)]
    pub callee: CalleeName,
    /// How long a peer of `--callee own` rings
    #[arg(long, value_name = "TIME", default_value = "0s")]
    pub ring: Duration,
    /// At how many places each peer of `--callee own` is registered: a server that forks calls them all; the first answers, of
    /// `fork` the first two, and the others ring until they are cancelled
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=16))]
    pub contacts: u8,
    /// How many provisional responses a peer of `--callee own` sends before it answers, evenly over `--ring`
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    pub provisionals: u16,
    /// The session interval that callers ask for (RFC 4028), 90s or more: the session is refreshed at half of it, or ended; they
    /// ask for none if not given
    #[arg(long, value_name = "TIME")]
    pub session_expires: Option<Duration>,
    /// How long a call is held, or a subscription lasts: `30s`, or drawn: `exponential:30s`, `uniform:10s..50s`,
    /// `pareto:30s,1.5` (the mean and the shape), `lognormal:90s,1` (the mean, and the deviation of the logarithm); what would be
    /// above 20 means is as long as that
    #[arg(long, value_name = "TIME", default_value = "0s")]
    pub hold: SpanDistribution,
    /// How long it rings until a call of `cancel` or `no-answer` is given up
    #[arg(long, value_name = "TIME", default_value = "100ms")]
    pub patience: Duration,
    /// How long a call may ring, or be worked on after a 100, before the tester takes it back
    #[arg(long, value_name = "TIME", default_value = "3min")]
    pub longest_ringing: Duration,
    /// The size of the session descriptions; `0B` for none
    #[arg(long, value_name = "SIZE", default_value = "300B")]
    pub sdp: Size,
    /// Header fields and bodies of your own for the messages of the scenarios: a file of TOML with a table `[[messages]]` for each step,
    /// which has `set`, `add`, `body` or `parts`
    #[arg(long, value_name = "FILE")]
    pub messages: Option<PathBuf>,
    /// Follow a 3xx to its contacts (RFC 3261 section 8.1.3.4). The load sends to the target, the servers that take over and the peers
    /// only: for any other contact it asks the target
    #[arg(long)]
    pub follow_redirects: bool,
    /// How often an attempt that is refused with `Retry-After` is made again after that time, if it is `--longest-ringing` at most
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub retries: u8,
    /// The transport of requests of more than 1300 B to a target over UDP: `udp`, in fragments, or `tcp`, as RFC 3261 section 18.1.1 says
    #[arg(long, value_enum, value_name = "TRANSPORT", default_value_t = LargeRequestsName::Udp)]
    pub large_requests: LargeRequestsName,
    /// T1 of RFC 3261: what is not answered is sent again after it, and given up after 64 of it
    #[arg(long, value_name = "TIME", default_value = "500ms")]
    pub t1: Duration,
    /// T2 of RFC 3261, the longest time between two of the same request but INVITE, and not below T1: 4s, or T1 if that is more
    #[arg(long, value_name = "TIME")]
    pub t2: Option<Duration>,
    /// T4 of RFC 3261, the longest that a message stays in the network
    #[arg(long, value_name = "TIME", default_value = "5s")]
    pub t4: Duration,
}

/// Who is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CalleeName {
    /// The server, or somebody behind it
    Server,
    /// A peer of each user, which netrig registers with the server beforehand and which answers
    Own,
}

/// The transport of requests that are too long for a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LargeRequestsName {
    /// In fragments of a datagram
    Udp,
    /// Over TCP, and in a datagram if the server takes no connection
    Tcp,
}

/// Connections of a target over TCP or TLS.
#[derive(Debug, Args)]
#[command(next_help_heading = "Connections")]
pub struct Connections {
    /// Which requests share a connection over TCP or TLS: all of a thread if not given
    #[arg(long, value_enum, value_name = "WHOSE")]
    pub connections: Option<ConnectionsName>,
    /// After how long a connection that is gone may be opened again, by what is sent next: `0s` at once, `never` not in this load.
    /// What is sent before that fails as what waited on the connection has
    #[arg(long, value_name = "DELAY")]
    pub reconnect: Option<TypedReconnect>,
    /// The server must show a certificate that one of these authorities has signed, for the name of the target; in PEM. Without
    /// them any certificate is taken: a test's server has often made its own
    #[arg(long, value_name = "FILE")]
    pub authorities: Option<PathBuf>,
    /// A certificate in PEM, those that sign it behind: shown to a server that asks for one, and by peers that are called back.
    /// Without one they make their own
    #[arg(long, value_name = "FILE", requires = "private_key")]
    pub certificate: Option<PathBuf>,
    /// The key of the certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "certificate")]
    pub private_key: Option<PathBuf>,
}

/// Which requests share a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ConnectionsName {
    /// All of a thread
    One,
    /// Those of a user
    PerUser,
    /// Those of one call, registration or question
    PerAttempt,
}

/// What the server has to keep to.
#[derive(Debug, Args)]
#[command(next_help_heading = "Thresholds")]
pub struct Judge {
    /// What of each delay is held against its threshold
    #[arg(long, value_enum, default_value_t = StatisticName::Mean)]
    pub statistic: StatisticName,
    /// The least share that must succeed
    #[arg(long, value_name = "SHARE", default_value = "99.9%")]
    pub success: Fraction,
}

/// A statistic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StatisticName {
    /// The mean
    Mean,
    /// The 95th percentile, as ITU-T E.721 does
    P95,
    /// Each of them
    Each,
}

impl StatisticName {
    /// In a sentence.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Mean => "the mean",
            Self::P95 => "the 95th percentile",
            Self::Each => "each",
        }
    }
}

/// The tester itself.
#[derive(Debug, Args)]
#[command(next_help_heading = "Tester")]
pub struct Tester {
    /// Cores that the tester uses, each with a thread and a socket; one less than there are if not given
    #[arg(long, value_name = "N")]
    pub cpus: Option<u16>,
    /// Threads keep their cores busy before each arrival: it begins within microseconds of its moment
    #[arg(long)]
    pub punctual: bool,
    /// The address to send from, one of a link with its interface (`fe80::1%eth0`); the one that the system chooses if not given
    #[arg(long, value_name = "ADDRESS")]
    pub local: Option<HostAddress>,
    /// The port to send from, of the first thread; chosen by the system if not given
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    pub local_port: u16,
    /// The most calls at once, in each thread
    #[arg(long, value_name = "N", default_value_t = 1 << 20)]
    pub most_calls: u32,
    /// You may test this host: needed for a target with a public address, with the same name as the target
    #[arg(long, value_name = "HOST")]
    pub i_may_test: Option<String>,
}
