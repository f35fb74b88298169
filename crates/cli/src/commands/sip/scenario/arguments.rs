//! Arguments of the commands that run a scenario.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use netrig_core::setting::AtLeastOne;
use netrig_core::setting::{Setting, SettingsTable as _};
use netrig_core::{Duration, Fraction};
use netrig_sip::settings::LoadSettings;
use netrig_sip_net::ListeningPoint;
use netrig_sip_tester::media::MediaCodec;

use crate::commands::sip::keeping::{KeepArguments, RecordArguments};
use crate::typed::{value, value_as};

/// Arguments for every run of a scenario, as caller or as callee.
#[derive(Debug, Args)]
#[command(next_help_heading = "Scenario")]
pub struct ScriptArguments {
    /// A file whose lines have the fields of calls, `[field0]` and so on; may be repeated (SIPp's -inf)
    #[arg(long, value_name = "FILE.csv")]
    pub inject: Vec<PathBuf>,
    /// The number of the field, counted from 0, by which lines of a file are looked up; may be repeated (SIPp's -infindex)
    #[arg(long, value_name = "FILE.csv=FIELD", value_parser = index)]
    pub inject_index: Vec<(String, usize)>,
    /// A keyword of your own: `tenant=7` puts 7 in place of `[tenant]`; may be repeated (SIPp's -key)
    #[arg(long, value_name = "KEYWORD=VALUE", value_parser = pair)]
    pub key: Vec<(String, String)>,
    /// The value of a <Global> variable before the first call; may be repeated (SIPp's -set)
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    pub variable: Vec<(String, String)>,
    /// The user part of the called address, `[service]`; by default `service` (SIPp's -s)
    #[arg(long, value_name = "USER")]
    pub service: Option<String>,
    /// The user name for challenges if `[authentication]` has none; by default the value of --service (SIPp's -au)
    #[arg(long, value_name = "USER")]
    pub auth_user: Option<String>,
    /// The password of --auth-user. All users of this machine can read it: prefer --password-env (SIPp's -ap)
    #[arg(long, value_name = "PASSWORD", conflicts_with = "password_env")]
    pub auth_password: Option<String>,
    /// How long to wait for a message if its step sets no timeout; by default without limit
    #[arg(long, value_name = "TIME")]
    pub message_timeout: Option<Duration>,
    /// Answer 200 to each INFO, NOTIFY, OPTIONS and UPDATE that no step awaits (SIPp's -aa)
    #[arg(long)]
    pub answer_requests: bool,
    /// Do not end the session of a failed call; by default its INVITE is cancelled, or its session ended by BYE
    #[arg(long)]
    pub leave_sessions: bool,
    /// The value of `[media_port]`, and the source port of media if the session description names none. With --media it
    /// is the first port, and each call takes two ports. By default 6000 for callers and 26000 for callees
    #[arg(long, value_name = "PORT", value_parser = value_as::<AtLeastOne, u16>)]
    pub media_port: Option<u16>,
    /// Send and measure media in each call: RTP and RTCP from both ends. The codec is pcmu, pcma, g729 or opus. Without a
    /// scenario file the tester makes plain calls
    #[arg(long, value_name = "CODEC")]
    pub media: Option<MediaCodec>,
    /// The share of the calls with media
    #[arg(long, value_name = "SHARE", requires = "media")]
    pub media_share: Option<Fraction>,
    /// The sent media: `tone` (default), `silence`, `echo` of received media, `nothing`, or a file in the codec's encoding
    #[arg(long, value_name = "SOURCE", requires = "media")]
    pub media_source: Option<String>,
    /// Allow the scenario to start programs on this machine (<exec command>)
    #[arg(long)]
    pub allow_commands: bool,
    /// Address of the other process of the test, or of this process if this scenario starts with <recvCmd> (SIPp's -3pcc)
    #[arg(long = "3pcc", value_name = "IP:PORT")]
    pub third_party: Option<SocketAddr>,
    /// The name of this process among several (SIPp's -master and -slave)
    #[arg(long, value_name = "NAME", requires = "processes", conflicts_with = "third_party")]
    pub process: Option<String>,
    /// The addresses of the processes: `NAME;IP:PORT` on each line (SIPp's -slave_cfg)
    #[arg(long, value_name = "FILE", requires = "process")]
    pub processes: Option<PathBuf>,
}

