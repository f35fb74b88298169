//! Messages of the DNS (RFC 1035 section 4), read and written by `hickory-proto`.

use std::collections::BTreeSet;
use std::net::IpAddr;

use hickory_proto::op::{Edns, Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::rdata::{NAPTR, SOA, SRV};
use hickory_proto::rr::{DNSClass, Name, RData, Record, RecordType};
use netrig_sip::load::Unlocated;
use netrig_sip::location::{Kind, Naptr, Question, Records, Srv, Zone, ZoneAnswer};

/// The longest answer that is asked for over UDP, bytes: one that no path has to cut up (the DNS flag day of 2020).
pub const PAYLOAD: u16 = 1232;

/// The longest over UDP to who says nothing of it, bytes (RFC 1035 section 4.2.1).
const SHORT: usize = 512;

/// Bytes of a header.
const HEADER: usize = 12;

/// Aliases that are followed, one behind the other.
const MOST_ALIASES: usize = 8;

/// What an answer may be kept at most, s: a week, as RFC 8767 section 4 has it.
const LONGEST: u32 = 604_800;

/// What a message is to who has asked a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading {
    /// No answer to it.
    Foreign,
    /// Too long for a datagram: it is to be asked for over TCP.
    Truncated,
    /// The name is another's, whose records are not here: that is to be asked.
    Alias(String),
    /// Records, and how long they may be kept, s.
    Records(Records, u32),
    /// There are none, and how long that may be kept, s; 0 if nobody says (RFC 2308).
    Nothing(u32),
    /// It is not to be had.
    Failed(Unlocated),
}

/// A question as it is sent; `None` of what is no name.
pub fn query(id: u16, question: &Question) -> Option<Vec<u8>> {
    let mut message = Message::new(id, MessageType::Query, OpCode::Query);
    message.metadata.recursion_desired = true;
    message.add_query(Query::query(name(&question.name)?, type_of(question.kind)));
    let mut edns = Edns::new();
    edns.set_max_payload(PAYLOAD);
    message.set_edns(edns);
    message.to_vec().ok()
}

/// Reads what may be the answer to a question that was asked under this number.
pub fn read(bytes: &[u8], id: u16, question: &Question) -> Reading {
    // The answer to a question has its ID and its question, and came from who was asked (RFC 5452 section 9.1).
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
        // Who cannot read a question does not repeat it.
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

/// The records that an answer has of a name, or of the last of those that it is an alias of.
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
            // Where the answer says that there is nothing more, there is not (RFC 2308 section 2.2).
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

/// "Implementations should treat TTL values received with the most significant bit set as if the entire value received was
/// zero." (RFC 2181 section 8)
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

/// What a table's server answers to a message, and whether it has to be shorter to go over UDP; `None` to what is no question.
pub fn answer(bytes: &[u8], zone: &Zone, over_udp: bool) -> Option<Vec<u8>> {
    answer_within(bytes, zone, over_udp, usize::MAX)
}

/// The same. An answer over UDP of more than `bound` bytes is cut, with the bit TC; `None` if even that is longer.
pub fn answer_within(bytes: &[u8], zone: &Zone, over_udp: bool, bound: usize) -> Option<Vec<u8>> {
    // Who answers answers would talk to itself.
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
    // One question is answered, and repeated: of more none is.
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

/// The one question of a message, if it is for records that a table has.
pub fn asked(bytes: &[u8]) -> Option<Question> {
    let message = Message::from_vec(bytes).ok()?;
    let [query] = message.queries.as_slice() else { return None };
    let kind = kind_of(query.query_type())?;
    Some(Question { kind, name: query.name().to_ascii() })
}

/// Puts what is known into a response.
fn fill(response: &mut Message, request: &Message, zone: &Zone) -> ResponseCode {
    let [query] = request.queries.as_slice() else { return ResponseCode::FormErr };
    if request.metadata.op_code != OpCode::Query {
        return ResponseCode::NotImp;
    }
    let kind = kind_of(query.query_type());
    let has_kind = kind.is_some() && query.query_class() == DNSClass::IN;
    // What has no kind here has no records, of a name that may be there.
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

/// A whole name.
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
