//! The arguments of `netrig sip conform`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use netrig_core::Duration;
use netrig_core::setting::{AtLeastOne, Within};
use netrig_sip::Uri;
use netrig_sip_tester::conformance::TestedRole;
use netrig_sip_tester::request::ReachSettings;

use netrig_sip::load::ArrivalRate;

use crate::typed::{Typed, named, value, value_as};

/// `netrig sip conform`.
#[derive(Debug, Args)]
pub struct Conform {
    /// The server: `udp:192.0.2.1:5060`, `tcp:example.com`, `tls:[2001:db8::1]:5061`
    #[arg(value_name = "TARGET", required_unless_present_any = ["list", "capability_template"])]
    pub target: Option<String>,
    /// The role in which the server is tested
    #[arg(long, value_parser = named::<TestedRole>())]
    pub role: TestedRole,
    #[command(flatten)]
    pub selection: Selection,
    #[command(flatten)]
    pub users: ConformUsers,
    /// The called URI in the role `uas`; by default the server itself
    #[arg(long, value_name = "URI")]
    pub callee: Option<Uri>,
    /// The claims of the server: `capability = true` or `false` on each line. Capabilities without a claim are tried
    #[arg(long, value_name = "FILE")]
    pub capabilities: Option<PathBuf>,
    /// Print a capability file of the role to fill in
    #[arg(long)]
    pub capability_template: bool,
    /// Number of concurrent test cases; each needs three users
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_as::<Within<1, 64>, u16>)]
    pub jobs: u16,
    /// Test during a load of registrations or calls at this rate; its users follow those of the test cases
    #[arg(long, value_name = "RATE")]
    pub beside: Option<ArrivalRate>,
    /// Number of users of that load
    #[arg(long, value_name = "N", default_value_t = 100, requires = "beside", value_parser = value_as::<AtLeastOne, u32>)]
    pub beside_users: u32,
    /// How long the tester waits for a response
    #[arg(long, value_name = "TIME", default_value = "4s")]
    pub patience: Duration,
    /// How long the tester waits to see that no message arrives
    #[arg(long, value_name = "TIME", default_value = "1s")]
    pub silence: Duration,
    #[command(flatten)]
    pub names: ConformNames,
    /// Seed of the identifiers; by default a new one for each start
    #[arg(long, value_name = "N", value_parser = value::<u64>)]
    pub seed: Option<u64>,
    #[command(flatten)]
    pub reach: Typed<ReachSettings>,
    /// Print one JSON document instead of the report
    #[arg(long)]
    pub json: bool,
    /// Do not show the progress
    #[arg(long)]
    pub quiet: bool,
    /// Write the document (JSON) to this file
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Write a page in the form of a protocol conformance test report (ITU-T X.294) to this file
    #[arg(long, value_name = "FILE.html")]
    pub html: Option<PathBuf>,
    /// Write a report for build servers (JUnit) to this file
    #[arg(long, value_name = "FILE.xml")]
    pub junit: Option<PathBuf>,
    /// Write all messages to this file, a message log for `netrig sip show`
    #[arg(long, value_name = "FILE.log")]
    pub messages: Option<PathBuf>,
}

/// The selection of test purposes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Test purposes")]
pub struct Selection {
    /// Only those of a set
    #[arg(long, value_enum, value_name = "SET")]
    pub set: Option<SetName>,
    /// Only those with this id, or with ids that start with it: `REG-BIND`; may be repeated
    #[arg(long, value_name = "ID")]
    pub only: Vec<String>,
    /// Exclude those with this id, or with ids that start with it; may be repeated
    #[arg(long, value_name = "ID")]
    pub without: Vec<String>,
    /// Only those of this group; may be repeated
    #[arg(long, value_name = "GROUP")]
    pub group: Vec<String>,
    /// Only those of this section and its subsections: `"RFC 3261 section 10"`; may be repeated
    #[arg(long, value_name = "SECTION")]
    pub section: Vec<String>,
    /// List the test purposes, and test nothing
    #[arg(long)]
    pub list: bool,
}

/// The users of the server.
#[derive(Debug, Args)]
#[command(next_help_heading = "Users")]
pub struct ConformUsers {
    /// The first user's name. Its final zeros are counted up for the other users; each job has three users
    #[arg(long, value_name = "NAME", default_value = "user000000")]
    pub names: String,
    /// Users from a file: `name` or `name,password` on each line
    #[arg(long, value_name = "FILE", conflicts_with = "names")]
    pub users_from: Option<PathBuf>,
    /// The variable of the environment with the password of all users, for a server that requires one
    #[arg(long, value_name = "NAME")]
    pub password_env: Option<String>,
    /// Domain of all users; by default the address of the target, with its port if that is not 5060
    #[arg(long, value_name = "NAME")]
    pub domain: Option<String>,
}

/// The tester as the DNS server of a proxy.
#[derive(Debug, Args)]
#[command(next_help_heading = "Names")]
pub struct ConformNames {
    /// Answer DNS questions at this address, over UDP and TCP, for the purposes of RFC 3263 in the role `proxy`. The server must use it as its resolver
    #[arg(long, value_name = "IP:PORT")]
    pub dns_listen: Option<SocketAddr>,
    /// The domain of the hosts at which users are registered for these purposes
    #[arg(long, value_name = "NAME", default_value = "conform.test", requires = "dns_listen")]
    pub dns_domain: String,
}

/// A set of test purposes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SetName {
    /// Basic call set-up and registration: the rules that a valid performance measurement requires
    BasicCall,
}
