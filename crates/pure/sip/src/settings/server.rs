//! A SIP server, as an experiment file says it.

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
use crate::server::{Answer, Manners, Progress, Role, ServerOrder, User};
use crate::{Status, Uri};

/// Who serves the users of a load.
#[derive(Clone, Debug, PartialEq)]
pub enum Serving {
    /// Somebody else who listens there: a program of the node, or the server of another flow.
    Program,
    /// A server of netrig's.
    Own(ServerSettings),
}

/// A server of netrig's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServerSettings {
    /// What it does.
    pub role: ServerRole,
    /// Of a proxy: whether it stays in the way of the calls that begin here.
    #[serde(default)]
    pub record_route: bool,
    /// Users prove who they are, by the `password` of the load hashed so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    /// Where users are without having registered, with `{user}` for the name: `sip:{user}@10.0.0.2:5080`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contact: Option<String>,
    /// How long each response is kept back before it is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<DrawnTime>,
    /// Of a user agent: how long it rings before it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ring: Option<Duration>,
    /// Of a user agent: whether it sends a session description with a 183 before it answers.
    #[serde(default)]
    pub early_media: bool,
    /// Of a user agent: whether its provisional responses are to be acknowledged (RFC 3262), where the caller can.
    #[serde(default)]
    pub reliable: bool,
    /// Of a user agent: the status with which it refuses calls, from 300 to 699, in the place of an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refuse: Option<u16>,
    /// Transactions that it remembers at once; beyond that it answers with 503.
    #[serde(default = "max_transactions")]
    pub max_transactions: u32,
}

fn max_transactions() -> u32 {
    1_000_000
}

/// What a server does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ServerRole {
    /// Takes registrations.
    Registrar,
    /// Takes registrations, and forwards to the users; it remembers its transactions.
    Proxy,
    /// Forwards to users whose addresses it is told, and remembers nothing.
    StatelessProxy,
    /// Takes registrations, and says where users are.
    Redirect,
    /// Answers calls for whoever is called.
    Uas,
}

/// How passwords are hashed.
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
    /// The server, if it is one of netrig's.
    pub const fn own(&self) -> Option<&ServerSettings> {
        match self {
            Self::Own(own) => Some(own),
            Self::Program => None,
        }
    }
}

impl ServerSettings {
    /// The server of the users of `plan`, at this address.
    pub fn order(&self, plan: &Plan, local: IpAddr, seeds: Seeds) -> ServerOrder {
        let all = u64::from(plan.users) * 2 + u64::from(plan.population);
        let all = u32::try_from(all).unwrap_or(u32::MAX);
        // Anybody who comes is a user, unless they have passwords or places.
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
                let own = Manners::new((local, DISCARD).into());
                let mut manners = Manners { answer, reliable: self.reliable, ..own };
                if self.early_media {
                    manners.progress.push(Progress::early_media());
                }
                Role::UserAgent(manners)
            }
        }
    }

    pub(super) fn check(&self) -> Result<(), SettingError> {
        let is = |role: ServerRole| self.role == role;
        if self.record_route && !is(ServerRole::Proxy) {
            return wrong("server.record_route", "only a proxy stays in the way of calls");
        }
        if self.digest.is_some() && (is(ServerRole::Uas) || is(ServerRole::StatelessProxy)) {
            return wrong("server.digest", "this server asks nobody who they are");
        }
        if self.contact.is_some() && (is(ServerRole::Uas) || is(ServerRole::Registrar)) {
            return wrong("server.contact", "this server sends nobody to its users");
        }
        let of_a_uas = [
            ("server.ring", self.ring.is_some()),
            ("server.refuse", self.refuse.is_some()),
            ("server.early_media", self.early_media),
            ("server.reliable", self.reliable),
        ];
        if let Some((field, _)) = of_a_uas.into_iter().find(|(_, given)| *given && !is(ServerRole::Uas)) {
            return wrong(field, "only a `uas` is called itself");
        }
        if self.refuse.is_some_and(|status| !(300..700).contains(&status)) {
            return wrong("server.refuse", "a refusal has a status from 300 to 699");
        }
        if self.delay.is_some() && (is(ServerRole::Proxy) || is(ServerRole::StatelessProxy)) {
            return wrong("server.delay", "a proxy's responses are those of others: they are not kept back");
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
            "description": "Who serves the users: a server of netrig's, or `program` for somebody else who listens there.",
            "anyOf": [{ "const": "program" }, generator.subschema_for::<ServerSettings>()]
        })
    }
}
