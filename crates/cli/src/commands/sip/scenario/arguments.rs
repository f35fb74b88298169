//! What may be typed about a scenario that is carried out.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use netrig_core::{Duration, Fraction};
use netrig_sip_net::ListeningPoint;
use netrig_sip_tester::media::MediaCodec;

use crate::commands::sip::keeping::{KeepArguments, RecordArguments};

/// How a scenario is carried out.
#[derive(Debug, Args)]
#[command(next_help_heading = "Scenario")]
pub struct ScriptArguments {
    /// A file whose lines give calls their fields, `[field0]` and so on; given several times (SIPp's -inf)
    #[arg(long, value_name = "FILE.csv")]
    pub inject: Vec<PathBuf>,
    /// The field by which lines of a file are found again, from 0; given several times (SIPp's -infindex)
    #[arg(long, value_name = "FILE.csv=FIELD", value_parser = index)]
    pub inject_index: Vec<(String, usize)>,
    /// A keyword of one's own: `[tenant]` stands for the value; given several times (SIPp's -key)
    #[arg(long, value_name = "KEYWORD=VALUE", value_parser = pair)]
    pub key: Vec<(String, String)>,
    /// The value of a <Global> variable before the first call; given several times (SIPp's -set)
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    pub variable: Vec<(String, String)>,
    /// The user part of the called address, `[service]`; `service` if not given (SIPp's -s)
    #[arg(long, value_name = "USER")]
    pub service: Option<String>,
    /// The user name for challenges where `[authentication]` has none; the value of --service if not given (SIPp's -au)
    #[arg(long, value_name = "USER")]
    pub auth_user: Option<String>,
    /// The password of that user, which every user of this machine can read there: prefer --password-env (SIPp's -ap)
    #[arg(long, value_name = "PASSWORD", conflicts_with = "password_env")]
    pub auth_password: Option<String>,
    /// How long a message is awaited where the scenario says no time; without end if not given
    #[arg(long, value_name = "TIME")]
    pub message_timeout: Option<Duration>,
    /// Answer INFO, NOTIFY, OPTIONS and UPDATE that no step awaits with 200 (SIPp's -aa)
    #[arg(long)]
    pub answer_requests: bool,
    /// Leave what a call that failed has begun; otherwise its INVITE is cancelled, or its session ended by BYE
    #[arg(long)]
    pub leave_sessions: bool,
    /// The port that `[media_port]` stands for, and from which media are sent where the session description says none; with --media
    /// the first of the ports, of which each call has two. If not given, 6000 for who calls and 26000 for who answers
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub media_port: Option<u16>,
    /// Calls have media: RTP and RTCP from both ends with this codec, pcmu, pcma, g729 or opus, and what became of them; without a
    /// scenario they are calls of the tester's own
    #[arg(long, value_name = "CODEC")]
    pub media: Option<MediaCodec>,
    /// The share of the calls with media
    #[arg(long, value_name = "SHARE", requires = "media")]
    pub media_share: Option<Fraction>,
    /// What is sent: `tone`, `silence`, `echo` of what comes, `nothing`, or a file of bytes as the codec has them; a tone if not given
    #[arg(long, value_name = "SOURCE", requires = "media")]
    pub media_source: Option<String>,
    /// The scenario may start programs of this machine (<exec command>)
    #[arg(long)]
    pub allow_commands: bool,
    /// Where the other process of the test listens, or this one if its scenario begins with <recvCmd> (SIPp's -3pcc)
    #[arg(long = "3pcc", value_name = "IP:PORT")]
    pub third_party: Option<SocketAddr>,
    /// The name of this process among several (SIPp's -master and -slave)
    #[arg(long, value_name = "NAME", requires = "processes", conflicts_with = "third_party")]
    pub process: Option<String>,
    /// Where each of them listens: `NAME;IP:PORT` on each line (SIPp's -slave_cfg)
    #[arg(long, value_name = "FILE", requires = "process")]
    pub processes: Option<PathBuf>,
}

