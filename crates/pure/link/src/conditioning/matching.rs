//! Classifiers of rules and classes: by behaviour aggregate, or by several fields (RFC 2475 section 2.3.1).

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use netrig_core::{Dscp, Header, Prefix, protocol, written, written_as_text};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::SettingsError;
use crate::error::ensure;

/// A classifier. A packet must match all given fields.
///
/// With `dscp` alone it is a classifier of behaviour aggregates, with other fields a multi-field classifier (RFC 2475 section
/// 2.3.1).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Match {
    /// The code point is one of these: a name such as `ef`, a number, or a list of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dscp: Option<DscpSet>,
    /// The source address is one of these: a node of the file, an address, or a prefix such as `10.0.0.0/8`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub src: Option<Hosts>,
    /// The destination address is one of these: a node of the file, an address, or a prefix.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dst: Option<Hosts>,
    /// The IP protocol: `tcp`, `udp`, `sctp`, or a number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<IpProtocol>,
    /// The source port: a number, or a range such as `5000-5009`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub src_port: Option<Ports>,
    /// The destination port: a number, or a range such as `5000-5009`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dst_port: Option<Ports>,
}

impl Match {
    /// All packets of these code points.
    pub fn dscp(code_points: impl IntoIterator<Item = Dscp>) -> Self {
        Self { dscp: Some(code_points.into_iter().collect()), ..Self::default() }
    }

    /// Whether all given fields match the packet.
    #[inline]
    pub fn holds(&self, header: &Header) -> bool {
        let flow = &header.flow;
        self.dscp.is_none_or(|set| set.contains(header.dscp))
            && self.protocol.is_none_or(|protocol| protocol.0 == flow.protocol)
            && self.src_port.is_none_or(|ports| ports.contains(flow.src_port))
            && self.dst_port.is_none_or(|ports| ports.contains(flow.dst_port))
            && self.src.as_ref().is_none_or(|hosts| hosts.contains(flow.src))
            && self.dst.as_ref().is_none_or(|hosts| hosts.contains(flow.dst))
    }

    /// Whether this classifier certainly matches all packets that `other` matches.
    pub fn covers(&self, other: &Self) -> bool {
        fn within<T>(whole: Option<&T>, part: Option<&T>, contains: impl Fn(&T, &T) -> bool) -> bool {
            whole.is_none_or(|whole| part.is_some_and(|part| contains(whole, part)))
        }
        within(self.dscp.as_ref(), other.dscp.as_ref(), |whole, part| part.0 & !whole.0 == 0)
            && within(self.protocol.as_ref(), other.protocol.as_ref(), |whole, part| whole == part)
            && within(self.src_port.as_ref(), other.src_port.as_ref(), Ports::covers)
            && within(self.dst_port.as_ref(), other.dst_port.as_ref(), Ports::covers)
            && within(self.src.as_ref(), other.src.as_ref(), Hosts::covers)
            && within(self.dst.as_ref(), other.dst.as_ref(), Hosts::covers)
    }

    /// The code points, or `None` if other fields are given too.
    pub fn only_dscp(&self) -> Option<DscpSet> {
        let only = Self { dscp: self.dscp, ..Self::default() };
        self.dscp.filter(|_| *self == only)
    }

    /// Checks the fields.
    pub(crate) fn check(&self) -> Result<(), SettingsError> {
        ensure(self.dscp != Some(DscpSet(0)), "dscp", "must name at least one code point")
    }

    /// Replaces names of nodes by their addresses.
    pub(crate) fn resolve(&mut self, addresses: &impl Fn(&str) -> Vec<IpAddr>) -> Result<(), SettingsError> {
        for (field, hosts) in [("src", &mut self.src), ("dst", &mut self.dst)] {
            let Some(Hosts::Node(name)) = hosts else { continue };
            let found = addresses(name);
            if found.is_empty() {
                return Err(SettingsError::new(field, format!("is `{name}`, which is {}", Hosts::UNKNOWN)));
            }
            *hosts = Some(Hosts::Prefixes(found.into_iter().map(Prefix::from).collect()));
        }
        Ok(())
    }

    /// Fails if an address is still given as the name of a node.
    pub(crate) fn check_resolved(&self) -> Result<(), SettingsError> {
        for (field, hosts) in [("src", &self.src), ("dst", &self.dst)] {
            if let Some(Hosts::Node(name)) = hosts {
                return Err(SettingsError::new(field, format!("is `{name}`, which is {}", Hosts::UNKNOWN)));
            }
        }
        Ok(())
    }
}

