//! Why a request is no load.

use std::net::IpAddr;
use std::path::PathBuf;

use netrig_host::tls::TlsError;
use netrig_host::user_file::UserFileError;
use netrig_sip::settings::SettingError;
use netrig_sip_net::UsersError;
use netrig_sip_net::dns::LocateError;

/// Why a request is no load. A setting is named by its key.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// A setting has an invalid value.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The text names no server.
    #[error("`{0}` is no server: expected its transport first, as udp:192.0.2.1:5060")]
    NoServer(String),
    /// The text names a server that has to be looked up, without a source of names.
    #[error("`{0}` is looked up in the DNS: say where, with `resolver`, or in which table, with `zone`")]
    NoNameSource(String),
    /// The text is no name that can be looked up.
    #[error("`{0}` is no server: expected a name, as sip:example.com, sips:example.com or udp:example.com")]
    NoName(String),
    /// There is no load over SCTP.
    #[error("a load is carried over UDP, TCP or TLS: SCTP needs a kernel that has it")]
    Sctp,
    /// Another host may be tested.
    #[error("`i_may_test` names `{named}`, and the target is `{host}`")]
    OtherHost {
        /// The host that may be tested.
        named: String,
        /// The target.
        host: String,
    },
    /// The user has not said that this public address may be tested.
    #[error("{0} is a public address: if you may test it, say so with `i_may_test`")]
    Public(IpAddr),
    /// The setting has no meaning over this transport.
    #[error("`{setting}` is for {needs}, not for {transport}")]
    WrongTransport {
        /// The key of the setting.
        setting: &'static str,
        /// The transports that have it.
        needs: &'static str,
        /// The transport of the load.
        transport: &'static str,
    },
    /// A server that takes over has another transport.
    #[error("`{other}` is not of the transport of {target}")]
    OtherTransport {
        /// The server that takes over.
        other: String,
        /// The target.
        target: String,
    },
    /// The host has no address.
    #[error(transparent)]
    Host(#[from] netrig_host::TargetError),
    /// A file of users is wrong.
    #[error(transparent)]
    Users(#[from] UsersError),
    /// No certificate can be for the name.
    #[error("no certificate can be for `{0}`")]
    NoCertificate(String),
    /// A certificate or a key is unusable.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The server is not in the DNS.
    #[error("where {uri} is: {error}")]
    Location {
        /// The URI that was looked up.
        uri: String,
        /// Why it was not found.
        error: LocateError,
    },
    /// A file cannot be read.
    #[error("cannot read {}: {error}", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// Why.
        error: UserFileError,
    },
    /// A file has invalid content.
    #[error("{}{why}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// What is wrong, after a colon, or a line number between colons.
        why: String,
    },
    /// The variable of the environment with the password cannot be used.
    #[error("the password in `{name}`: {error}")]
    Password {
        /// The name of the variable.
        name: String,
        /// Why.
        error: std::env::VarError,
    },
}