impl ScriptArguments {
    /// A flag that was given.
    pub fn given(&self) -> Option<&'static str> {
        let given = [
            ("--inject", !self.inject.is_empty()),
            ("--inject-index", !self.inject_index.is_empty()),
            ("--key", !self.key.is_empty()),
            ("--variable", !self.variable.is_empty()),
            ("--service", self.service.is_some()),
            ("--auth-user", self.auth_user.is_some()),
            ("--auth-password", self.auth_password.is_some()),
            ("--message-timeout", self.message_timeout.is_some()),
            ("--answer-requests", self.answer_requests),
            ("--leave-sessions", self.leave_sessions),
            ("--media-port", self.media_port.is_some()),
            ("--media-share", self.media_share.is_some()),
            ("--media-source", self.media_source.is_some()),
            ("--allow-commands", self.allow_commands),
            ("--3pcc", self.third_party.is_some()),
            ("--process", self.process.is_some()),
        ];
        given.into_iter().find(|(_, is_given)| *is_given).map(|(flag, _)| flag)
    }
}

/// A scenario in place of the load's own.
#[derive(Debug, Args)]
pub struct LoadScriptArguments {
    /// Calls do what this file says, message by message: a scenario of SIPp, or of netrig's own form (SIPp's -sf)
    #[arg(
        long,
        value_name = "FILE",
        help_heading = "Scenario",
        conflicts_with_all = [
            "scenario", "mix", "fail_over", "stop_on_loss_of_server", "name_source", "names", "users_from", "domain", "expires",
            "callee", "ring", "contacts", "provisionals", "session_expires", "patience", "longest_ringing", "sdp", "t4", "reconnect",
            "statistic", "success", "cpus", "punctual", "warm_up", "bhca", "environment", "save_environment", "metrics", "metrics_file",
        ]
    )]
    pub scenario_file: Option<PathBuf>,
    #[command(flatten)]
    pub script: ScriptArguments,
}

/// `netrig sip serve scenario`.
#[derive(Debug, Args)]
pub struct ServedScenario {
    /// The scenario, of SIPp (XML) or of netrig's own form (TOML), whose first message is received; with --media the tester's own if
    /// not given
    #[arg(value_name = "FILE", required_unless_present = "media")]
    pub file: Option<PathBuf>,
    /// Where to listen: `udp:127.0.0.1:5060`, `tcp:[::1]:5060`, `tls:192.0.2.1`. With port 0 the system chooses one
    #[arg(long, value_name = "TRANSPORT:ADDRESS[:PORT]", default_value = "udp:127.0.0.1:5060")]
    pub listen: ListeningPoint,
    /// Serve anybody who reaches it, also over a network
    #[arg(long)]
    pub open: bool,
    /// End behind so many calls
    #[arg(long, value_name = "N")]
    pub count: Option<u64>,
    /// End by itself after this time
    #[arg(long = "for", value_name = "TIME")]
    pub lasts: Option<Duration>,
    /// Calls are those of so many users, one after the other
    #[arg(long, value_name = "N")]
    pub users: Option<u32>,
    /// The most calls at once
    #[arg(long, value_name = "N", default_value_t = 1 << 17)]
    pub most_calls: u32,
    /// Pauses that say no time (SIPp's -d)
    #[arg(long, value_name = "TIME", default_value = "0s")]
    pub hold: Duration,
    /// T2 of RFC 3261
    #[arg(long, value_name = "TIME", default_value = "4s")]
    pub t2: Duration,
    /// A variable of the environment with the password of --auth-user
    #[arg(long, value_name = "NAME")]
    pub password_env: Option<String>,
    /// A certificate in PEM, those that sign it behind; without one it makes its own
    #[arg(long, value_name = "FILE", requires = "private_key")]
    pub certificate: Option<PathBuf>,
    /// The key of the certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "certificate")]
    pub private_key: Option<PathBuf>,
    /// Seed of all that is drawn
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    #[command(flatten)]
    pub script: ScriptArguments,
    #[command(flatten)]
    pub keeping: KeepArguments,
    #[command(flatten)]
    pub records: RecordArguments,
    /// Print one JSON document at the end instead of tables
    #[arg(long)]
    pub json: bool,
}

/// `NAME=VALUE`.
pub fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(format!("`{text}`: expected NAME=VALUE")),
    }
}

fn index(text: &str) -> Result<(String, usize), String> {
    let (file, field) = pair(text)?;
    field
        .parse()
        .map(|field| (file, field))
        .map_err(|_| format!("`{text}`: expected FILE.csv=FIELD, FIELD from 0"))
}
