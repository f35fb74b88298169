//! A table of DNS records, in the format of master files (RFC 1035 section 5).

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::{Kind, Naptr, Question, Records, Srv};

/// Default time to live of a record, s.
const TTL: u32 = 3600;

/// The most records of a table.
const MOST: usize = 1 << 20;

/// A table of DNS records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    /// Records and their time to live, by name in lower case without a final dot.
    names: BTreeMap<String, BTreeMap<Kind, (Records, u32)>>,
    /// Time to live of a negative answer, s (RFC 2308).
    absence: u32,
}

impl Default for Zone {
    /// A table without records.
    fn default() -> Self {
        Self { names: BTreeMap::new(), absence: TTL }
    }
}

/// The error of a line of a master file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {fault}")]
pub struct ZoneError {
    /// Line number, from 1.
    pub line: usize,
    /// The fault of the line.
    pub fault: ZoneFault,
}

/// A fault of a line of a master file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ZoneFault {
    /// An unknown directive.
    #[error("`{0}` is not read here: $TTL or $ORIGIN and one word")]
    Directive(String),
    /// More than [`MOST`] records.
    #[error("there are {MOST} records at most")]
    TooMany,
    /// The first record begins with a space.
    #[error("no line above has a name")]
    NoOwner,
    /// The file ends within parentheses.
    #[error("a parenthesis is not closed")]
    OpenParenthesis,
    /// Parentheses within parentheses.
    #[error("a parenthesis within another")]
    NestedParenthesis,
    /// A closing parenthesis without an opening one.
    #[error("a parenthesis is closed that is not open")]
    ClosedParenthesis,
    /// A quotation mark without a second one in its line.
    #[error("a quotation mark is not closed")]
    OpenQuotation,
    /// A line with only a name.
    #[error("expected a type after the name: NAPTR, SRV, A or AAAA")]
    NoType,
    /// An unknown type of record.
    #[error("`{0}` is not a type of this table: NAPTR, SRV, A or AAAA")]
    UnknownType(String),
    /// Too many or too few words in the data of a record.
    #[error("expected {0}")]
    Data(&'static str),
    /// Invalid data of an A record.
    #[error("`{0}` is not an IPv4 address")]
    Ipv4(String),
    /// Invalid data of an AAAA record.
    #[error("`{0}` is not an IPv6 address")]
    Ipv6(String),
    /// A word that should be a number from 0 to 65535.
    #[error("`{text}` is not {what}")]
    Number {
        /// The word.
        text: String,
        /// The meaning of the number, with its article.
        what: &'static str,
    },
    /// An invalid time to live.
    #[error("`{0}` is not a time in seconds")]
    Seconds(String),
    /// `@` without an origin.
    #[error("`@` is the origin, and there is no $ORIGIN above")]
    NoOrigin,
    /// An invalid name: a name has labels of 1 to 63 bytes, 253 in all (RFC 1035 section 2.3.4).
    #[error(
        "`{0}` is not a valid name of the DNS: expected labels of 1 to 63 visible characters without `\\`, 253 in all"
    )]
    Name(String),
    /// A backslash that is not followed by a character or by three digits of a byte (RFC 1035 section 5.1).
    #[error("`{0}` has a backslash without a character or three digits up to 127 after it")]
    Escape(String),
}

/// The answer of a table to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ZoneAnswer<'a> {
    /// The records, and their time to live, s.
    Records(&'a Records, u32),
    /// The name exists, and has no records of this type.
    NoRecords,
    /// The name does not exist, and no name below it exists.
    NoSuchName,
}

impl Zone {
    /// Reads lines of `NAME [TTL] [IN] TYPE DATA`, where the type is NAPTR, SRV, A or AAAA. `$TTL` sets the default
    /// time to live, and `;` begins a comment. After `$ORIGIN`, names without a final dot are relative and `@` is the
    /// origin. Before it, all names are absolute. A line that begins with a space has the name of the record above it,
    /// and a record in parentheses may have several lines. A byte order mark is skipped.
    ///
    /// # Errors
    /// The first invalid line, or one record too many.
    pub fn parse(text: &str) -> Result<Self, ZoneError> {
        let mut zone = Self::default();
        zone.extend(text)?;
        Ok(zone)
    }

