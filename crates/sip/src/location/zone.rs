//! A table of names, as master files of the DNS have them (RFC 1035 section 5).

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::{Kind, Naptr, Question, Records, Srv};

/// How long an answer may be kept if a table says nothing else, s.
const TTL: u32 = 3600;

/// The most records of a table.
const MOST: usize = 1 << 20;

/// Names with their services, hosts and addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Zone {
    /// By name, in lower case and without a dot at the end.
    names: BTreeMap<String, BTreeMap<Kind, (Records, u32)>>,
    /// How long is kept that something is not there, s.
    absence: u32,
}

/// A line that is none of a table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct ZoneError {
    /// Counted from 1.
    pub line: usize,
    /// What is wrong with it.
    pub why: String,
}

/// What a table says to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ZoneAnswer<'a> {
    /// Records, and how long they may be kept, s.
    Records(&'a Records, u32),
    /// The name is there, and has none of this kind.
    NoRecords,
    /// There is no such name, and none below it.
    NoSuchName,
}

impl Zone {
    /// Reads lines of `NAME [TTL] [IN] TYPE DATA`, where the type is NAPTR, SRV, A or AAAA; `$TTL` says how long those are kept
    /// that say nothing themselves, and `;` begins a remark. Names are whole, with or without the dot at their end.
    ///
    /// # Errors
    /// The first line that is none of these, or one too many.
    pub fn parse(text: &str) -> Result<Self, ZoneError> {
        let mut zone = Self { absence: TTL, ..Self::default() };
        let mut count = 0;
        for (line, text) in (1..).zip(text.lines()) {
            let wrong = |why: String| ZoneError { line, why };
            let words = words(text).map_err(wrong)?;
            match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
                [] => {}
                ["$TTL", ttl] => zone.absence = number(ttl, "a time in seconds").map_err(wrong)?,
                words => {
                    count += 1;
                    if count > MOST {
                        return Err(wrong(format!("there are {MOST} records at most")));
                    }
                    zone.add(words).map_err(wrong)?;
                }
            }
        }
        Ok(zone)
    }

    fn add(&mut self, words: &[&str]) -> Result<(), String> {
        let (name, mut rest) = words.split_first().ok_or("expected a name")?;
        let name = canonical(name)?;
        let mut ttl = self.absence;
        while let Some((first, others)) = rest.split_first() {
            if first.eq_ignore_ascii_case("IN") {
                rest = others;
            } else if first.bytes().all(|byte| byte.is_ascii_digit()) {
                (ttl, rest) = (number(first, "a time in seconds")?, others);
            } else {
                break;
            }
        }
        let (kind, data) =
            rest.split_first().ok_or("expected a type behind the name: NAPTR, SRV, A or AAAA")?;
        let (kind, records) = record(kind, data)?;
        // A name is there if one below it is (RFC 8020).
        for (dot, _) in name.match_indices('.') {
            self.names.entry(name[dot + 1..].to_owned()).or_default();
        }
        let kinds = self.names.entry(name).or_default();
        let (known, least) = kinds.entry(kind).or_insert_with(|| (Records::none_of(kind), ttl));
        known.extend(records);
        // "the TTLs of all RRs in an RRSet must be the same" (RFC 2181 section 5.2): the least of them holds.
        *least = ttl.min(*least);
        Ok(())
    }

    /// What it says to a question.
    pub fn answer(&self, question: &Question) -> ZoneAnswer<'_> {
        let Ok(name) = canonical(&question.name) else { return ZoneAnswer::NoSuchName };
        match self.names.get(&name) {
            Some(kinds) => kinds
                .get(&question.kind)
                .map_or(ZoneAnswer::NoRecords, |(records, ttl)| ZoneAnswer::Records(records, *ttl)),
            None => ZoneAnswer::NoSuchName,
        }
    }

    /// How long is kept that something is not there, s (RFC 2308).
    pub const fn absence(&self) -> u32 {
        self.absence
    }

    /// Every address that is in it.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        let all = self.names.values().flat_map(BTreeMap::values);
        all.flat_map(|(records, _)| match records {
            Records::Addresses(addresses) => addresses.clone(),
            _ => Vec::new(),
        })
    }
}

impl Records {
    /// None of this kind.
    pub const fn none_of(kind: Kind) -> Self {
        match kind {
            Kind::Naptr => Self::Naptr(Vec::new()),
            Kind::Srv => Self::Srv(Vec::new()),
            Kind::A | Kind::Aaaa => Self::Addresses(Vec::new()),
        }
    }

    /// Takes more of the same kind.
    fn extend(&mut self, more: Self) {
        match (self, more) {
            (Self::Naptr(own), Self::Naptr(more)) => own.extend(more),
            (Self::Srv(own), Self::Srv(more)) => own.extend(more),
            (Self::Addresses(own), Self::Addresses(more)) => own.extend(more),
            _ => {}
        }
    }
}

