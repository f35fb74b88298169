//! Builds a scenario from a captured call.

use std::net::SocketAddr;

use netrig_core::{Duration, choices};
use netrig_sip::load::Scan;

use super::action::ScriptDistribution;
use super::received::ReceivedText;
use super::script::{
    CallScript, ExpectedMessage, MessagePresence, ReceiveStep, ScriptPause, ScriptStep, SendStep, StepKind,
};
use super::template::{ScriptTemplate, ScriptTemplateError, ScriptWords};
use crate::trace::{SipTrace, TracedMessage};

/// If a side sends a message more than this time after the previous message, the gap becomes a pause of the scenario.
const PAUSE: Duration = Duration::from_millis(100);

/// The first pause before a request is retransmitted (T1 of RFC 3261).
const AGAIN_AFTER: Duration = Duration::from_millis(500);

/// Why a captured call cannot become a scenario.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CapturedScenarioError {
    /// There is no such call.
    #[error("it contains no call `{0}`")]
    NoCall(String),
    /// The text of a message cannot be read as a template.
    #[error("message {number}: {why}")]
    Message {
        /// Number of the message in the call, from 1.
        number: usize,
        /// The reason.
        why: ScriptTemplateError,
    },
}

choices! {
    /// The side of a captured call that becomes a scenario.
    #[derive(Default)]
    pub enum CapturedSide {
        /// The sender of its first message.
        [default]
        Caller = "caller",
        /// The receiver of its first message.
        Callee = "callee",
    }
}

/// The values of a call that keywords replace in the sent messages of the scenario.
struct CapturedEnds {
    own: SocketAddr,
    peer: SocketAddr,
    own_tag: Option<String>,
    peer_tag: Option<String>,
    peer_contact: Option<String>,
}

/// The scenario of one side of a call. It sends the messages that this side sent, and expects those that it received.
/// Values that differ between calls (addresses, tags, branches, Call-ID, lengths) become keywords.
///
/// # Errors
/// If there is no such call.
pub fn captured_scenario(
    trace: &SipTrace,
    call_id: &str,
    side: CapturedSide,
) -> Result<CallScript, CapturedScenarioError> {
    let is_of_call = |message: &&TracedMessage| {
        Scan::of(&message.bytes).call_id.is_some_and(|own| own == call_id.as_bytes())
    };
    let all: Vec<&TracedMessage> = trace.messages.iter().filter(is_of_call).collect();
    let first = all.first().ok_or_else(|| CapturedScenarioError::NoCall(call_id.to_owned()))?;
    let own = match side {
        CapturedSide::Caller => first.from,
        CapturedSide::Callee => first.to,
    };
    let mut ends = CapturedEnds {
        own,
        peer: if own == first.from { first.to } else { first.from },
        own_tag: None,
        peer_tag: None,
        peer_contact: None,
    };
    let mut script = CallScript { name: call_id.to_owned(), ..CallScript::default() };
    let mut seen: Vec<&TracedMessage> = Vec::new();
    let mut last_at = None;
    // Branches of sent requests, with their steps.
    let mut branches: Vec<(String, usize)> = Vec::new();
    for (number, message) in
        all.into_iter().filter(|message| message.from == own || message.to == own).enumerate()
    {
        if seen.iter().any(|known| known.bytes == message.bytes && known.from == message.from) {
            continue;
        }
        seen.push(message);
        let text = ReceivedText::new(&message.bytes);
        let is_sent = message.from == own;
        let waited = last_at.map_or(0, |at: u64| message.at_ns.saturating_sub(at));
        last_at = Some(message.at_ns);
        if !is_sent {
            ends.learn(&text);
            script.steps.push(step(StepKind::Receive(awaited(&text))));
            continue;
        }
        if waited > PAUSE.as_nanos() && !script.steps.is_empty() {
            let time = (waited as f64 / 1e6).round();
            script.steps.push(step(StepKind::Pause(ScriptPause::Drawn(ScriptDistribution::Fixed(time)))));
        }
        let place = script.steps.len();
        let written = match text.request() {
            Some(_) => ends.request(&text, place, &mut branches),
            None => ends.response(&text),
        };
        let parsed = ScriptTemplate::parse(&written, ScriptWords { keys: &[] }, &mut script.variables);
        let template = parsed.map_err(|why| CapturedScenarioError::Message { number: number + 1, why })?;
        let is_again = match text.request() {
            Some((method, _)) => method != "ACK",
            None => {
                text.status().is_some_and(|status| status >= 200)
                    && text.cseq().is_some_and(|(_, method)| method == "INVITE")
            }
        };
        script.steps.push(step(StepKind::Send(SendStep {
            message: template,
            again_after: is_again.then_some(AGAIN_AFTER),
            timeout: None,
            begins: None,
            acknowledges: None,
        })));
    }
    Ok(script)
}