    /// Adds the records of these lines, in the format of [`parse`](Self::parse).
    ///
    /// # Errors
    /// The first invalid line. The lines before it are added.
    pub fn extend(&mut self, text: &str) -> Result<(), ZoneError> {
        let (mut origin, mut owner): (Option<String>, Option<String>) = (None, None);
        let mut count = 0;
        let mut entry = OpenEntry::default();
        for (line, text) in (1..).zip(text.strip_prefix('\u{feff}').unwrap_or(text).lines()) {
            entry.add(line, text).map_err(|fault| ZoneError { line, fault })?;
            if entry.is_open {
                continue;
            }
            let OpenEntry { line, words, has_owner, .. } = std::mem::take(&mut entry);
            let wrong = |fault| ZoneError { line, fault };
            match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
                [] => {}
                ["$TTL", ttl] => self.absence = seconds(ttl).map_err(wrong)?,
                ["$ORIGIN", name] => {
                    origin = Some(absolute(name, origin.as_deref()).map_err(wrong)?);
                }
                [directive, ..] if directive.starts_with('$') => {
                    return Err(wrong(ZoneFault::Directive((*directive).to_owned())));
                }
                words => {
                    count += 1;
                    if count > MOST {
                        return Err(wrong(ZoneFault::TooMany));
                    }
                    let rest = if has_owner {
                        let (name, rest) = words.split_first().unwrap_or((&"", &[]));
                        owner = Some(absolute(name, origin.as_deref()).map_err(wrong)?);
                        rest
                    } else {
                        words
                    };
                    let name = owner.clone().ok_or_else(|| wrong(ZoneFault::NoOwner))?;
                    self.add(name, rest, origin.as_deref()).map_err(wrong)?;
                }
            }
        }
        if entry.is_open {
            return Err(ZoneError { line: entry.line, fault: ZoneFault::OpenParenthesis });
        }
        Ok(())
    }

    fn add(&mut self, name: String, mut rest: &[&str], origin: Option<&str>) -> Result<(), ZoneFault> {
        let mut ttl = self.absence;
        while let Some((first, others)) = rest.split_first() {
            if first.eq_ignore_ascii_case("IN") {
                rest = others;
            } else if first.starts_with(|digit: char| digit.is_ascii_digit()) {
                (ttl, rest) = (seconds(first)?, others);
            } else {
                break;
            }
        }
        let (kind, data) = rest.split_first().ok_or(ZoneFault::NoType)?;
        let (kind, records) = record(kind, data, origin)?;
        // A name exists if one below it does (RFC 8020).
        for (dot, _) in name.match_indices('.') {
            self.names.entry(name[dot + 1..].to_owned()).or_default();
        }
        let kinds = self.names.entry(name).or_default();
        let (known, least) = kinds.entry(kind).or_insert_with(|| (Records::none_of(kind), ttl));
        known.extend(records);
        // "the TTLs of all RRs in an RRSet must be the same" (RFC 2181 section 5.2): the table uses the least of them.
        *least = ttl.min(*least);
        Ok(())
    }

    /// Answers a question.
    pub fn answer(&self, question: &Question) -> ZoneAnswer<'_> {
        let Ok(name) = canonical(&question.name) else { return ZoneAnswer::NoSuchName };
        match self.names.get(&name) {
            Some(kinds) => kinds
                .get(&question.kind)
                .map_or(ZoneAnswer::NoRecords, |(records, ttl)| ZoneAnswer::Records(records, *ttl)),
            None => ZoneAnswer::NoSuchName,
        }
    }

    /// Time to live of a negative answer, s (RFC 2308).
    pub const fn absence(&self) -> u32 {
        self.absence
    }

    /// All addresses of the table.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        let all = self.names.values().flat_map(BTreeMap::values);
        all.flat_map(|(records, _)| match records {
            Records::Addresses(addresses) => addresses.clone(),
            _ => Vec::new(),
        })
    }
}

impl Records {
    /// An empty set of records of this type.
    pub const fn none_of(kind: Kind) -> Self {
        match kind {
            Kind::Naptr => Self::Naptr(Vec::new()),
            Kind::Srv => Self::Srv(Vec::new()),
            Kind::A | Kind::Aaaa => Self::Addresses(Vec::new()),
        }
    }

