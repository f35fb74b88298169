//! Settings of a server that no experiment file has.

use std::net::SocketAddr;
use std::path::PathBuf;

use netrig_core::setting::SettingValue;
use netrig_core::{Duration, settings};
use netrig_host::{HostAddress, HostAddressError};
use netrig_sip::settings::ServerRole;
use netrig_sip::transaction::Timing;

settings! {
    /// Settings of a server that no experiment file has.
    #[derive(Clone, Debug)]
    pub struct ServeOptions with defaults {
        /// A domain of the server, in addition to its addresses; may be repeated. The first is its realm.
        domain: Vec<String> { heading: USERS, value_name: "NAME" };
        /// Number of users, `user000000` and so on. Without it and without a file, any user is accepted.
        users: Option<u32> { heading: USERS, excludes: &["users_file"] };
        /// A file of users: `name,password` or `name,password,contact` on each line.
        users_file: Option<PathBuf> { heading: USERS };
        /// Maximum number of users with a registration, and maximum number of their bindings.
        max_users: u32 { heading: USERS } = 1_000_000;
        /// The variable of the environment with the password of all `--users`.
        password_env: Option<String> {
            heading: USERS,
            value_name: "NAME",
            requires: &["users"],
            excludes: &["password"],
        };
        /// The password of all `--users`. Other users of this machine can read it in the list of processes.
        password: Option<String> { heading: USERS, requires: &["users"] };
        /// The realm of the passwords. By default the first domain, or else the address.
        realm: Option<String> { heading: USERS, requires: &["digest"] };
        /// T1, the estimate of a round-trip time from which all timers follow (RFC 3261 section 17.1.1.1).
        t1: Duration { heading: "Transactions" } = Timing::default().t1;
        /// Ring until the caller cancels.
        never: bool { heading: CALLS, excludes: &["refuse"] };
        /// Hang up this time after the caller's ACK. By default the caller hangs up.
        talk: Option<Duration> { heading: CALLS, excludes: &["refuse", "never"] };
        /// Hang up, or stop ringing, when a call has lasted this time.
        max_call: Duration { heading: CALLS } = Duration::from_secs(3600);
        /// Address to which callers send their media: `192.0.2.1:9`, `[fe80::1%eth0]:9`. Nothing listens there. By default
        /// port 9 of the first address.
        media: Option<MediaAddress> { heading: CALLS };
    }
}

/// Headings of the help text.
const USERS: &str = "Users";
const CALLS: &str = "Calls";

impl ServeOptions {
    /// Whether servers of this role have the setting.
    pub fn are_of(role: ServerRole, key: &str) -> bool {
        match key {
            "domain" | "users" | "users_file" | "max_users" => role != ServerRole::Uas,
            "password_env" | "password" | "realm" => role.has("digest"),
            "t1" => role.has("max_transactions"),
            _ => role == ServerRole::Uas,
        }
    }
}

/// An address with a port, to which media are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MediaAddress(pub SocketAddr);

impl SettingValue for MediaAddress {
    const VALUE_NAME: &'static str = "ADDRESS:PORT";

    fn read(word: &str) -> Result<Self, String> {
        HostAddress::with_port(word, None).map(Self).map_err(|why| match why {
            HostAddressError::Form => {
                "expected an address with a port: 192.0.2.1:9, [2001:db8::1]:9 or [fe80::1%eth0]:9".to_owned()
            }
            why => why.to_string(),
        })
    }

    fn word(&self) -> String {
        HostAddress::text_with_port(self.0)
    }
}