const fn step(kind: StepKind) -> ScriptStep {
    ScriptStep {
        line: 0,
        kind,
        starts: Vec::new(),
        ends: None,
        ends_again: false,
        counter: None,
        lost: 0.0,
        actions: Vec::new(),
        condition: None,
        branch: None,
        on_timeout: None,
        display: None,
    }
}

fn awaited(message: &ReceivedText) -> ReceiveStep {
    let status = message.status().unwrap_or(0);
    let expected = match message.request() {
        Some((method, _)) => ExpectedMessage::Request(method.to_owned()),
        None => {
            let methods = message.cseq().map(|(_, method)| method.to_owned()).into_iter().collect();
            ExpectedMessage::Response(status, methods)
        }
    };
    let is_provisional = (100..200).contains(&status);
    ReceiveStep {
        expected,
        // A provisional response may be absent in another run.
        presence: if is_provisional { MessagePresence::Optional } else { MessagePresence::Mandatory },
        moves_on: true,
        timeout: None,
        keeps_routes: message.request().is_some() || (200..300).contains(&status),
        transaction: None,
    }
}

impl CapturedEnds {
    fn learn(&mut self, message: &ReceivedText) {
        let field = if message.request().is_some() { "From" } else { "To" };
        if let Some(tag) = message.tag_of(field) {
            self.peer_tag = Some(tag.to_owned());
        }
        if let Some(contact) = message.contact() {
            self.peer_contact = Some(contact.to_owned());
        }
    }

    /// The text of a sent request, with keywords.
    fn request(
        &mut self,
        message: &ReceivedText,
        place: usize,
        branches: &mut Vec<(String, usize)>,
    ) -> String {
        if let Some(tag) = message.tag_of("From") {
            self.own_tag = Some(tag.to_owned());
        }
        let branch = message.branch().unwrap_or_default().to_owned();
        let known = branches.iter().find(|(own, _)| *own == branch).map(|(_, step)| *step);
        let branch_keyword = match known {
            Some(step) if step < place => format!("[branch-{}]", place - step),
            _ => "[branch]".to_owned(),
        };
        if known.is_none() && !branch.is_empty() {
            branches.push((branch.clone(), place));
        }
        let (method, uri) = message.request().unwrap_or_default();
        let uri = if self.peer_contact.as_deref() == Some(uri) {
            "[next_url]".to_owned()
        } else {
            self.keywords(uri)
        };
        let mut lines = vec![format!("{method} {uri} SIP/2.0")];
        let mut has_routes = false;
        for line in header_lines(message) {
            let name = line.split(':').next().unwrap_or_default().trim();
            if is_name(name, "Route") {
                if !has_routes {
                    lines.push("[routes]".to_owned());
                }
                has_routes = true;
            } else if is_name(name, "Call-ID") || is_name(name, "i") {
                lines.push("Call-ID: [call_id]".to_owned());
            } else if is_name(name, "Via") || is_name(name, "v") {
                lines.push(self.keywords(line).replace(&branch, &branch_keyword));
            } else if name.to_ascii_lowercase().ends_with("authorization") {
                lines.push("[authentication]".to_owned());
            } else if is_name(name, "Content-Length") || is_name(name, "l") {
                lines.push("Content-Length: [len]".to_owned());
            } else {
                lines.push(self.keywords(line));
            }
        }
        self.with_body(lines, message)
    }