    /// Adds more records of the same type.
    fn extend(&mut self, more: Self) {
        match (self, more) {
            (Self::Naptr(own), Self::Naptr(more)) => own.extend(more),
            (Self::Srv(own), Self::Srv(more)) => own.extend(more),
            (Self::Addresses(own), Self::Addresses(more)) => own.extend(more),
            _ => {}
        }
    }
}

/// Parses the type and data of a record.
fn record(kind: &str, data: &[&str], origin: Option<&str>) -> Result<(Kind, Records), ZoneFault> {
    match (kind.to_ascii_uppercase().as_str(), data) {
        ("A", [address]) => {
            let address = address.parse().map_err(|_| ZoneFault::Ipv4((*address).to_owned()))?;
            Ok((Kind::A, Records::Addresses(vec![IpAddr::V4(address)])))
        }
        ("AAAA", [address]) => {
            let address = address.parse().map_err(|_| ZoneFault::Ipv6((*address).to_owned()))?;
            Ok((Kind::Aaaa, Records::Addresses(vec![IpAddr::V6(address)])))
        }
        ("SRV", [priority, weight, port, target]) => {
            let srv = Srv {
                priority: number(priority, "a priority")?,
                weight: number(weight, "a weight")?,
                port: number(port, "a port")?,
                target: if *target == "." { (*target).to_owned() } else { absolute(target, origin)? },
            };
            Ok((Kind::Srv, Records::Srv(vec![srv])))
        }
        ("NAPTR", [order, preference, flags, service, regexp, replacement]) => {
            let naptr = Naptr {
                order: number(order, "an order")?,
                preference: number(preference, "a preference")?,
                flags: unescaped(flags)?,
                service: unescaped(service)?,
                regexp: unescaped(regexp)?,
                replacement: if *replacement == "." {
                    (*replacement).to_owned()
                } else {
                    absolute(replacement, origin)?
                },
            };
            Ok((Kind::Naptr, Records::Naptr(vec![naptr])))
        }
        ("A" | "AAAA", _) => Err(ZoneFault::Data("one address")),
        ("SRV", _) => Err(ZoneFault::Data("a priority, a weight, a port and a target")),
        ("NAPTR", _) => Err(ZoneFault::Data(
            "an order, a preference, flags, a service, a regular expression and a replacement",
        )),
        _ => Err(ZoneFault::UnknownType(kind.to_owned())),
    }
}

/// Resolves the escapes of a character string: a backslash before a literal character, or before the three decimal
/// digits of a byte (RFC 1035 section 5.1). Bytes above 127 are refused.
fn unescaped(text: &str) -> Result<String, ZoneFault> {
    let wrong = || ZoneFault::Escape(text.to_owned());
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('\\') {
        out.push_str(before);
        let first = behind.chars().next().ok_or_else(wrong)?;
        let len = if first.is_ascii_digit() { 3 } else { first.len_utf8() };
        let (escape, behind) = behind.split_at_checked(len).ok_or_else(wrong)?;
        if first.is_ascii_digit() {
            let byte = escape.parse::<u8>().ok().filter(u8::is_ascii).ok_or_else(wrong)?;
            out.push(char::from(byte));
        } else {
            out.push(first);
        }
        rest = behind;
    }
    Ok(out + rest)
}

/// Position of the first character of `text` that `is_end` accepts and that is not escaped.
fn end_of_word(text: &str, is_end: impl Fn(char) -> bool) -> Option<usize> {
    let mut is_escaped = false;
    text.find(|c| {
        let was_escaped = is_escaped;
        is_escaped = c == '\\' && !was_escaped;
        !was_escaped && is_end(c)
    })
}

fn number(text: &str, what: &'static str) -> Result<u16, ZoneFault> {
    text.parse().map_err(|_| ZoneFault::Number { text: text.to_owned(), what })
}