/// A record's type and data.
fn record(kind: &str, data: &[&str]) -> Result<(Kind, Records), String> {
    match (kind.to_ascii_uppercase().as_str(), data) {
        ("A", [address]) => {
            let address = address.parse().map_err(|_| format!("`{address}` is no IPv4 address"))?;
            Ok((Kind::A, Records::Addresses(vec![IpAddr::V4(address)])))
        }
        ("AAAA", [address]) => {
            let address = address.parse().map_err(|_| format!("`{address}` is no IPv6 address"))?;
            Ok((Kind::Aaaa, Records::Addresses(vec![IpAddr::V6(address)])))
        }
        ("SRV", [priority, weight, port, target]) => {
            let srv = Srv {
                priority: number(priority, "a priority")?,
                weight: number(weight, "a weight")?,
                port: number(port, "a port")?,
                target: if *target == "." { (*target).to_owned() } else { canonical(target)? },
            };
            Ok((Kind::Srv, Records::Srv(vec![srv])))
        }
        ("NAPTR", [order, preference, flags, service, regexp, replacement]) => {
            let naptr = Naptr {
                order: number(order, "an order")?,
                preference: number(preference, "a preference")?,
                flags: (*flags).to_owned(),
                service: (*service).to_owned(),
                regexp: (*regexp).to_owned(),
                replacement: if *replacement == "." {
                    (*replacement).to_owned()
                } else {
                    canonical(replacement)?
                },
            };
            Ok((Kind::Naptr, Records::Naptr(vec![naptr])))
        }
        ("A" | "AAAA", _) => Err("expected one address".to_owned()),
        ("SRV", _) => Err("expected a priority, a weight, a port and a target".to_owned()),
        ("NAPTR", _) => {
            Err("expected an order, a preference, flags, a service, a regular expression and a replacement"
                .to_owned())
        }
        _ => Err(format!("`{kind}` is no type of this table: NAPTR, SRV, A or AAAA")),
    }
}

fn number<T: std::str::FromStr>(text: &str, what: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("`{text}` is not {what}"))
}

/// A name in lower case without a dot at its end: labels of at most 63 bytes, 253 in all (RFC 1035 section 2.3.4).
fn canonical(name: &str) -> Result<String, String> {
    let bare = name.strip_suffix('.').unwrap_or(name);
    let is_label = |label: &str| {
        (1..=63).contains(&label.len()) && label.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\')
    };
    if bare.len() <= 253 && bare.split('.').all(is_label) {
        return Ok(bare.to_ascii_lowercase());
    }
    Err(format!("`{name}` is no name of the DNS"))
}

/// The words of a line, those in quotation marks as one, without a remark.
fn words(line: &str) -> Result<Vec<String>, String> {
    let (mut words, mut rest) = (Vec::new(), line.trim_start());
    while let Some(first) = rest.chars().next().filter(|first| *first != ';') {
        let (word, behind) = if first == '"' {
            rest[1..].split_once('"').ok_or("a quotation mark has no other")?
        } else {
            rest.split_at(rest.find(|c: char| c.is_whitespace() || c == ';').unwrap_or(rest.len()))
        };
        words.push(word.to_owned());
        rest = behind.trim_start();
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
; The example of RFC 3263 section 4.1.
$TTL 60
example.com.  IN NAPTR 50 50 "s" "SIPS+D2T" "" _sips._tcp.example.com.
Example.com   30 IN NAPTR 90 50 "s" "SIP+D2T" "" _sip._tcp.example.com
_sip._tcp.example.com IN 90 SRV 0 1 5060 server1.example.com. ; the first
_sip._tcp.example.com SRV 0 2 5060 server2.example.com.
_sip._udp.example.com SRV 0 0 0 .
server1.example.com A 192.0.2.1
server1.example.com AAAA 2001:db8::1
"#;

    fn question(kind: Kind, name: &str) -> Question {
        Question { kind, name: name.to_owned() }
    }

    #[test]
    fn a_table_answers_what_is_in_it() {
        let zone = Zone::parse(TEXT).unwrap();
        let ZoneAnswer::Records(Records::Naptr(services), 30) =
            zone.answer(&question(Kind::Naptr, "EXAMPLE.com."))
        else {
            panic!("{zone:?}")
        };
        let services: Vec<_> = services.iter().map(|naptr| (naptr.order, naptr.service.as_str())).collect();
        assert_eq!(services, [(50, "SIPS+D2T"), (90, "SIP+D2T")]);
        let ZoneAnswer::Records(Records::Srv(hosts), 60) =
            zone.answer(&question(Kind::Srv, "_sip._tcp.example.com"))
        else {
            panic!("{zone:?}")
        };
        assert_eq!(hosts[1].target, "server2.example.com");
        assert_eq!(zone.answer(&question(Kind::A, "example.com")), ZoneAnswer::NoRecords);
        assert_eq!(zone.answer(&question(Kind::A, "_udp.example.com")), ZoneAnswer::NoRecords);
        assert_eq!(zone.answer(&question(Kind::A, "xample.com")), ZoneAnswer::NoSuchName);
        assert_eq!(zone.answer(&question(Kind::A, "x..com")), ZoneAnswer::NoSuchName);
        assert_eq!(zone.addresses().count(), 2);
        assert_eq!(zone.absence(), 60);
    }

    #[test]
    fn what_is_no_line_of_a_table_is_said() {
        for (text, words) in [
            ("example.com", "expected a type"),
            ("example.com TXT \"x\"", "`TXT` is no type of this table"),
            ("example.com A 2001:db8::1", "no IPv4 address"),
            ("example.com A 192.0.2.1 192.0.2.2", "one address"),
            ("example.com SRV 0 1 65536 x.example.com", "`65536` is not a port"),
            ("example.com NAPTR 1 1 s SIP+D2U", "expected an order"),
            ("example.com NAPTR 1 1 \"s", "quotation mark"),
            ("a..b A 192.0.2.1", "no name of the DNS"),
            ("$TTL x", "a time in seconds"),
        ] {
            let error = Zone::parse(&format!("\n{text}")).unwrap_err();
            assert!(error.line == 2 && error.why.contains(words), "{error}");
        }
        let long = format!("{} A 192.0.2.1", "a".repeat(64));
        assert!(Zone::parse(&long).is_err());
    }
}
