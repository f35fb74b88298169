//! The capabilities of a server, claimed or shown, which select the purposes.

use std::collections::BTreeMap;

use netrig_sip::settings::TestedRole;
use serde::{Deserialize, Serialize};

/// A capability of the static review.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct CapabilityRow {
    /// Its name in capability files.
    pub name: Capability,
    /// Whether each server of the role must have it.
    pub mandatory: bool,
    /// Whether it is claimed; absent if the capability file leaves it open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claimed: Option<bool>,
    /// Whether the server showed it; absent if it was not tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown: Option<bool>,
    /// Why it was not shown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
}

/// A table of capabilities: meaning, name in files, whether the roles must have it, and the roles.
macro_rules! capabilities {
    ($($(#[doc = $doc:literal])+ $name:ident $text:literal $status:ident [$($role:ident),+];)+) => {
        /// A feature that a server offers, or is configured for.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
        pub enum Capability {
            $($(#[doc = $doc])+ #[serde(rename = $text)] $name,)+
        }

        impl Capability {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// The name in files and reports.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)+ }
            }

            /// The meaning, in a sentence.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$name => concat!($($doc),+).trim_ascii(),)+ }
            }

            /// Roles that may have it.
            pub const fn roles(self) -> &'static [TestedRole] {
                match self { $(Self::$name => &[$(TestedRole::$role),+],)+ }
            }

            /// Whether each server of its roles must have it because RFC 3261 requires it.
            pub const fn is_mandatory(self) -> bool {
                match self { $(Self::$name => capabilities!(@ $status),)+ }
            }
        }
    };
    (@ mandatory) => { true };
    (@ optional) => { false };
}

capabilities! {
    /// It accepts registrations of the users.
    Registration "registration" mandatory [Registrar];
    /// It asks for credentials before it accepts a registration (401).
    RegistrationDigest "registration-digest" optional [Registrar];
    /// It keeps several bindings of one address of record.
    SeveralContacts "several-contacts" optional [Registrar, Redirect, Proxy];
    /// It refuses an expiration that is too short (423).
    MinExpires "min-expires" optional [Registrar];
    /// It forwards requests for a registered user to the user's contact.
    Forwarding "forwarding" mandatory [Proxy];
    /// It asks for credentials before it forwards a request (407).
    ProxyDigest "proxy-digest" optional [Proxy];
    /// It keeps transactions: it answers 100 to an INVITE, and absorbs retransmissions.
    Transactions "transactions" optional [Proxy];
    /// It stays in the path of a dialog (Record-Route).
    RecordRoute "record-route" optional [Proxy];
    /// It forwards a request to all contacts of a user at once.
    Forking "forking" optional [Proxy];
    /// It looks up the hosts of contacts in the DNS (RFC 3263), with the tester as its resolver (`--dns-listen`).
    Dns "dns" optional [Proxy];
    /// It answers a request for a registered user with the user's contacts (302).
    Redirection "redirection" mandatory [Redirect];
    /// It answers calls.
    Answering "answering" mandatory [Uas];
    /// It rings before it answers, at least for 200 ms.
    Ringing "ringing" optional [Uas];
    /// It sends provisional responses reliably (RFC 3262).
    ReliableProvisional "100rel" optional [Uas];
    /// It keeps session timers (RFC 4028).
    SessionTimer "session-timer" optional [Uas];
    /// It accepts UPDATE (RFC 3311).
    Update "update" optional [Uas];
    /// It accepts a new offer within a call (re-INVITE).
    Reinvite "re-invite" optional [Uas];
}

/// Why a capability file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CapabilityError {
    /// The file is not TOML, or has another form.
    #[error(transparent)]
    Form(#[from] toml::de::Error),
    /// The name of a capability is unknown.
    #[error("there is no capability \"{0}\"; there are: {1}")]
    Unknown(String, String),
}

/// For each capability, whether the server claims it. If a capability is absent, the tester tries it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CapabilityClaims(BTreeMap<Capability, bool>);

impl CapabilityClaims {
    /// Reads a file: `name = true` or `name = false` on each line.
    ///
    /// # Errors
    /// If the text has another form, or the name of a capability is unknown.
    pub fn parse(text: &str) -> Result<Self, CapabilityError> {
        let read: BTreeMap<String, bool> = toml::from_str(text)?;
        let named = |(name, claimed): (String, bool)| {
            let known = Capability::ALL.iter().find(|known| known.name() == name);
            let names = || Capability::ALL.iter().map(|known| known.name()).collect::<Vec<_>>().join(", ");
            let known = known.ok_or_else(|| CapabilityError::Unknown(name, names()))?;
            Ok((*known, claimed))
        };
        read.into_iter().map(named).collect::<Result<_, _>>().map(Self)
    }

    /// Whether a capability is claimed; `None` if the file leaves it open.
    pub fn claimed(&self, capability: Capability) -> Option<bool> {
        self.0.get(&capability).copied()
    }

    /// A file that leaves all capabilities of a role open, to be filled in.
    pub fn template(role: TestedRole) -> String {
        let of_role = Capability::ALL.iter().filter(|capability| capability.roles().contains(&role));
        let lines = of_role.map(|capability| {
            let status = if capability.is_mandatory() { "mandatory" } else { "optional" };
            format!("# {} ({status})\n# {} = true\n", capability.meaning(), capability.name())
        });
        format!(
            "# Capabilities that the server claims as {}. The tester tries those that are left out.\n{}",
            role.name(),
            lines.collect::<String>()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_of_capabilities_names_each() {
        let claims = CapabilityClaims::parse("forking = false\nregistration = true\n").unwrap();
        assert_eq!(claims.claimed(Capability::Forking), Some(false));
        assert_eq!(claims.claimed(Capability::Registration), Some(true));
        assert_eq!(claims.claimed(Capability::RecordRoute), None);
        let error = CapabilityClaims::parse("forkin = true").unwrap_err().to_string();
        assert!(error.starts_with("there is no capability \"forkin\"; there are: registration, "), "{error}");
        assert!(CapabilityClaims::parse("forking = 1").unwrap_err().to_string().contains("line 1"));
        for &role in TestedRole::ALL {
            assert_eq!(
                CapabilityClaims::parse(&CapabilityClaims::template(role)).unwrap(),
                CapabilityClaims::default()
            );
            let answered = CapabilityClaims::template(role).replace("# ", "").lines().count();
            assert!(answered > 2);
        }
    }
}
