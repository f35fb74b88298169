//! The settings of a SIP server in an experiment file.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;

use netrig_core::{Duration, Seeds};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::drawn_time::DrawnTime;
use super::{SettingError, wrong};
use crate::digest::Algorithm;
use crate::load::Plan;
use crate::sdp::DISCARD;
use crate::server::{Answer, AnsweringPolicy, ProgressResponse, Role, ServerOrder, User};
use crate::{Status, Uri};

/// The server of a load.
#[derive(Clone, Debug, PartialEq)]
pub enum Serving {
    /// Another server at that address: a program of the node, or the server of another flow.
    Program,
    /// A server of netrig.
    Own(ServerSettings),
}

/// A server of netrig.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServerSettings {
    /// Role of the server.
    pub role: ServerRole,
    /// For a proxy: whether it stays in the path of the calls of these users.
    #[serde(default)]
    pub record_route: bool,
    /// Digest algorithm with which users authenticate, by the `password` of the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    /// Contact of users without a registration, with `{user}` for the name: `sip:{user}@10.0.0.2:5080`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contact: Option<String>,
    /// Delay of each response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<DrawnTime>,
    /// For a user agent: how long it rings before it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ring: Option<Duration>,
    /// For a user agent: whether it sends a 183 with a session description before it answers.
    #[serde(default)]
    pub early_media: bool,
    /// For a user agent: whether its provisional responses are reliable (RFC 3262), if the caller supports it.
    #[serde(default)]
    pub reliable: bool,
    /// For a user agent: a status from 300 to 699 with which it refuses calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refuse: Option<u16>,
    /// The most concurrent transactions. Further requests are refused with 503.
    #[serde(default = "max_transactions")]
    pub max_transactions: u32,
}

fn max_transactions() -> u32 {
    1_000_000
}

/// Role of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ServerRole {
    /// Accepts registrations.
    Registrar,
    /// Accepts registrations, and forwards requests to users with state of its transactions.
    Proxy,
    /// Forwards requests to users at given contacts, without state.
    StatelessProxy,
    /// Accepts registrations, and redirects requests to users.
    Redirect,
    /// Answers calls to any user.
    Uas,
}

/// A digest algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Digest {
    /// MD5 (RFC 7616).
    Md5,
    /// SHA-256 (RFC 8760).
    #[serde(rename = "sha-256")]
    Sha256,
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

impl ServerSettings {
    /// The server for the users of `plan`, at this address.
    pub fn order(&self, plan: &Plan, local: IpAddr, seeds: Seeds) -> ServerOrder {
        let all = u64::from(plan.users) * 2 + u64::from(plan.population);
        let all = u32::try_from(all).unwrap_or(u32::MAX);
        // Any user is accepted, unless users have passwords or contacts.
        let named = self.digest.is_some() || self.contact.is_some();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let user = |number| User {
            name: text(plan.names.of(number).as_bytes()),
            password: text(plan.passwords.of(number).as_bytes()),
            contact: None,
        };
        let domain = plan.domain.as_ref().and_then(|name| format!("sip:{name}").parse::<Uri>().ok());
        let domain = domain.and_then(|uri| Some(uri.as_sip()?.host.clone()));
        ServerOrder {
            role: self.role(local),
            domains: domain.into_iter().collect(),
            users: named.then(|| (0..all).map(user).collect()),
            contact: self.contact.clone(),
            digest: self.digest.map(Algorithm::from),
            realm: None,
            most_transactions: self.max_transactions as usize,
            most_users: all as usize,
            timing: plan.timing,
            seeds,
        }
    }

    fn role(&self, local: IpAddr) -> Role {
        match self.role {
            ServerRole::Registrar => Role::Registrar,
            ServerRole::Proxy => Role::Proxy { record_route: self.record_route },
            ServerRole::StatelessProxy => Role::StatelessProxy,
            ServerRole::Redirect => Role::Redirect,
            ServerRole::Uas => {
                let ring = self.ring.unwrap_or_default();
                let answer = match self.refuse.and_then(Status::new) {
                    Some(status) => Answer::Refuse(ring, status),
                    None => Answer::Accept(ring),
                };
                let own = AnsweringPolicy::new((local, DISCARD).into());
                let mut manners = AnsweringPolicy { answer, reliable: self.reliable, ..own };
                if self.early_media {
                    manners.progress.push(ProgressResponse::early_media());
                }
                Role::UserAgent(manners)
            }
        }
    }

    pub(super) fn check(&self) -> Result<(), SettingError> {
        let is = |role: ServerRole| self.role == role;
        if self.record_route && !is(ServerRole::Proxy) {
            return wrong("server.record_route", "only a proxy stays in the path of calls");
        }
        if self.digest.is_some() && (is(ServerRole::Uas) || is(ServerRole::StatelessProxy)) {
            return wrong("server.digest", "this server does not authenticate users");
        }
        if self.contact.is_some() && (is(ServerRole::Uas) || is(ServerRole::Registrar)) {
            return wrong("server.contact", "this server neither forwards nor redirects requests");
        }
        let of_a_uas = [
            ("server.ring", self.ring.is_some()),
            ("server.refuse", self.refuse.is_some()),
            ("server.early_media", self.early_media),
            ("server.reliable", self.reliable),
        ];
        if let Some((field, _)) = of_a_uas.into_iter().find(|(_, given)| *given && !is(ServerRole::Uas)) {
            return wrong(field, "only a `uas` answers calls itself");
        }
        if self.refuse.is_some_and(|status| !(300..700).contains(&status)) {
            return wrong("server.refuse", "a refusal has a status from 300 to 699");
        }
        if self.delay.is_some() && (is(ServerRole::Proxy) || is(ServerRole::StatelessProxy)) {
            return wrong("server.delay", "a proxy forwards the responses of others and cannot delay them");
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