/// A set of code points.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DscpSet(u64);

impl DscpSet {
    /// Whether the set has this code point. Only its lower six bits count.
    #[inline]
    pub const fn contains(self, dscp: Dscp) -> bool {
        self.0 >> (dscp.0 & 63) & 1 == 1
    }

    /// The code points of the set, in ascending order.
    pub fn iter(self) -> impl Iterator<Item = Dscp> {
        (0..64).map(Dscp).filter(move |dscp| self.contains(*dscp))
    }
}

impl FromIterator<Dscp> for DscpSet {
    fn from_iter<I: IntoIterator<Item = Dscp>>(code_points: I) -> Self {
        Self(code_points.into_iter().fold(0, |set, dscp| set | 1 << (dscp.0 & 63)))
    }
}

impl Serialize for DscpSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let members: Vec<Dscp> = self.iter().collect();
        match members.as_slice() {
            [only] => only.serialize(serializer),
            several => several.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for DscpSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct DscpSetVisitor;
        impl<'de> de::Visitor<'de> for DscpSetVisitor {
            type Value = DscpSet;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a DiffServ code point such as `ef` or `46`, or a list of them")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<DscpSet, E> {
                text.parse::<Dscp>().map(|dscp| DscpSet::from_iter([dscp])).map_err(E::custom)
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<DscpSet, E> {
                self.visit_str(&number.to_string())
            }
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<DscpSet, E> {
                self.visit_str(&number.to_string())
            }
            fn visit_seq<A: de::SeqAccess<'de>>(self, mut seq: A) -> Result<DscpSet, A::Error> {
                let mut members = Vec::new();
                while let Some(dscp) = seq.next_element::<Dscp>()? {
                    members.push(dscp);
                }
                Ok(members.into_iter().collect())
            }
        }
        deserializer.deserialize_any(DscpSetVisitor)
    }
}

impl JsonSchema for DscpSet {
    fn schema_name() -> Cow<'static, str> {
        "DscpSet".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<Dscp>();
        json_schema!({ "anyOf": [one, { "type": "array", "items": one }] })
    }
}

/// The addresses that one end of a flow may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hosts {
    /// All interfaces of a node, whose addresses are not known yet.
    Node(String),
    /// Any of these prefixes.
    Prefixes(Vec<Prefix>),
}

impl Hosts {
    const UNKNOWN: &'static str =
        "neither an address, nor a prefix such as `10.0.0.0/8`, nor a node with a link";

    fn contains(&self, address: IpAddr) -> bool {
        match self {
            Self::Node(_) => false,
            Self::Prefixes(prefixes) => prefixes.iter().any(|prefix| prefix.contains(address)),
        }
    }
}

impl Hosts {
    /// Whether this certainly includes all addresses of `other`.
    fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Prefixes(whole), Self::Prefixes(part)) => {
                part.iter().all(|part| whole.iter().any(|whole| whole.covers(*part)))
            }
            _ => self == other,
        }
    }
}

impl Serialize for Hosts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Node(name) => serializer.serialize_str(name),
            Self::Prefixes(prefixes) => match prefixes.as_slice() {
                [only] => serializer.collect_str(only),
                several => serializer.collect_seq(several.iter().map(Prefix::to_string)),
            },
        }
    }
}

impl<'de> Deserialize<'de> for Hosts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct HostsVisitor;
        impl<'de> de::Visitor<'de> for HostsVisitor {
            type Value = Hosts;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a node, an address, a prefix such as `10.0.0.0/8`, or a list of prefixes")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Hosts, E> {
                match text.parse::<Prefix>() {
                    Ok(prefix) => Ok(Hosts::Prefixes(vec![prefix])),
                    Err(error) if text.contains(['/', ':']) => Err(E::custom(error)),
                    Err(_) => Ok(Hosts::Node(text.to_owned())),
                }
            }
            fn visit_seq<A: de::SeqAccess<'de>>(self, mut seq: A) -> Result<Hosts, A::Error> {
                let mut prefixes = Vec::new();
                while let Some(text) = seq.next_element::<String>()? {
                    prefixes.push(text.parse().map_err(de::Error::custom)?);
                }
                Ok(Hosts::Prefixes(prefixes))
            }
        }
        deserializer.deserialize_any(HostsVisitor)
    }
}

