//! Messages of the DNS (RFC 1035 section 4), read and written by `hickory-proto`.

use std::collections::BTreeSet;
use std::net::IpAddr;

use hickory_proto::op::{Edns, Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::rdata::{NAPTR, SOA, SRV};
use hickory_proto::rr::{DNSClass, Name, RData, Record, RecordType};
use netrig_sip::load::Unlocated;
use netrig_sip::location::{Kind, Naptr, Question, Records, Srv, Zone, ZoneAnswer};

/// The longest response that a query requests over UDP, bytes. It is not fragmented on usual paths (DNS flag day 2020).
pub const PAYLOAD: u16 = 1232;

/// The longest response over UDP to a client without EDNS, bytes (RFC 1035 section 4.2.1).
const SHORT: usize = 512;

/// Length of a header, bytes.
const HEADER: usize = 12;

/// Longest chain of aliases in a response.
const MOST_ALIASES: usize = 8;

/// Longest time to cache a response, s: a week (RFC 8767 section 4).
const LONGEST: u32 = 604_800;

/// The result of reading a message as the response to a pending query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading {
    /// It does not answer the query.
    Foreign,
    /// It is truncated: the query must be repeated over TCP.
    Truncated,
    /// The queried name is an alias of this name. The message has no records of this name, so they must be queried.
    Alias(String),
    /// Records, and how long they may be cached, s.
    Records(Records, u32),
    /// There are no records. The number is how long this result may be cached, s; 0 without an SOA record (RFC 2308).
    Nothing(u32),
    /// The query failed.
    Failed(Unlocated),
}

/// A query in wire format; `None` if the name is invalid.
pub fn query(id: u16, question: &Question) -> Option<Vec<u8>> {
    let mut message = Message::new(id, MessageType::Query, OpCode::Query);
    message.metadata.recursion_desired = true;
    message.add_query(Query::query(name(&question.name)?, type_of(question.kind)));
    let mut edns = Edns::new();
    edns.set_max_payload(PAYLOAD);
    message.set_edns(edns);
    message.to_vec().ok()
}

/// Reads a message as the response to a query with this ID.
pub fn read(bytes: &[u8], id: u16, question: &Question) -> Reading {
    // A response must have the ID and the question of the query, and come from the queried address (RFC 5452 section
    // 9.1).
    if bytes.len() < HEADER || bytes[..2] != id.to_be_bytes() || bytes[2] & 0x80 == 0 {
        return Reading::Foreign;
    }
    let Ok(message) = Message::from_vec(bytes) else { return Reading::Failed(Unlocated::Malformed) };
    let Some(asked) = name(&question.name) else { return Reading::Foreign };
    let kind = type_of(question.kind);
    let is_own = |query: &Query| {
        query.name().eq_ignore_root(&asked)
            && query.query_type() == kind
            && query.query_class() == DNSClass::IN
    };
    let code = message.metadata.response_code;
    match message.queries.as_slice() {
        [query] if is_own(query) => {}
        // A server that cannot parse a query does not include the question in its response.
        [] if code != ResponseCode::NoError => {}
        _ => return Reading::Foreign,
    }
    match code {
        ResponseCode::NoError if message.metadata.truncation => Reading::Truncated,
        ResponseCode::NoError => records(&message, asked, question.kind),
        ResponseCode::NXDomain => Reading::Nothing(absence(&message)),
        _ => Reading::Failed(Unlocated::Refused),
    }
}

