//! Why a load cannot be built from its settings.

use std::net::IpAddr;
use std::path::PathBuf;

use netrig_host::tls::TlsError;
use netrig_host::user_file::UserFileError;
use netrig_sip::settings::SettingError;
use netrig_sip_net::UsersError;
use netrig_sip_net::dns::LocateError;

/// Why a load cannot be built from its settings. Messages name a setting by its key.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// A setting has an invalid value.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The text is not a server.
    #[error("`{0}` is no server: expected its transport first, as udp:192.0.2.1:5060")]
    NoServer(String),
    /// The text is a name that has to be looked up, but the settings have no source of names.
    #[error("`{0}` is looked up in the DNS: say where, with `resolver`, or in which table, with `zone`")]
    NoNameSource(String),
    /// The text is not a name that can be looked up.
    #[error("`{0}` is no server: expected a name, as sip:example.com, sips:example.com or udp:example.com")]
    NoName(String),
    /// A load over SCTP is not supported.
    #[error("a load is carried over UDP, TCP or TLS: SCTP needs a kernel that has it")]
    Sctp,
    /// The consent is for another host than the target.
    #[error("`i_may_test` names `{named}`, and the target is `{host}`")]
    OtherHost {
        /// The host in `i_may_test`.
        named: String,
        /// The target.
        host: String,
    },
    /// The target has a public address, and `i_may_test` is not set.
    #[error("{0} is a public address: if you may test it, say so with `i_may_test`")]
    Public(IpAddr),
    /// The setting does not apply to this transport.
    #[error("`{setting}` is for {needs}, not for {transport}")]
    WrongTransport {
        /// The key of the setting.
        setting: &'static str,
        /// The transports to which it applies.
        needs: &'static str,
        /// The transport of the load.
        transport: &'static str,
    },
    /// A fail-over server has another transport than the target.
    #[error("`{other}` is not of the transport of {target}")]
    OtherTransport {
        /// The fail-over server.
        other: String,
        /// The target.
        target: String,
    },
    /// The host has no address.
    #[error(transparent)]
    Host(#[from] netrig_host::TargetError),
    /// A file of users is invalid.
    #[error(transparent)]
    Users(#[from] UsersError),
    /// The host cannot be the name in a certificate.
    #[error("no certificate can be for `{0}`")]
    NoCertificate(String),
    /// A certificate or a key is unusable.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The server was not found in the DNS.
    #[error("where {uri} is: {error}")]
    Location {
        /// The URI that was looked up.
        uri: String,
        /// The error of the look-up.
        error: LocateError,
    },
    /// A file cannot be read.
    #[error("cannot read {}: {error}", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The error of reading it.
        error: UserFileError,
    },
    /// A file has invalid content.
    #[error("{}{why}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// The error, preceded by a colon, or by a line number between colons.
        why: String,
    },
    /// The environment variable with the password cannot be used.
    #[error("the password in `{name}`: {error}")]
    Password {
        /// The name of the variable.
        name: String,
        /// The error of reading it.
        error: std::env::VarError,
    },
}