impl JsonSchema for Hosts {
    fn schema_name() -> Cow<'static, str> {
        "Hosts".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }],
            "description": "A node of the file, an address, a prefix, or a list of addresses and prefixes.",
            "examples": ["client", "10.0.0.0/8", ["10.0.0.0/8", "fd00::/8"]]
        })
    }
}

/// An IP protocol by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpProtocol(pub u8);

const PROTOCOLS: [(&str, u8); 3] = [("tcp", protocol::TCP), ("udp", protocol::UDP), ("sctp", protocol::SCTP)];

impl fmt::Display for IpProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match PROTOCOLS.iter().find(|(_, number)| *number == self.0) {
            Some((name, _)) => f.write_str(name),
            None => self.0.fmt(f),
        }
    }
}

impl FromStr for IpProtocol {
    type Err = NumberError;

    fn from_str(text: &str) -> Result<Self, NumberError> {
        let named = PROTOCOLS.iter().find(|(name, _)| *name == text).map(|(_, number)| *number);
        let wrong = |_| NumberError(text.to_owned(), Self::EXPECTED);
        Ok(Self(named.map_or_else(|| text.parse().map_err(wrong), Ok)?))
    }
}

/// A range of ports, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    /// The first port.
    pub first: u16,
    /// The last port, not below the first.
    pub last: u16,
}

impl Ports {
    /// Whether the range has this port.
    #[inline]
    pub const fn contains(self, port: u16) -> bool {
        self.first <= port && port <= self.last
    }

    fn covers(&self, other: &Self) -> bool {
        self.contains(other.first) && self.contains(other.last)
    }
}

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last { self.first.fmt(f) } else { write!(f, "{}-{}", self.first, self.last) }
    }
}

impl FromStr for Ports {
    type Err = NumberError;

    fn from_str(text: &str) -> Result<Self, NumberError> {
        let wrong = || NumberError(text.to_owned(), Self::EXPECTED);
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        match (first.parse(), last.parse()) {
            (Ok(first), Ok(last)) if first <= last => Ok(Self { first, last }),
            _ => Err(wrong()),
        }
    }
}