/// Parses a time in seconds, or with units: `3600`, `1h`, `1h30m`.
fn seconds(text: &str) -> Result<u32, ZoneFault> {
    let wrong = || ZoneFault::Seconds(text.to_owned());
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().map_err(|_| wrong());
    }
    let (mut all, mut rest) = (0_u32, text);
    while !rest.is_empty() {
        let end = rest.find(|sign: char| !sign.is_ascii_digit()).ok_or_else(wrong)?;
        let count: u32 = rest[..end].parse().map_err(|_| wrong())?;
        let unit = match rest.as_bytes()[end].to_ascii_lowercase() {
            b's' => 1,
            b'm' => 60,
            b'h' => 3600,
            b'd' => 86_400,
            b'w' => 604_800,
            _ => return Err(wrong()),
        };
        all = count.checked_mul(unit).and_then(|span| all.checked_add(span)).ok_or_else(wrong)?;
        rest = &rest[end + 1..];
    }
    Ok(all)
}

/// The absolute name in canonical form. The origin completes a relative name.
fn absolute(name: &str, origin: Option<&str>) -> Result<String, ZoneFault> {
    match origin {
        _ if name == "." => Ok(String::new()),
        None if name == "@" => Err(ZoneFault::NoOrigin),
        Some(origin) if name == "@" => Ok(origin.to_owned()),
        Some("") => canonical(name),
        Some(origin) if !name.ends_with('.') => canonical(&format!("{name}.{origin}")),
        _ => canonical(name),
    }
}

/// A name in lower case without a final dot: labels of at most 63 bytes, 253 in all (RFC 1035 section 2.3.4).
fn canonical(name: &str) -> Result<String, ZoneFault> {
    let bare = name.strip_suffix('.').unwrap_or(name);
    let is_label = |label: &str| {
        (1..=63).contains(&label.len()) && label.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\')
    };
    if bare.len() <= 253 && bare.split('.').all(is_label) {
        return Ok(bare.to_ascii_lowercase());
    }
    Err(ZoneFault::Name(name.to_owned()))
}

/// The words of an entry that may continue on the next line.
#[derive(Debug, Default)]
struct OpenEntry {
    /// Number of its first line, from 1.
    line: usize,
    words: Vec<String>,
    /// Whether its first line begins with a name.
    has_owner: bool,
    /// Whether a parenthesis is open.
    is_open: bool,
}

impl OpenEntry {
    /// Adds the words of a line without its comment. Text in quotation marks is one word. Escapes are kept.
    fn add(&mut self, line: usize, text: &str) -> Result<(), ZoneFault> {
        if !self.is_open {
            (self.line, self.has_owner) = (line, !text.starts_with([' ', '\t']));
        }
        let mut rest = text.trim_start();
        while let Some(first) = rest.chars().next().filter(|first| *first != ';') {
            let end = |c: char| c.is_whitespace() || matches!(c, ';' | '(' | ')');
            let behind = match first {
                '(' if self.is_open => return Err(ZoneFault::NestedParenthesis),
                ')' if !self.is_open => return Err(ZoneFault::ClosedParenthesis),
                '(' | ')' => {
                    self.is_open = first == '(';
                    &rest[1..]
                }
                '"' => {
                    let inside = &rest[1..];
                    let end = end_of_word(inside, |c| c == '"').ok_or(ZoneFault::OpenQuotation)?;
                    self.words.push(inside[..end].to_owned());
                    &inside[end + 1..]
                }
                _ => {
                    let (word, behind) = rest.split_at(end_of_word(rest, end).unwrap_or(rest.len()));
                    self.words.push(word.to_owned());
                    behind
                }
            };
            rest = behind.trim_start();
        }
        Ok(())
    }
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

