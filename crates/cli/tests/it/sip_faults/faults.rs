//! The planted faults. FAULTS.md describes them.

use std::time::Duration;

use super::passing::PassingMessage;

/// A fault of a server.
pub struct PlantedFault {
    pub name: &'static str,
    pub plant: fn(&mut PassingMessage<'_>),
}

macro_rules! faults {
    ($($name:literal => $plant:expr;)+) => {
        pub const FAULTS: &[PlantedFault] = &[$(PlantedFault { name: $name, plant: $plant }),+];
    };
}

/// Faults that act on connections instead of messages.
pub const OF_CONNECTIONS: [&str; 5] = [
    "connections-closed",
    "first-message-only",
    "pieces-refused",
    "empty-lines-end-it",
    "answers-leave-the-connection",
];

/// Header field names in their usual spelling.
const USUAL_NAMES: [&str; 24] = [
    "Accept",
    "Allow",
    "Authorization",
    "Call-ID",
    "Contact",
    "Content-Length",
    "Content-Type",
    "CSeq",
    "Expires",
    "From",
    "Max-Forwards",
    "Min-SE",
    "Proxy-Authorization",
    "Proxy-Require",
    "RAck",
    "Reason",
    "Record-Route",
    "Require",
    "Route",
    "Session-Expires",
    "Supported",
    "To",
    "User-Agent",
    "Via",
];

faults! {
    "no-responses" => |p| p.is_dropped = p.status() >= 200;
    "no-requests" => |p| p.is_dropped = p.is_forwarded();
    "nothing-again" => |p| p.is_dropped = p.to_tester && !p.memory.seen.insert(p.text.clone());
    "silent-after-refusal" => |p| {
        p.is_dropped = p.to_tester && p.memory.refused.contains(&p.tester);
        if p.status() == 400 {
            p.memory.refused.insert(p.tester);
        }
    };
    "repeated-responses" => |p| if p.status() >= 200 {
        p.copies = [300, 600].map(|after| (Duration::from_millis(after), p.text.clone())).into();
    };
    "late-responses" => |p| if p.status() > 0 {
        p.delay = Duration::from_secs(5);
    };
    "late-ringing" => |p| if (101..200).contains(&p.status()) {
        p.delay = Duration::from_millis(1500);
    };
    "no-to-tag" => |p| if p.status() > 0 {
        p.edit("To", |to| Some(without_tag(to)));
    };
    "another-to-tag" => |p| if p.status() > 100 {
        p.memory.count += 1;
        let tag = format!("another{}", p.memory.count);
        p.edit("To", |to| Some(format!("{};tag={tag}", without_tag(to))));
    };
    "another-from-tag" => |p| if p.status() > 0 {
        p.edit("From", |from| Some(format!("{}x", from)));
    };
    "another-call-id" => |p| if p.status() > 0 {
        p.edit("Call-ID", |value| Some(format!("{value}x")));
    };
    "another-cseq" => |p| if p.status() > 0 {
        p.edit("CSeq", |value| Some(raised(value, 1)));
    };
    "garbled-responses" => |p| if p.status() > 0 {
        p.text = p.text.replacen("CSeq:", "CSeq", 1);
    };
    "long-content-length" => |p| if p.status() > 0 {
        p.edit("Content-Length", |value| Some(raised(value, 5)));
    };
    "another-version" => |p| if p.status() > 0 {
        p.text = p.text.replacen("SIP/2.0", "SIP/3.0", 1);
    };
    "one-via-only" => |p| if p.status() > 0 {
        p.rearrange("Via", |values| first_value(&values));
    };
    "vias-reversed" => |p| if p.status() > 0 {
        p.rearrange("Via", |values| values.into_iter().rev().collect());
    };
    "no-received" => |p| if p.status() > 0 {
        p.edit("Via", |value| Some(without_parameters(value, &["received", "rport"])));
    };
    "wrong-rport" => |p| if p.status() > 0 {
        p.edit("Via", |value| Some(value.replace("rport=", "rport=1")));
    };
    "from-another-socket" => |p| p.to_next_port = p.status() > 0;
    "success-fails" => |p| if (200..400).contains(&p.status()) {
        p.answer("500 Server Internal Error");
    };
    "success-is-bad-request" => |p| if (200..500).contains(&p.status()) && !is_challenge(p) {
        p.answer("400 Bad Request");
    };
    "refusal-succeeds" => |p| if p.status() >= 400 && !is_challenge(p) {
        p.answer("200 OK");
    };
    "challenge-succeeds" => |p| if is_challenge(p) {
        p.answer("200 OK");
    };
    "refusal-is-another" => |p| if (400..500).contains(&p.status()) && !is_challenge(p) {
        p.answer("499 Another");
    };
    "no-contact" => |p| if p.status() > 0 {
        p.remove(&["Contact"]);
    };
    "one-contact" => |p| if p.status() > 0 {
        p.rearrange("Contact", |values| first_value(&values));
    };
    "wrong-contact" => |p| if p.status() > 0 {
        p.edit("Contact", |value| Some(value.replace("<sip:", "<sip:x")));
    };
    "contact-twice" => |p| if p.status() > 0 {
        p.edit("Contact", |value| Some(format!("{value}, {value}")));
    };
    "no-contact-parameters" => |p| if p.status() > 0 {
        p.edit("Contact", |value| Some(value.split(';').next().unwrap_or_default().trim_end_matches('>').to_owned() + ">"));
    };
    "wrong-expires" => |p| if p.status() > 0 {
        p.edit("Contact", |value| Some(lengthened(value, "expires=", 3600)));
    };
    "bindings-stay" => |p| if is_register(p) {
        p.edit("Expires", |value| (value != "0").then(|| value.to_owned()));
        p.edit("Contact", |value| (value != "*").then(|| value.replace(";expires=0", "")));
    };
    "bindings-never-made" => |p| if is_register(p) {
        p.remove(&["Contact"]);
    };
    "order-ignored" => |p| if is_register(p) {
        p.memory.count += 1;
        let number = p.memory.count;
        p.edit("Call-ID", |value| Some(format!("{value}.{number}")));
    };
    "no-challenge" => |p| if is_challenge(p) {
        p.remove(&["WWW-Authenticate", "Proxy-Authenticate"]);
    };
    "no-qop" => |p| if is_challenge(p) {
        for name in ["WWW-Authenticate", "Proxy-Authenticate"] {
            p.edit(name, |value| Some(without_directive(value, "qop")));
        }
    };
    "no-realm" => |p| if is_challenge(p) {
        for name in ["WWW-Authenticate", "Proxy-Authenticate"] {
            p.edit(name, |value| Some(without_directive(value, "realm")));
        }
    };
    "any-password" => |p| {
        let has_credentials = p.value("Authorization").or_else(|| p.value("Proxy-Authorization")).is_some();
        if !p.to_tester && has_credentials {
            p.memory.with_credentials.insert(p.branch());
        }
        if (400..500).contains(&p.status()) && p.memory.with_credentials.contains(&p.branch()) {
            p.answer("200 OK");
        }
    };
    "no-unsupported" => |p| if p.status() > 0 {
        p.remove(&["Unsupported"]);
    };
    "no-allow" => |p| if p.status() > 0 {
        p.remove(&["Allow", "Accept", "Supported"]);
    };
    "no-min-expires" => |p| if p.status() > 0 {
        p.remove(&["Min-Expires", "Min-SE"]);
    };
    "requirements-ignored" => |p| if !p.to_tester {
        p.remove(&["Require", "Proxy-Require"]);
    };
    "hops-ignored" => |p| if !p.to_tester && p.is_request() {
        p.edit("Max-Forwards", |_| Some("70".to_owned()));
    };
    "no-trying" => |p| p.is_dropped = p.status() == 100;
    "no-ringing" => |p| p.is_dropped = (101..200).contains(&p.status());
    "trying-forwarded" => |p| if p.status() == 100 {
        p.answer("183 Session Progress");
    };
    "contact-not-used" => |p| if p.is_forwarded() {
        p.set_request_uri("sip:somebody@lab.test");
    };
    "hops-not-counted" => |p| if p.is_forwarded() {
        p.edit("Max-Forwards", |value| Some(raised(value, 1)));
    };
    "no-max-forwards" => |p| if p.is_forwarded() {
        p.remove(&["Max-Forwards"]);
    };
    "no-own-via" => |p| if p.is_forwarded() {
        p.rearrange("Via", |values| values.into_iter().skip(1).collect());
    };
    "old-branch" => |p| if p.is_forwarded() {
        p.text = p.text.replacen("branch=z9hG4bK", "branch=old", 1);
    };
    "one-branch" => |p| if p.is_forwarded() {
        p.text = p.text.replacen(&p.branch(), "z9hG4bKone", 1);
    };
    "vias-lost" => |p| if p.is_forwarded() {
        p.rearrange("Via", |values| first_value(&values));
    };
    "from-changed" => |p| if p.is_forwarded() {
        p.edit("From", |value| Some(format!("{value}x")));
    };
    "to-changed" => |p| if p.is_forwarded() {
        p.edit("To", |value| Some(value.replacen("sip:", "sip:x", 1)));
    };
    "unknown-fields-lost" => |p| if p.to_tester {
        let kept = |line: &&str| !line.get(..2).is_some_and(|start| start.eq_ignore_ascii_case("x-"));
        p.text = p.text.split_inclusive("\r\n").filter(kept).collect();
    };
    "body-lost" => |p| if p.to_tester {
        p.set_body("");
        p.remove(&["Content-Type"]);
    };
    "sender-lost" => |p| if p.is_forwarded() {
        p.edit("Contact", |value| Some(value.replacen("sip:", "sip:x", 1)));
    };
    "credentials-lost" => |p| if p.is_forwarded() {
        p.remove(&["Authorization", "Proxy-Authorization"]);
    };
    "challenges-lost" => |p| if p.status() > 0 {
        p.edit("WWW-Authenticate", |value| value.contains("example.com").then(|| value.to_owned()));
    };
    "no-record-route" => |p| if p.to_tester {
        p.remove(&["Record-Route"]);
    };
    "strict-record-route" => |p| if p.to_tester {
        p.edit("Record-Route", |value| Some(value.replace(";lr=on", "").replace(";lr", "")));
    };
    "own-route-stays" => |p| if p.is_forwarded() && p.is_within_dialog() {
        let route = format!("Route: <sip:{};lr>", p.server);
        p.add(&route);
    };
    "forwarded-twice" => |p| if p.is_forwarded() {
        let again = p.text.replacen(&p.branch(), &format!("{}x", p.branch()), 1);
        p.copies.push((Duration::from_millis(100), again));
    };
    "no-second-branch" => |p| if p.is_forwarded() && p.method() == "INVITE" {
        let call_id = p.value("Call-ID").unwrap_or_default();
        let first = *p.memory.first_callee.entry(call_id).or_insert(p.tester);
        p.is_dropped = first != p.tester;
    };
    "no-ack" => |p| p.is_dropped = p.is_forwarded() && p.method() == "ACK" && vias(p) > 1;
    "own-ack-lost" => |p| p.is_dropped = p.is_forwarded() && p.method() == "ACK" && vias(p) == 1;
    "no-bye" => |p| p.is_dropped = p.is_forwarded() && p.method() == "BYE";
    "no-cancel" => |p| p.is_dropped = p.is_forwarded() && p.method() == "CANCEL";
    "another-cancel" => |p| if p.is_forwarded() && p.method() == "CANCEL" {
        p.text = p.text.replacen(&p.branch(), &format!("{}x", p.branch()), 1);
        p.edit("CSeq", |value| Some(raised(value, 1)));
    };
    "cancel-refused" => |p| if p.status() == 200 && p.method() == "CANCEL" {
        p.answer("481 Call/Transaction Does Not Exist");
    };
    "no-new-offers" => |p| {
        if !p.to_tester && p.is_request() && p.is_within_dialog() {
            p.memory.within_dialogs.insert(p.branch());
        }
        let is_offered = ["INVITE", "UPDATE", "OPTIONS"].contains(&&*p.method());
        if (200..300).contains(&p.status()) && is_offered && p.memory.within_dialogs.contains(&p.branch()) {
            p.answer("488 Not Acceptable Here");
        }
    };
    "statuses-changed" => |p| match p.status() {
        486 => p.answer("480 Temporarily Unavailable"),
        434 => p.answer("400 Bad Request"),
        487 => p.answer("486 Busy Here"),
        600.. => p.answer("500 Server Internal Error"),
        _ => {}
    };
    "failure-at-once" => |p| if !p.to_tester && p.any_status() >= 300 && vias(p) > 1 {
        p.to_caller = Some(p.text.clone());
    };
    "reasons-changed" => |p| if p.status() > 0 && !p.is_request() {
        let status = p.status();
        p.answer(&format!("{status} Changed"));
        p.edit_body(|body| format!("{body}a=changed\r\n"));
    };
    "unknown-transaction-taken" => |p| if p.status() == 481 {
        p.answer("200 OK");
    };
    "media-lost" => |p| p.edit_body(|body| {
        let sections: Vec<&str> = body.split("m=").collect();
        match sections.len() {
            0 | 1 => body.to_owned(),
            2 => format!("{body}m={}", sections[1]),
            n => sections[..n - 1].join("m="),
        }
    });
    "media-reversed" => |p| p.edit_body(|body| {
        let others = ["a=recvonly", "a=sendonly", "a=inactive"];
        others.iter().fold(body.to_owned(), |body, other| body.replace(other, "a=sendrecv"))
    });
    "media-unknown" => |p| p.edit_body(|body| each_line(body, |line| match line.split_once("RTP/AVP ") {
        Some((media, _)) if line.starts_with("m=") => format!("{media}RTP/AVP 99"),
        _ => line.to_owned(),
    }));
    "port-zero-ignored" => |p| p.edit_body(|body| {
        body.replace("m=audio 0 ", "m=audio 9 ").replace("m=video 0 ", "m=video 9 ").replace("m=x-netrig 0 ", "m=x-netrig 9 ")
    });
    "version-stays" => |p| p.edit_body(|body| each_line(body, |line| {
        if line.starts_with("o=") { "o=- 1 1 IN IP4 127.0.0.1".to_owned() } else { line.to_owned() }
    }));
    "description-garbled" => |p| p.edit_body(|body| body.replacen("v=0", "v=1", 1));
    "not-reliable" => |p| if p.status() > 0 {
        p.remove(&["RSeq"]);
        p.edit("Require", |value| (!value.contains("100rel")).then(|| value.to_owned()));
    };
    "always-reliable" => |p| if (101..200).contains(&p.status()) {
        p.remove(&["RSeq", "Require"]);
        p.add("RSeq: 1");
        p.add("Require: 100rel");
    };
    "timer-lost" => |p| if p.status() > 0 {
        p.remove(&["Session-Expires", "Require"]);
    };
    "timer-lengthened" => |p| if p.status() > 0 {
        p.edit("Session-Expires", |_| Some("7200".to_owned()));
    };
    "timer-always" => |p| if (200..300).contains(&p.status()) {
        p.remove(&["Require"]);
        p.add("Require: timer");
    };
    "mends-requests" => |p| if !p.to_tester {
        mend(p);
    };
    "dies-of-the-strange" => |p| {
        if !p.to_tester && is_strange(p) {
            p.memory.dead.insert(p.tester);
        }
        p.is_dropped = p.memory.dead.contains(&p.tester);
    };
    "case-matters" => |p| p.is_dropped = !p.to_tester && names(p).iter().any(|name| {
        USUAL_NAMES.iter().any(|usual| name.eq_ignore_ascii_case(usual) && name != usual)
    });
    "compact-names-unread" => |p| p.is_dropped = !p.to_tester && names(p).iter().any(|name| name.len() == 1);
    "white-space-unread" => |p| p.is_dropped = !p.to_tester && names(p).iter().any(|name| name.ends_with([' ', '\t']));
    "unknown-fields-refused" => |p| p.is_dropped = !p.to_tester && p.is_request() && names(p).iter().any(|name| {
        name.len() > 1 && !USUAL_NAMES.iter().any(|usual| name.trim_end().eq_ignore_ascii_case(usual))
    });
    "unknown-parameters-refused" => |p| p.is_dropped = !p.to_tester && p.is_request() && p.value("From").is_some_and(|from| {
        from.rsplit('>').next().is_some_and(|rest| rest.split(';').skip(1).any(|part| !part.trim().starts_with("tag")))
    });
    "more-than-the-body-refused" => |p| p.is_dropped = !p.to_tester && announced(p).is_some_and(|length| p.body().len() > length);
    "sent-by-ignored" => |p| p.is_dropped = p.status() > 0 && p.value("Via").is_some_and(|via| !via.contains("rport"));
    "rport-ignored" => |p| p.is_dropped = p.status() > 0 && p.value("Via").is_some_and(|via| {
        let number = |name: &str| via.split(name).nth(1).map(|rest| {
            rest.chars().take_while(char::is_ascii_digit).collect::<String>()
        });
        number("rport=").is_some_and(|port| Some(port) != number("127.0.0.1:"))
    });
    "grammar-broken" => |p| if p.status() > 0 {
        p.remove(&["Date", "Retry-After"]);
        p.add("Date: yesterday");
        p.add("Retry-After: soon");
    };
    "users-are-one" => |p| if is_register(p) {
        p.edit("To", |to| {
            let (start, rest) = to.split_once("sip:")?;
            Some(format!("{start}sip:everybody@{}", rest.split_once('@')?.1))
        });
    };
    "bindings-of-all" => |p| {
        let contacts = p.values("Contact");
        if is_register(p) {
            p.memory.contacts.extend(contacts);
        } else if p.status() == 200 && p.method() == "REGISTER" {
            for contact in p.memory.contacts.clone() {
                p.add(&format!("Contact: {contact}"));
            }
        }
    };
    "only-calls-redirected" => |p| if (300..400).contains(&p.status()) && p.method() != "INVITE" {
        p.answer("200 OK");
    };
    "redirects-and-forwards" => |p| if (300..400).contains(&p.status()) && p.method() == "INVITE" {
        let contact = p.value("Contact").unwrap_or_default();
        let uri = contact.trim_start_matches(|letter| letter != 's').split(['>', ',']).next().unwrap_or_default();
        let copied = |name: &str| p.values(name).iter().map(|value| format!("{name}: {value}\r\n")).collect::<String>();
        let to = p.value("To").unwrap_or_default();
        let request = format!(
            "INVITE {uri} SIP/2.0\r\nVia: SIP/2.0/UDP {};branch=z9hG4bK{}x\r\n{}{}To: {}\r\n{}{}Max-Forwards: 69\r\n\
             Content-Length: 0\r\n\r\n",
            p.server,
            p.branch().trim_start_matches("z9hG4bK"),
            copied("Via"),
            copied("From"),
            to.split(";tag=").next().unwrap_or_default(),
            copied("Call-ID"),
            copied("CSeq"),
        );
        p.to_contact = Some(request);
    };
    "another-redirection" => |p| if (300..400).contains(&p.status()) {
        p.answer("305 Use Proxy");
    };
    "target-stays" => |p| if let Some(contact) = p.value("Contact").filter(|_| !p.to_tester && p.is_request()) {
        let call_id = p.value("Call-ID").unwrap_or_default();
        let first = p.memory.first_contact.entry(call_id).or_insert(contact).clone();
        p.edit("Contact", |_| Some(first.clone()));
    };
    "connections-closed" => |_| {};
    "first-message-only" => |_| {};
    "pieces-refused" => |_| {};
    "empty-lines-end-it" => |_| {};
    "answers-leave-the-connection" => |_| {};
}

/// The names of all header fields, as spelled in the message.
fn names(p: &PassingMessage<'_>) -> Vec<String> {
    let head = p.text.trim_start_matches("\r\n").split("\r\n\r\n").next().unwrap_or_default();
    let lines = head.split("\r\n").skip(1).filter(|line| !line.starts_with([' ', '\t']));
    lines.filter_map(|line| line.split_once(':')).map(|(name, _)| name.to_owned()).collect()
}

/// The value of Content-Length.
fn announced(p: &PassingMessage<'_>) -> Option<usize> {
    p.value("Content-Length")?.parse().ok()
}

/// Corrects a malformed request, so that the server accepts it although it should not.
fn mend(p: &mut PassingMessage<'_>) {
    let Some((start, _)) = p.text.split_once("\r\n") else { return };
    let Some((method, rest)) = start.split_once(' ').filter(|_| !start.starts_with("SIP/")) else { return };
    let (method, is_of_version) = (method.to_owned(), rest.ends_with(" SIP/7.0"));
    if is_of_version {
        p.text = p.text.replacen(" SIP/7.0", " SIP/2.0", 1);
    }
    p.memory.count += 1;
    let number = p.memory.count;
    // The number is above that of earlier registrations (RFC 3261 section 10.3).
    let cseq = format!("CSeq: {} {method}", 10_000 + number);
    let (call_id, from) =
        (format!("Call-ID: mended{number}"), format!("From: <sip:mended@example.com>;tag={number}"));
    for (name, field) in
        [("CSeq", &*cseq), ("Call-ID", &call_id), ("From", &from), ("To", "To: <sip:mended@example.com>")]
    {
        if p.value(name).is_none() {
            p.add(field);
        }
    }
    p.edit("CSeq", |value| {
        let number = value.split(' ').next().and_then(|number| number.parse().ok()).unwrap_or(1_u32);
        Some(format!("{number} {method}"))
    });
    p.edit("To", |value| {
        let is_open = value.matches('"').count() == 1;
        Some(if is_open { value.replacen('"', "", 1) } else { value.to_owned() })
    });
    let length = p.body().len();
    if announced(p).is_some_and(|told| told > length) {
        p.edit("Content-Length", |_| Some(length.to_string()));
    }
}

/// Whether the message has no Via, or one that is not of the tester.
fn is_strange(p: &PassingMessage<'_>) -> bool {
    let head = p.text.split("\r\n\r\n").next().unwrap_or_default();
    let mut vias = head.split("SIP/2.0/").skip(1).peekable();
    vias.peek().is_none()
        || vias.any(|via| {
            let value = via.split(['\r', ',']).next().unwrap_or_default();
            let branch = value.split("branch=z9hG4bK").nth(1).unwrap_or_default();
            !value.contains("127.0.0.1") || !branch.starts_with(|letter: char| letter.is_ascii_alphanumeric())
        })
}

fn is_challenge(p: &PassingMessage<'_>) -> bool {
    [401, 407].contains(&p.status())
}

fn is_register(p: &PassingMessage<'_>) -> bool {
    !p.to_tester && p.text.starts_with("REGISTER ")
}

/// Number of Via values.
fn vias(p: &PassingMessage<'_>) -> usize {
    p.text.matches("SIP/2.0/").count()
}

fn first_value(values: &[String]) -> Vec<String> {
    let first = values.first().map(|value| value.split(',').next().unwrap_or_default().to_owned());
    first.into_iter().collect()
}

fn without_tag(value: &str) -> String {
    without_parameters(value, &["tag"])
}

fn without_parameters(value: &str, names: &[&str]) -> String {
    let is_kept = |part: &&str| !names.contains(&part.split('=').next().unwrap_or_default().trim());
    value.split(';').filter(is_kept).collect::<Vec<_>>().join(";")
}

fn without_directive(value: &str, name: &str) -> String {
    let (scheme, directives) = value.split_once(' ').unwrap_or((value, ""));
    let is_kept = |part: &&str| part.split('=').next().unwrap_or_default().trim() != name;
    format!("{scheme} {}", directives.split(',').filter(is_kept).collect::<Vec<_>>().join(","))
}

/// The value with the number at its start increased by `by`.
fn raised(value: &str, by: u32) -> String {
    let digits = value.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(value.len());
    let number: u32 = value[..digits].parse().unwrap_or(0);
    format!("{}{}", number.saturating_add(by), &value[digits..])
}

/// The value with the number after each occurrence of `name` increased by `by`.
fn lengthened(value: &str, name: &str, by: u32) -> String {
    let mut parts = value.split(name);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| format!("{text}{name}{}", raised(part, by)))
}

fn each_line(body: &str, change: impl Fn(&str) -> String) -> String {
    body.lines().map(|line| change(line) + "\r\n").collect()
}