/// A text that is neither a protocol nor a range of ports.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not {1}")]
pub struct NumberError(String, &'static str);

impl IpProtocol {
    const EXPECTED: &'static str = "an IP protocol: `tcp`, `udp`, `sctp`, or a number up to 255";
}

impl Ports {
    const EXPECTED: &'static str = "a port, or a range such as `5000-5009`";
}

written_as_text!(IpProtocol, written::text_or_whole, Self::EXPECTED, "Protocol", {
    "type": ["string", "number"], "description": Self::EXPECTED, "examples": ["udp"]
});
written_as_text!(Ports, written::text_or_whole, Self::EXPECTED, "Ports", {
    "type": ["string", "number"], "description": Self::EXPECTED, "examples": ["5000-5009"]
});

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use netrig_core::{Ecn, FiveTuple};
    use serde_json::json;

    use super::*;

    fn header() -> Header {
        let flow = FiveTuple {
            src: [10, 1, 2, 3].into(),
            dst: [192, 0, 2, 1].into(),
            src_port: 4000,
            dst_port: 5001,
            protocol: protocol::UDP,
        };
        Header { flow, ip_len: 540, dscp: Dscp::EF, ecn: Ecn::NotEct }
    }

    fn read(value: serde_json::Value) -> Match {
        serde_json::from_value(value).unwrap()
    }

    /// Each field alone, with a value that matches the packet and a value that does not.
    #[test]
    fn all_fields_must_hold() {
        assert!(read(json!({})).holds(&header()));
        for (field, holds, fails) in [
            ("dscp", json!("ef"), json!("be")),
            ("dscp", json!(["af11", 46]), json!(["af11", "cs5"])),
            ("src", json!("10.0.0.0/8"), json!("10.2.0.0/16")),
            ("src", json!("10.1.2.3"), json!("10.1.2.2")),
            ("dst", json!("192.0.2.0/31"), json!("192.0.2.2/31")),
            ("dst", json!("0.0.0.0/0"), json!("::/0")),
            ("protocol", json!("udp"), json!("tcp")),
            ("protocol", json!(17), json!(1)),
            ("src_port", json!("3999-4000"), json!("4001-4002")),
            ("dst_port", json!(5001), json!(5000)),
        ] {
            assert!(read(json!({ field: holds })).holds(&header()), "{field} = {holds}");
            assert!(!read(json!({ field: fails })).holds(&header()), "{field} = {fails}");
            let both = read(json!({ "dscp": "ef", "protocol": "udp", field: fails }));
            assert!(!both.holds(&header()), "{field} = {fails}");
        }
    }

    /// For each field the wider value covers the narrower one, but not vice versa. A missing field is widest.
    #[test]
    fn the_wider_covers_the_narrower() {
        for (field, wide, narrow) in [
            ("dscp", json!(["ef", "af11"]), json!("ef")),
            ("src", json!("10.0.0.0/8"), json!("10.1.2.0/24")),
            ("dst", json!("0.0.0.0/0"), json!("192.0.2.1")),
            ("src_port", json!("1-9"), json!("2-9")),
            ("dst_port", json!("1-9"), json!(1)),
        ] {
            let [wide, narrow] = [wide, narrow].map(|value| read(json!({ field: value, "protocol": "udp" })));
            let bare = read(json!({ "protocol": "udp" }));
            for (whole, part) in [(&wide, &narrow), (&bare, &wide), (&Match::default(), &bare)] {
                assert!(whole.covers(part) && whole.covers(whole), "{whole:?} {part:?}");
                assert!(!part.covers(whole), "{whole:?} {part:?}");
            }
        }
        let [tcp, udp] = ["tcp", "udp"].map(|name| read(json!({ "protocol": name })));
        assert!(!tcp.covers(&udp) && !udp.covers(&tcp));
        let [v4, v6] = ["0.0.0.0/0", "fd00::/64"].map(|prefix| read(json!({ "src": prefix })));
        assert!(!v4.covers(&v6));
    }

    #[test]
    fn prefixes_of_ipv6() {
        let mut header = header();
        header.flow.src = IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 7, 0, 0, 0, 1));
        assert!(read(json!({ "src": "fd00:0:0:7::/64" })).holds(&header));
        assert!(!read(json!({ "src": "fd00:0:0:8::/64" })).holds(&header));
        assert!(!read(json!({ "src": "10.0.0.0/8" })).holds(&header));
    }

    #[test]
    fn what_is_written_reads_back() {
        let value = json!({
            "dscp": ["af11", "ef"], "src": "10.0.0.0/8", "dst": "server", "protocol": "sctp",
            "src_port": "5", "dst_port": "1-9",
        });
        assert_eq!(serde_json::to_value(read(value.clone())).unwrap(), value);
    }

    #[test]
    fn a_match_that_cannot_be_is_refused() {
        for (field, value, why) in [
            ("src", json!("10.0.0.1/8"), "no bits behind its length"),
            ("src", json!("10.0.0.0/33"), "not an address, nor a prefix"),
            ("dst_port", json!("9-1"), "not a port, or a range"),
            ("dst_port", json!(65_536), "not a port, or a range"),
            ("protocol", json!("icmp6"), "not an IP protocol"),
            ("dscp", json!("gold"), "not a DiffServ code point"),
            ("vlan", json!(1), "unknown field `vlan`"),
        ] {
            let error = serde_json::from_value::<Match>(json!({ field: value })).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        assert_eq!(read(json!({ "dscp": [] })).check().unwrap_err().field, "dscp");
    }

    #[test]
    fn a_node_is_all_its_addresses() {
        let mut rule = read(json!({ "src": "client" }));
        assert!(rule.check_resolved().is_err() && !rule.holds(&header()));
        let unknown = rule.clone().resolve(&|_| Vec::new()).unwrap_err().to_string();
        assert!(unknown.starts_with("`src` is `client`, which is neither an address"), "{unknown}");
        rule.resolve(&|_| vec![[10, 9, 9, 9].into(), [10, 1, 2, 3].into()]).unwrap();
        assert!(rule.check_resolved().is_ok() && rule.holds(&header()));
    }

    #[test]
    fn only_code_points_make_a_behaviour_aggregate() {
        assert!(read(json!({ "dscp": "ef" })).only_dscp().is_some());
        assert!(read(json!({ "dscp": "ef", "src_port": 1 })).only_dscp().is_none());
        assert!(read(json!({})).only_dscp().is_none());
    }
}