    /// The text of a sent response, with keywords.
    fn response(&mut self, message: &ReceivedText) -> String {
        let start = message.text.lines().next().unwrap_or_default();
        let mut lines = vec![start.to_owned()];
        let tag = message.tag_of("To").map(str::to_owned);
        let is_new_tag = tag.is_some() && self.own_tag != tag;
        for line in header_lines(message) {
            let name = line.split(':').next().unwrap_or_default().trim();
            let copied = ["Via", "From", "Call-ID", "CSeq", "Record-Route"];
            if let Some(own) = copied.iter().find(|own| is_name(name, own)) {
                let keyword = format!("[last_{own}:]");
                if !lines.contains(&keyword) {
                    lines.push(keyword);
                }
            } else if is_name(name, "To") {
                // A request contains this tag only if an earlier response did.
                let has_tag = self.own_tag.is_some() && self.own_tag == tag;
                let is_final_of_dialog =
                    has_tag && message.cseq().is_none_or(|(_, method)| method != "INVITE");
                lines.push(if tag.is_some() && !is_final_of_dialog {
                    "[last_To:];tag=[pid]t[call_number]".to_owned()
                } else {
                    "[last_To:]".to_owned()
                });
            } else if is_name(name, "Content-Length") || is_name(name, "l") {
                lines.push("Content-Length: [len]".to_owned());
            } else {
                lines.push(self.keywords(line));
            }
        }
        if is_new_tag {
            self.own_tag = tag;
        }
        self.with_body(lines, message)
    }

    fn with_body(&self, lines: Vec<String>, message: &ReceivedText) -> String {
        let body: Vec<String> = message.body().split("\r\n").map(|line| self.body_line(line)).collect();
        format!("{}\r\n\r\n{}", lines.join("\r\n"), body.join("\r\n"))
    }

    fn body_line(&self, line: &str) -> String {
        let own = self.own.ip().to_string();
        if line.starts_with("c=IN ") && line.ends_with(&own) {
            return "c=IN IP[media_ip_type] [media_ip]".to_owned();
        }
        if let Some(rest) = line.strip_prefix("m=audio ")
            && let Some((port, rest)) = rest.split_once(' ')
            && port.parse::<u16>().is_ok_and(|port| port > 0)
        {
            return format!("m=audio [media_port] {}", escaped(rest));
        }
        self.keywords(line)
    }

    /// Replaces addresses and tags by keywords, and escapes brackets in the rest of the text.
    fn keywords(&self, text: &str) -> String {
        let host = |address: SocketAddr| match address {
            SocketAddr::V4(address) => address.ip().to_string(),
            SocketAddr::V6(address) => format!("[{}]", address.ip()),
        };
        let own = (host(self.own), "[local_ip]");
        let peer = (host(self.peer), "[remote_ip]");
        let mut changes = vec![
            (format!("{}:{}", own.0, self.own.port()), "[local_ip]:[local_port]".to_owned()),
            (format!("{}:{}", peer.0, self.peer.port()), "[remote_ip]:[remote_port]".to_owned()),
            (own.0, own.1.to_owned()),
            (peer.0, peer.1.to_owned()),
        ];
        if let Some(tag) = &self.own_tag {
            changes.insert(0, (format!("tag={tag}"), "tag=[pid]t[call_number]".to_owned()));
        }
        if let Some(tag) = &self.peer_tag {
            changes.insert(0, (format!(";tag={tag}"), "[peer_tag_param]".to_owned()));
        }
        let mut out = String::new();
        let mut rest = text;
        while !rest.is_empty() {
            if let Some((from, to)) = changes.iter().find(|(from, _)| rest.starts_with(from.as_str())) {
                out.push_str(to);
                rest = &rest[from.len()..];
                continue;
            }
            let letter = rest.chars().next().unwrap_or_default();
            out.push_str(&escaped(letter.encode_utf8(&mut [0; 4])));
            rest = &rest[letter.len_utf8()..];
        }
        out
    }
}

/// Escapes brackets and backslashes, so that the text has no keywords.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\x5C").replace('[', "\\x5B")
}

fn is_name(name: &str, own: &str) -> bool {
    name.eq_ignore_ascii_case(own)
}