/// The records of a response for a name, or for the last name in its chain of aliases.
fn records(message: &Message, asked: Name, kind: Kind) -> Reading {
    let of =
        |name: &Name, record: &&Record| record.dns_class == DNSClass::IN && record.name.eq_ignore_root(name);
    let (mut name, mut ttl) = (asked, LONGEST);
    let mut known = BTreeSet::new();
    loop {
        let own = message.answers.iter().filter(|record| of(&name, record));
        let found: Vec<&Record> =
            own.clone().filter(|record| record.record_type() == type_of(kind)).collect();
        if !found.is_empty() {
            let ttl = found.iter().map(|record| kept(record.ttl)).min().unwrap_or(0).min(ttl);
            return Reading::Records(collected(kind, &found), ttl);
        }
        let alias = own.clone().find_map(|record| match &record.data {
            RData::CNAME(alias) => Some((&alias.0, record.ttl)),
            _ => None,
        });
        match alias {
            Some(_) if known.len() >= MOST_ALIASES || !known.insert(name.to_lowercase()) => {
                return Reading::Failed(Unlocated::Malformed);
            }
            Some((alias, least)) => (name, ttl) = (alias.clone(), ttl.min(kept(least))),
            None if known.is_empty() => return Reading::Nothing(absence(message)),
            // A response with an SOA record is a negative response, so no further query is needed (RFC 2308 section
            // 2.2).
            None if message.authorities.iter().any(|record| matches!(record.data, RData::SOA(_))) => {
                return Reading::Nothing(absence(message).min(ttl));
            }
            None => return Reading::Alias(name.to_ascii()),
        }
    }
}

fn collected(kind: Kind, found: &[&Record]) -> Records {
    let data = found.iter().map(|record| &record.data);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match kind {
        Kind::Naptr => Records::Naptr(
            data.filter_map(|data| match data {
                RData::NAPTR(naptr) => Some(Naptr {
                    order: naptr.order,
                    preference: naptr.preference,
                    flags: text(&naptr.flags),
                    service: text(&naptr.services),
                    regexp: text(&naptr.regexp),
                    replacement: naptr.replacement.to_ascii(),
                }),
                _ => None,
            })
            .collect(),
        ),
        Kind::Srv => Records::Srv(
            data.filter_map(|data| match data {
                RData::SRV(SRV { priority, weight, port, target, .. }) => {
                    Some(Srv { priority: *priority, weight: *weight, port: *port, target: target.to_ascii() })
                }
                _ => None,
            })
            .collect(),
        ),
        Kind::A | Kind::Aaaa => Records::Addresses(
            data.filter_map(|data| match data {
                RData::A(address) => Some(IpAddr::V4(address.0)),
                RData::AAAA(address) => Some(IpAddr::V6(address.0)),
                _ => None,
            })
            .collect(),
        ),
    }
}

/// "Implementations should treat TTL values received with the most significant bit set as if the entire value received
/// was zero." (RFC 2181 section 8)
fn kept(ttl: u32) -> u32 {
    if ttl > i32::MAX as u32 { 0 } else { ttl.min(LONGEST) }
}

/// "the minimum of the MINIMUM field of the SOA record and the TTL of the SOA itself" (RFC 2308 section 3).
fn absence(message: &Message) -> u32 {
    let soa = message.authorities.iter().find_map(|record| match &record.data {
        RData::SOA(soa) => Some(kept(record.ttl).min(kept(soa.minimum))),
        _ => None,
    });
    soa.unwrap_or(0)
}

/// A zone's response to a query, truncated if it is too long for UDP; `None` if the message is no query.
pub fn answer(bytes: &[u8], zone: &Zone, over_udp: bool) -> Option<Vec<u8>> {
    answer_within(bytes, zone, over_udp, usize::MAX)
}

/// As [`answer`]. A response over UDP of more than `bound` bytes is truncated, with the bit TC; `None` if even that is
/// longer.
pub fn answer_within(bytes: &[u8], zone: &Zone, over_udp: bool, bound: usize) -> Option<Vec<u8>> {
    // A response to a response could cause an endless loop.
    if bytes.len() < HEADER || bytes[2] & 0x80 != 0 {
        return None;
    }
    let Ok(request) = Message::from_vec(bytes) else {
        let id = u16::from_be_bytes([bytes[0], bytes[1]]);
        return Message::error_msg(id, OpCode::Query, ResponseCode::FormErr).to_vec().ok();
    };
    let mut response = Message::response(request.metadata.id, request.metadata.op_code);
    response.metadata.recursion_desired = request.metadata.recursion_desired;
    response.metadata.authoritative = true;
    // Only a message with a single question is answered. The response includes the question.
    if let [query] = request.queries.as_slice() {
        response.add_query(query.clone());
    }
    if request.edns.is_some() {
        let mut edns = Edns::new();
        edns.set_max_payload(PAYLOAD);
        response.set_edns(edns);
    }
    response.metadata.response_code = fill(&mut response, &request, zone);
    let whole = response.to_vec().ok()?;
    let most = request.edns.as_ref().map_or(SHORT, |edns| usize::from(edns.max_payload()).max(SHORT));
    if !over_udp || whole.len() <= most.min(usize::from(PAYLOAD)).min(bound) {
        return Some(whole);
    }
    response.truncate().to_vec().ok().filter(|cut| cut.len() <= bound)
}