    /// RFC 1035 section 5.1, in the form that name servers write.
    #[test]
    fn names_may_be_relative_to_an_origin() {
        let text = "\u{feff}; made by hand\r\n$ORIGIN example.com.\r\n$TTL 1h\r\n@ IN NAPTR 50 50 \"s\" \"SIP+D2U\" \"\" _sip._udp\r\n\
            _sip._udp 1m30s IN SRV ( 0 1 5060 ; the port\r\n  server )\r\n\tSRV 1 1 5060 backup.example.net.\r\n\
            server A 192.0.2.1\r\n       AAAA 2001:db8::1\r\n$ORIGIN sub\r\nhost A 192.0.2.2\r\n$ORIGIN .\r\nexample.net A 192.0.2.3\r\n";
        let zone = Zone::parse(text).unwrap();
        let records = |kind, name: &str| match zone.answer(&question(kind, name)) {
            ZoneAnswer::Records(records, ttl) => Some((records.clone(), ttl)),
            _ => None,
        };
        let Some((Records::Naptr(services), 3600)) = records(Kind::Naptr, "example.com") else {
            panic!("{zone:?}")
        };
        assert_eq!(services[0].replacement, "_sip._udp.example.com");
        let Some((Records::Srv(hosts), 90)) = records(Kind::Srv, "_sip._udp.example.com") else {
            panic!("{zone:?}")
        };
        let targets: Vec<_> = hosts.iter().map(|srv| srv.target.as_str()).collect();
        assert_eq!(targets, ["server.example.com", "backup.example.net"]);
        assert!(records(Kind::Aaaa, "server.example.com").is_some());
        assert!(records(Kind::A, "host.sub.example.com").is_some());
        assert!(records(Kind::A, "example.net").is_some());
        for (text, line, why) in [
            ("x SRV ( 0 1\n 5060 y", 1, "not closed"),
            ("a A 192.0.2.1\nx ) A 192.0.2.1", 2, "not open"),
            (" A 192.0.2.1", 1, "no line above has a name"),
            ("@ A 192.0.2.1", 1, "no $ORIGIN"),
            ("$INCLUDE more", 1, "`$INCLUDE` is not read here"),
            ("$ORIGIN a..b", 1, "not a valid name of the DNS"),
            ("a 1x A 192.0.2.1", 1, "a time in seconds"),
            ("a 9999999w A 192.0.2.1", 1, "a time in seconds"),
        ] {
            let error = Zone::parse(text).unwrap_err();
            assert!(error.line == line && error.fault.to_string().contains(why), "{text}: {error}");
        }
    }

    /// RFC 1035 section 5.1: `\X` and `\DDD`. The expression of RFC 3403 has a backslash of its own, which is doubled
    /// in a file.
    #[test]
    fn escapes_in_character_strings_are_read() {
        let text = r#"a NAPTR 1 1 "u" "E2U+sip" "!^\\+44(.*)$!sip:\\1\064x\"y!" ."#;
        let zone = Zone::parse(text).unwrap();
        let ZoneAnswer::Records(Records::Naptr(found), _) = zone.answer(&question(Kind::Naptr, "a")) else {
            panic!("{zone:?}")
        };
        assert_eq!(found[0].regexp, r#"!^\+44(.*)$!sip:\1@x"y!"#);
        let bare = Zone::parse(r"a NAPTR 1 1 u E2U+sip !a\;\ b! .").unwrap();
        let ZoneAnswer::Records(Records::Naptr(found), _) = bare.answer(&question(Kind::Naptr, "a")) else {
            panic!("{bare:?}")
        };
        assert_eq!(found[0].regexp, "!a; b!");
        for regexp in [r"\25", r"\256", r"\12x", r"\200"] {
            let error = Zone::parse(&format!("a NAPTR 1 1 u s \"{regexp}\" .")).unwrap_err();
            assert_eq!(error.fault, ZoneFault::Escape(regexp.to_owned()));
        }
        let error = Zone::parse(r"a\.b A 192.0.2.1").unwrap_err();
        assert!(error.fault.to_string().contains(r"without `\`"), "{error}");
    }

    #[test]
    fn what_is_no_line_of_a_table_is_said() {
        for (text, words) in [
            ("example.com", "expected a type"),
            ("example.com TXT \"x\"", "`TXT` is not a type of this table"),
            ("example.com A 2001:db8::1", "not an IPv4 address"),
            ("example.com A 192.0.2.1 192.0.2.2", "one address"),
            ("example.com SRV 0 1 65536 x.example.com", "`65536` is not a port"),
            ("example.com NAPTR 1 1 s SIP+D2U", "expected an order"),
            ("example.com NAPTR 1 1 \"s", "quotation mark"),
            ("a..b A 192.0.2.1", "not a valid name of the DNS"),
            ("$TTL x", "a time in seconds"),
        ] {
            let error = Zone::parse(&format!("\n{text}")).unwrap_err();
            assert!(error.line == 2 && error.fault.to_string().contains(words), "{error}");
        }
        let long = format!("{} A 192.0.2.1", "a".repeat(64));
        assert!(Zone::parse(&long).is_err());
    }
}