/// The header lines after the first line.
fn header_lines(message: &ReceivedText) -> impl Iterator<Item = &str> {
    let head = message.text.split("\r\n\r\n").next().unwrap_or_default();
    head.split("\r\n").skip(1).filter(|line| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use netrig_sip::header::Transport;

    use super::super::form::{read_scenario_form, write_scenario_form};
    use super::*;

    const CALLER: &str = "192.0.2.1:5060";
    const CALLEE: &str = "192.0.2.2:5070";

    fn message(at_ms: u64, from: &str, to: &str, text: &str) -> TracedMessage {
        TracedMessage {
            at_ns: at_ms * 1_000_000,
            from: from.parse().unwrap(),
            to: to.parse().unwrap(),
            transport: Transport::Udp,
            bytes: Bytes::from(text.replace('\n', "\r\n")),
        }
    }

    fn trace() -> SipTrace {
        let head = "From: <sip:a@192.0.2.1>;tag=one\nTo: <sip:b@192.0.2.2>TO\nCall-ID: c1\n";
        let with = |start: &str, branch: &str, tag: &str, cseq: &str, rest: &str| {
            let head = head.replace("TO", tag);
            format!("{start}\nVia: SIP/2.0/UDP 192.0.2.1:5060;branch={branch}\n{head}CSeq: {cseq}\n{rest}")
        };
        let sdp = "Contact: <sip:a@192.0.2.1:5060>\nX-Note: \\x5B [no keyword]\nContent-Length: 55\n\nv=0\nc=IN IP4 192.0.2.1\nm=audio 4000 RTP/AVP 0\n";
        let ok =
            "Contact: <sip:b@192.0.2.2:5070>\nRecord-Route: <sip:192.0.2.2:5070;lr>\nContent-Length: 0\n\n";
        let invite = with("INVITE sip:b@192.0.2.2 SIP/2.0", "z9hG4bKa", "", "1 INVITE", sdp);
        let messages = vec![
            message(0, CALLER, CALLEE, &invite),
            message(500, CALLER, CALLEE, &invite),
            message(
                510,
                CALLEE,
                CALLER,
                &with("SIP/2.0 180 Ringing", "z9hG4bKa", ";tag=two", "1 INVITE", "Content-Length: 0\n\n"),
            ),
            message(520, CALLEE, CALLER, &with("SIP/2.0 200 OK", "z9hG4bKa", ";tag=two", "1 INVITE", ok)),
            message(
                521,
                CALLER,
                CALLEE,
                &with(
                    "ACK sip:b@192.0.2.2:5070 SIP/2.0",
                    "z9hG4bKb",
                    ";tag=two",
                    "1 ACK",
                    "Route: <sip:192.0.2.2:5070;lr>\nContent-Length: 0\n\n",
                ),
            ),
            message(
                2521,
                CALLER,
                CALLEE,
                &with(
                    "BYE sip:b@192.0.2.2:5070 SIP/2.0",
                    "z9hG4bKc",
                    ";tag=two",
                    "2 BYE",
                    "Route: <sip:192.0.2.2:5070;lr>\nContent-Length: 0\n\n",
                ),
            ),
            message(
                2522,
                CALLEE,
                CALLER,
                &with("SIP/2.0 200 OK", "z9hG4bKc", ";tag=two", "2 BYE", "Content-Length: 0\n\n"),
            ),
        ];
        SipTrace { messages, ..SipTrace::default() }
    }

    #[test]
    fn the_caller_of_a_captured_call_is_a_scenario() {
        let script = captured_scenario(&trace(), "c1", CapturedSide::Caller).unwrap();
        let words: Vec<String> = script.steps.iter().map(ScriptStep::words).collect();
        assert_eq!(
            words,
            [
                "sends INVITE, again after 500 ms",
                "awaits 180, optional",
                "awaits 200",
                "sends ACK",
                "pauses 2000 ms",
                "sends BYE, again after 500 ms",
                "awaits 200"
            ]
        );
        let text = write_scenario_form(&script);
        assert!(!text.contains("192.0.2."), "{text}");
        for part in [
            "branch=[branch]",
            "tag=[pid]t[call_number]",
            "[peer_tag_param]",
            "[routes]",
            "ACK [next_url] SIP/2.0",
            "[media_port]",
            "Content-Length: [len]",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        let read = read_scenario_form(&text, ScriptWords { keys: &[] }).unwrap();
        assert_eq!(write_scenario_form(&read), text, "what is no keyword stays none");
    }

    #[test]
    fn the_callee_is_another_one() {
        let script = captured_scenario(&trace(), "c1", CapturedSide::Callee).unwrap();
        let text = write_scenario_form(&script);
        assert!(text.contains("[last_Via:]\n[last_From:]\n[last_To:];tag=[pid]t[call_number]\n"), "{text}");
        assert!(!text.contains("192.0.2."), "{text}");
        assert_eq!(
            captured_scenario(&trace(), "c2", CapturedSide::Caller),
            Err(CapturedScenarioError::NoCall("c2".to_owned()))
        );
    }
}
