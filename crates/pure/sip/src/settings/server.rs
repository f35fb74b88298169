//! The settings of a SIP server in an experiment file.

use std::borrow::Cow;
use std::fmt;

use netrig_core::{Duration, choices, settings};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::drawn_time::DrawnTime;
use super::error::{SettingError, wrong};
use crate::digest::Algorithm;

/// The server of a load.
#[derive(Clone, Debug, PartialEq)]
pub enum Serving {
    /// Another server at that address: a program of the node, or the server of another flow.
    Program,
    /// A server of netrig.
    Own(ServerSettings),
}

settings! {
    /// A server of netrig.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    pub struct ServerSettings {
        /// Role of the server.
        role: ServerRole;
        /// For a proxy: whether it stays in the signalling path of the users' calls (Record-Route).
        record_route: bool [default] {};
        /// Digest algorithm with which users authenticate, by the `password` of the load.
        digest: Option<Digest> [default, skip_serializing_if = "Option::is_none"] { heading: USERS };
        /// Contact of users without a registration, with `{user}` for the name: `sip:{user}@10.0.0.2:5080`.
        contact: Option<String> [default, skip_serializing_if = "Option::is_none"] {
            heading: USERS,
            value_name: "URI",
        };
        /// Delay of each response.
        delay: Option<DrawnTime> [default, skip_serializing_if = "Option::is_none"] {};
        /// For a user agent: how long it rings before it answers.
        ring: Option<Duration> [default, skip_serializing_if = "Option::is_none"] { heading: CALLS };
        /// For a user agent: whether it sends a 183 with a session description before it answers.
        early_media: bool [default] { heading: CALLS };
        /// For a user agent: whether its provisional responses are reliable (RFC 3262), if the caller supports it.
        reliable: bool [default] { heading: CALLS };
        /// For a user agent: a status from 300 to 699 with which it refuses calls.
        refuse: Option<u16> [default, skip_serializing_if = "Option::is_none"] {
            heading: CALLS,
            value_name: "STATUS",
        };
        /// Maximum number of concurrent transactions. Further requests are refused with 503.
        max_transactions: u32 [default = "max_transactions"] { heading: TRANSACTIONS };
    }
}

/// Headings of help texts.
const USERS: &str = "Users";
const CALLS: &str = "Calls";
const TRANSACTIONS: &str = "Transactions";

fn max_transactions() -> u32 {
    1_000_000
}

choices! {
    /// Role of a server.
    pub enum ServerRole {
        /// Accepts registrations.
        Registrar = "registrar",
        /// Accepts registrations, forwards requests to users, and keeps transaction state.
        Proxy = "proxy",
        /// Forwards requests to users at given contacts, without state.
        StatelessProxy = "stateless-proxy",
        /// Accepts registrations, and redirects requests to users.
        Redirect = "redirect",
        /// Answers calls to any user.
        Uas = "uas",
    }
}

choices! {
    /// A digest algorithm.
    pub enum Digest {
        /// MD5 (RFC 7616).
        Md5 = "md5",
        /// SHA-256 (RFC 8760).
        Sha256 = "sha-256",
    }
}

impl From<Digest> for Algorithm {
    fn from(digest: Digest) -> Self {
        match digest {
            Digest::Md5 => Self::MD5,
            Digest::Sha256 => Self::SHA_256,
        }
    }
}

impl Serving {
    /// The settings of a server of netrig.
    pub const fn own(&self) -> Option<&ServerSettings> {
        match self {
            Self::Own(own) => Some(own),
            Self::Program => None,
        }
    }
}

impl ServerRole {
    /// Whether servers of this role have the setting.
    pub fn has(self, key: &str) -> bool {
        match key {
            "record_route" => self == Self::Proxy,
            // The others do not authenticate users.
            "digest" => !matches!(self, Self::Uas | Self::StatelessProxy),
            "contact" => !matches!(self, Self::Uas | Self::Registrar),
            // A proxy forwards the responses of others.
            "delay" => !matches!(self, Self::Proxy | Self::StatelessProxy),
            "ring" | "refuse" | "early_media" | "reliable" => self == Self::Uas,
            "max_transactions" => self != Self::StatelessProxy,
            _ => true,
        }
    }
}

impl ServerSettings {
    /// The defaults of a server of this role.
    pub fn of(role: ServerRole) -> Self {
        Self {
            role,
            record_route: false,
            digest: None,
            contact: None,
            delay: None,
            ring: None,
            early_media: false,
            reliable: false,
            refuse: None,
            max_transactions: max_transactions(),
        }
    }

    /// Checks all values.
    ///
    /// # Errors
    /// The first invalid key, after `server.`.
    pub fn check(&self) -> Result<(), SettingError> {
        let wrongly = |key: &str, is_given: bool| is_given && !self.role.has(key);
        let given = [
            ("server.record_route", self.record_route, "only a proxy stays in the path of calls"),
            ("server.digest", self.digest.is_some(), "this server does not authenticate users"),
            ("server.contact", self.contact.is_some(), "this server neither forwards nor redirects requests"),
            ("server.ring", self.ring.is_some(), "only a `uas` answers calls itself"),
            ("server.refuse", self.refuse.is_some(), "only a `uas` answers calls itself"),
            ("server.early_media", self.early_media, "only a `uas` answers calls itself"),
            ("server.reliable", self.reliable, "only a `uas` answers calls itself"),
            (
                "server.delay",
                self.delay.is_some(),
                "a proxy forwards the responses of others and cannot delay them",
            ),
        ];
        let found = given
            .into_iter()
            .find(|(field, is_given, _)| wrongly(field.strip_prefix("server.").unwrap_or(field), *is_given));
        if let Some((field, _, why)) = found {
            return wrong(field, why);
        }
        if self.refuse.is_some_and(|status| !(300..700).contains(&status)) {
            return wrong("server.refuse", "a refusal has a status from 300 to 699");
        }
        if let Some(Err(error)) = self.delay.as_ref().map(DrawnTime::check) {
            return wrong("server.delay", error.to_string());
        }
        if self.max_transactions == 0 {
            return wrong("server.max_transactions", "it must be above zero");
        }
        Ok(())
    }
}

impl Serialize for Serving {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Program => serializer.serialize_str("program"),
            Self::Own(own) => own.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Serving {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ServingVisitor;
        impl<'de> de::Visitor<'de> for ServingVisitor {
            type Value = Serving;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`\"program\"`, or a server such as `{ role = \"registrar\" }`")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Serving, E> {
                if text == "program" {
                    Ok(Serving::Program)
                } else {
                    Err(E::invalid_value(de::Unexpected::Str(text), &self))
                }
            }
            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Serving, A::Error> {
                ServerSettings::deserialize(de::value::MapAccessDeserializer::new(map)).map(Serving::Own)
            }
        }
        deserializer.deserialize_any(ServingVisitor)
    }
}

impl JsonSchema for Serving {
    fn schema_name() -> Cow<'static, str> {
        "Serving".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "The server of the users: a server of netrig, or `program` for another server at that address.",
            "anyOf": [{ "const": "program" }, generator.subschema_for::<ServerSettings>()]
        })
    }
}