/// The question of a message, if it has exactly one, for a type of records that a zone can have.
pub fn asked(bytes: &[u8]) -> Option<Question> {
    let message = Message::from_vec(bytes).ok()?;
    let [query] = message.queries.as_slice() else { return None };
    let kind = kind_of(query.query_type())?;
    Some(Question { kind, name: query.name().to_ascii() })
}

/// Puts the records of a zone into a response.
fn fill(response: &mut Message, request: &Message, zone: &Zone) -> ResponseCode {
    let [query] = request.queries.as_slice() else { return ResponseCode::FormErr };
    if request.metadata.op_code != OpCode::Query {
        return ResponseCode::NotImp;
    }
    let kind = kind_of(query.query_type());
    let has_kind = kind.is_some() && query.query_class() == DNSClass::IN;
    // The zone has no records of an unknown type. The query for A records shows whether the name exists.
    let kind = kind.unwrap_or(Kind::A);
    let question = Question { kind, name: query.name().to_ascii() };
    let owner = query.name().clone();
    match zone.answer(&question) {
        ZoneAnswer::Records(records, ttl) if has_kind => {
            let data = written(records).into_iter();
            response.add_answers(data.map(|data| Record::from_rdata(owner.clone(), ttl, data)));
            ResponseCode::NoError
        }
        found => {
            let ttl = zone.absence();
            let soa = SOA::new(Name::root(), Name::root(), 1, 3600, 600, 86_400, ttl);
            response.add_authority(Record::from_rdata(owner, ttl, RData::SOA(soa)));
            match found {
                ZoneAnswer::NoSuchName => ResponseCode::NXDomain,
                _ => ResponseCode::NoError,
            }
        }
    }
}

fn written(records: &Records) -> Vec<RData> {
    let bytes = |text: &str| text.as_bytes().into();
    match records {
        Records::Naptr(all) => all
            .iter()
            .filter_map(|naptr| {
                Some(RData::NAPTR(NAPTR::new(
                    naptr.order,
                    naptr.preference,
                    bytes(&naptr.flags),
                    bytes(&naptr.service),
                    bytes(&naptr.regexp),
                    name(&naptr.replacement)?,
                )))
            })
            .collect(),
        Records::Srv(all) => all
            .iter()
            .filter_map(|srv| {
                Some(RData::SRV(SRV::new(srv.priority, srv.weight, srv.port, name(&srv.target)?)))
            })
            .collect(),
        Records::Addresses(all) => all.iter().map(|address| RData::from(*address)).collect(),
    }
}

/// A fully qualified name.
fn name(text: &str) -> Option<Name> {
    let mut name = Name::from_ascii(text).ok()?;
    name.set_fqdn(true);
    Some(name)
}

const fn kind_of(record: RecordType) -> Option<Kind> {
    match record {
        RecordType::NAPTR => Some(Kind::Naptr),
        RecordType::SRV => Some(Kind::Srv),
        RecordType::A => Some(Kind::A),
        RecordType::AAAA => Some(Kind::Aaaa),
        _ => None,
    }
}

const fn type_of(kind: Kind) -> RecordType {
    match kind {
        Kind::Naptr => RecordType::NAPTR,
        Kind::Srv => RecordType::SRV,
        Kind::A => RecordType::A,
        Kind::Aaaa => RecordType::AAAA,
    }
}