impl ScriptArguments {
    /// The first typed flag, in the order below, that has no meaning without a scenario.
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

/// Flags that have no effect on calls whose messages are those of a scenario file.
fn flags_without_effect() -> impl Iterator<Item = &'static str> {
    let is_without_effect = |row: &Setting| LoadSettings::SAID_BY_SCRIPTS.contains(&row.key);
    let of_load = LoadSettings::rows().into_iter().filter(is_without_effect).map(|row| row.key);
    of_load.chain([
        "scenario",
        "mix",
        "stop_on_loss_of_server",
        "name_source",
        "names",
        "users_from",
        "longest_ringing",
        "reconnect",
        "statistic",
        "success",
        "cpus",
        "punctual",
        "warm_up",
        "bhca",
        "environment",
        "save_environment",
        "metrics",
        "metrics_file",
        "messages",
    ])
}

/// A scenario file in place of the load's own scenarios. With --media, calls follow a scenario of the tester.
#[derive(Debug, Args)]
#[command(mut_arg("media", |media| media.conflicts_with_all(flags_without_effect())))]
pub struct LoadScriptArguments {
    /// Calls follow this file message by message: a scenario of SIPp (XML) or in netrig's form (TOML) (SIPp's -sf)
    #[arg(
        long,
        value_name = "FILE",
        help_heading = "Scenario",
        conflicts_with_all = flags_without_effect()
    )]
    pub scenario_file: Option<PathBuf>,
    #[command(flatten)]
    pub script: ScriptArguments,
}

/// `netrig sip serve scenario`.
#[derive(Debug, Args)]
pub struct ServedScenario {
    /// The scenario, of SIPp (XML) or in netrig's form (TOML). It must receive a message before it sends one. With --media no
    /// file is needed: the tester has a scenario of its own
    #[arg(value_name = "FILE", required_unless_present = "media")]
    pub file: Option<PathBuf>,
    /// Where to listen: `udp:127.0.0.1:5060`, `tcp:[::1]:5060`, `tls:192.0.2.1`. With port 0 the system chooses one
    #[arg(long, value_name = "TRANSPORT:ADDRESS[:PORT]", default_value = "udp:127.0.0.1:5060")]
    pub listen: ListeningPoint,
    /// Allow an address that can be reached over a network, although callers are not authenticated
    #[arg(long)]
    pub open: bool,
    /// End after this number of calls
    #[arg(long, value_name = "N", value_parser = value::<u64>)]
    pub count: Option<u64>,
    /// End after this time
    #[arg(long = "for", value_name = "TIME")]
    pub lasts: Option<Duration>,
    /// Number of users. A user has one call at a time
    #[arg(long, value_name = "N", value_parser = value::<u32>)]
    pub users: Option<u32>,
    /// Maximum number of concurrent calls
    #[arg(long, value_name = "N", default_value_t = 1 << 17, value_parser = value::<u32>)]
    pub most_calls: u32,
    /// Duration of each pause that states no duration (SIPp's -d)
    #[arg(long, value_name = "TIME", default_value = "0s")]
    pub hold: Duration,
    /// T2 of RFC 3261
    #[arg(long, value_name = "TIME", default_value = "4s")]
    pub t2: Duration,
    /// The variable of the environment with the password of --auth-user
    #[arg(long, value_name = "NAME")]
    pub password_env: Option<String>,
    /// The certificate chain in PEM, the server's certificate first; by default the server makes its own
    #[arg(long, value_name = "FILE", requires = "private_key")]
    pub certificate: Option<PathBuf>,
    /// The key of the certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "certificate")]
    pub private_key: Option<PathBuf>,
    /// Seed of all random draws
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value::<u64>)]
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
