//! SIPp scenarios of caller and callee, connected to each other in virtual time.
#![allow(clippy::unwrap_used, reason = "what cannot go on has failed")]

use std::net::SocketAddr;

use bytes::Bytes;
use netrig_core::{Duration, Instant, Seeds};
use netrig_sip::header::Transport;
use netrig_sip_tester::scenario::{
    InjectionFile, ScriptCall, ScriptFailure, ScriptOutcome, ScriptOutput, ScriptRun, ScriptSettings,
    ScriptWords, read_sipp_scenario,
};

const CALLER: &str = "192.0.2.1:5060";
const CALLEE: &str = "192.0.2.2:5060";

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn settings(local: &str, remote: &str) -> ScriptSettings {
    ScriptSettings {
        remote: address(remote),
        remote_host: remote.to_owned(),
        local: address(local),
        media: address("192.0.2.1:6000"),
        codec: None,
        transport: Transport::Udp,
        service: "service".to_owned(),
        pause: Duration::from_secs(1),
        patience: None,
        username: "alice".to_owned(),
        password: "zanzibar".to_owned(),
        t2: Duration::from_secs(4),
        ends_sessions: true,
        answers_by_itself: false,
        run_number: 7,
        users: 1,
        version: "netrig".to_owned(),
    }
}

fn run_of(text: &str, local: &str, remote: &str) -> ScriptRun {
    let text = format!("<?xml version=\"1.0\"?>\n<scenario name=\"test\">\n{text}\n</scenario>");
    let (script, warnings) = read_sipp_scenario(&text, ScriptWords { keys: &[] }).unwrap();
    assert_eq!(warnings, []);
    ScriptRun::new(script, settings(local, remote), Seeds::new(1).stream("scenario"))
}

/// A call and its shared data.
struct CallSide {
    run: ScriptRun,
    call: ScriptCall,
    local: SocketAddr,
    /// All outputs of the call except sent messages.
    did: Vec<ScriptOutput>,
}

impl CallSide {
    fn new(text: &str, local: &str, remote: &str) -> Self {
        Self::with(run_of(text, local, remote), local)
    }

    fn with(mut run: ScriptRun, local: &str) -> Self {
        let call = ScriptCall::new(&mut run, 1, "1-7@192.0.2.1".to_owned(), Some(0), 0).unwrap();
        Self { run, call, local: address(local), did: Vec::new() }
    }

    fn sent(&mut self) -> Vec<Bytes> {
        let mut sent = Vec::new();
        while let Some(output) = self.call.outputs.pop_front() {
            match output {
                ScriptOutput::Send(bytes) => sent.push(bytes),
                other => self.did.push(other),
            }
        }
        sent
    }
}

/// Runs both sides until nothing more happens, over a link with a delay of 10 ms. Returns the messages in order of
/// arrival.
fn exchange(caller: &mut CallSide, callee: &mut CallSide) -> Vec<String> {
    let mut now = Instant::ZERO;
    let mut wire: Vec<(Instant, bool, Bytes)> = Vec::new();
    let mut seen = Vec::new();
    caller.call.begin(&mut caller.run, now);
    callee.call.begin(&mut callee.run, now);
    for _ in 0..200 {
        for (is_caller, side) in [(true, &mut *caller), (false, &mut *callee)] {
            let sent = side.sent();
            wire.extend(sent.into_iter().map(|bytes| (now + Duration::from_millis(10), is_caller, bytes)));
        }
        let due = wire
            .iter()
            .map(|(due, ..)| *due)
            .chain(caller.call.poll_timeout())
            .chain(callee.call.poll_timeout())
            .min();
        let Some(due) = due else { break };
        now = due.max(now);
        let arrived = wire.iter().position(|(due, ..)| *due <= now).map(|place| wire.remove(place));
        if let Some((_, of_caller, bytes)) = arrived {
            seen.push(String::from_utf8_lossy(&bytes).into_owned());
            let side = if of_caller { &mut *callee } else { &mut *caller };
            side.call.receive(&mut side.run, (now, now), &bytes, side.local);
        }
        for side in [&mut *caller, &mut *callee] {
            side.call.handle_timeout(&mut side.run, now);
        }
    }
    seen
}

fn first_lines(messages: &[String]) -> Vec<&str> {
    messages.iter().map(|message| message.lines().next().unwrap()).collect()
}

const INVITE: &str = "<send retrans=\"500\" start_rtd=\"1\"><![CDATA[
    INVITE sip:[service]@[remote_ip]:[remote_port] SIP/2.0
    Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
    From: <sip:a@[local_ip]>;tag=[pid]Tag[call_number]
    To: <sip:b@[remote_ip]>[peer_tag_param]
    Call-ID: [call_id]
    CSeq: [cseq] INVITE
    Contact: <sip:a@[local_ip]:[local_port]>
    Content-Type: application/sdp
    Content-Length: [len]

    v=0
    c=IN IP[media_ip_type] [media_ip]
    m=audio [media_port] RTP/AVP 0
]]></send>";

const CALL: &str = "<recv response=\"100\" optional=\"true\"/>
<recv response=\"180\" optional=\"true\"/>
<recv response=\"200\" rtd=\"1\" rrs=\"true\"/>
<send><![CDATA[
    ACK [next_url] SIP/2.0
    Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
    [routes]
    From: <sip:a@[local_ip]>;tag=[pid]Tag[call_number]
    To: <sip:b@[remote_ip]>[peer_tag_param]
    Call-ID: [call_id]
    CSeq: [cseq] ACK
    Content-Length: 0
]]></send>
<pause/>
<send retrans=\"500\"><![CDATA[
    BYE [next_url] SIP/2.0
    Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
    [routes]
    From: <sip:a@[local_ip]>;tag=[pid]Tag[call_number]
    To: <sip:b@[remote_ip]>[peer_tag_param]
    Call-ID: [call_id]
    CSeq: [cseq] BYE
    Content-Length: 0
]]></send>
<recv response=\"200\"/>";

const ANSWER: &str = "<recv request=\"INVITE\"/>
<send><![CDATA[
    SIP/2.0 180 Ringing
    [last_Via:]
    [last_From:]
    [last_To:];tag=[pid]B[call_number]
    [last_Call-ID:]
    [last_CSeq:]
    [last_X-Absent:] left out
    Contact: <sip:b@[local_ip]:[local_port]>
    Content-Length: 0
]]></send>
<send retrans=\"500\"><![CDATA[
    SIP/2.0 200 OK
    [last_Via:]
    Record-Route: <sip:one.example;lr>, <sip:two.example;lr>
    [last_From:]
    [last_To:];tag=[pid]B[call_number]
    [last_Call-ID:]
    [last_CSeq:]
    Contact: <sip:b@[local_ip]:[local_port]>
    Content-Length: 0
]]></send>
<recv request=\"ACK\" optional=\"true\" crlf=\"true\"/>
<recv request=\"BYE\"/>
<send><![CDATA[
    SIP/2.0 200 OK
    [last_Via:]
    [last_From:]
    [last_To:]
    [last_Call-ID:]
    [last_CSeq:]
    Content-Length: 0
]]></send>
<timewait milliseconds=\"4000\"/>";

#[test]
fn both_sides_of_a_call_succeed() {
    let mut caller = CallSide::new(&format!("{INVITE}\n{CALL}"), CALLER, CALLEE);
    let mut callee = CallSide::new(ANSWER, CALLEE, CALLER);
    let messages = exchange(&mut caller, &mut callee);
    assert_eq!(
        first_lines(&messages),
        [
            "INVITE sip:service@192.0.2.2:5060 SIP/2.0",
            "SIP/2.0 180 Ringing",
            "SIP/2.0 200 OK",
            "ACK sip:b@192.0.2.2:5060 SIP/2.0",
            "BYE sip:b@192.0.2.2:5060 SIP/2.0",
            "SIP/2.0 200 OK"
        ]
    );
    assert_eq!(caller.call.outcome, Some(ScriptOutcome::Succeeded));
    assert_eq!(callee.call.outcome, Some(ScriptOutcome::Succeeded));
    // Content-Length is the length of the body, the route set is reversed, and the line of an absent header field is
    // left out.
    assert!(
        messages[0]
            .contains("Content-Length: 49\r\n\r\nv=0\r\nc=IN IP4 192.0.2.1\r\nm=audio 6000 RTP/AVP 0\r\n"),
        "{}",
        messages[0]
    );
    assert!(messages[3].contains("Route: <sip:two.example;lr>, <sip:one.example;lr>\r\n"), "{}", messages[3]);
    assert!(
        !messages[1].contains("left out") && messages[1].contains("CSeq: 1 INVITE\r\nContact:"),
        "{}",
        messages[1]
    );
    assert!(messages[3].contains("CSeq: 1 ACK") && messages[4].contains("CSeq: 2 BYE"));
    let took = caller.did.iter().find_map(|did| match did {
        ScriptOutput::ResponseTime { took, .. } => Some(*took),
        _ => None,
    });
    assert_eq!(took, Some(Duration::from_millis(20)));
}

#[test]
fn a_request_is_sent_again_until_it_is_given_up() {
    let mut caller = CallSide::new(&format!("{INVITE}\n{CALL}"), CALLER, CALLEE);
    let mut silent = CallSide::new("<recv request=\"OPTIONS\"/>", CALLEE, CALLER);
    // The other side has already ended, so it answers nothing.
    silent.call.outcome = Some(ScriptOutcome::Succeeded);
    let messages = exchange(&mut caller, &mut silent);
    assert_eq!(messages.len(), 7, "six times again: {:?}", first_lines(&messages));
    assert_eq!(caller.call.outcome, Some(ScriptOutcome::Failed { step: 1, why: ScriptFailure::NoAnswer }));
}

#[test]
fn a_message_that_no_step_awaits_fails_a_call() {
    let mut caller = CallSide::new(&format!("{INVITE}\n{CALL}"), CALLER, CALLEE);
    let busy = ANSWER.replace("SIP/2.0 180 Ringing", "SIP/2.0 486 Busy Here");
    let mut callee = CallSide::new(&busy, CALLEE, CALLER);
    let messages = exchange(&mut caller, &mut callee);
    let why = ScriptFailure::Unexpected("SIP/2.0 486 Busy Here".to_owned());
    assert_eq!(caller.call.outcome, Some(ScriptOutcome::Failed { step: 1, why }));
    // The response is acknowledged in the INVITE's own transaction (RFC 3261 section 17.1.1.3).
    let acknowledgement = messages.iter().find(|message| message.starts_with("ACK ")).unwrap();
    let branch =
        |message: &str| message.split("branch=").nth(1).unwrap().split("\r\n").next().unwrap().to_owned();
    assert_eq!(branch(acknowledgement), branch(&messages[0]));
    assert!(
        acknowledgement.contains("CSeq: 1 ACK\r\n") && acknowledgement.contains("B1"),
        "{acknowledgement}"
    );
}

/// A pause that a message interrupts is resumed, and ends at its original time.
#[test]
fn a_call_goes_back_to_the_pause_that_a_message_broke_off() {
    let answer = |line: &str| {
        format!(
            "<![CDATA[
    SIP/2.0 {line}
    [last_Via:]
    [last_From:]
    [last_To:];tag=b
    [last_Call-ID:]
    [last_CSeq:]
    Content-Length: 0

    ]]>"
        )
    };
    let script = format!(
        "<recv request=\"OPTIONS\"/>
    <pause milliseconds=\"1000\"/>
    <send next=\"done\">{}</send>
    <label id=\"_unexp.main\"/>
    <send>{}</send>
    <nop><action>
      <pauserestore variable=\"_unexp.pausedaddr\"/>
      <jump variable=\"_unexp.retaddr\"/>
    </action></nop>
    <label id=\"done\"/>
    <nop/>",
        answer("200 OK"),
        answer("202 Accepted")
    );
    let mut side = CallSide::new(&script, CALLEE, CALLER);
    side.call.begin(&mut side.run, Instant::ZERO);
    let request = |method: &str, number: u32| {
        format!(
            "{method} sip:b@{CALLEE} SIP/2.0\r\nVia: SIP/2.0/UDP {CALLER};branch=z9hG4bK{number}\r\n\
             From: <sip:a@a>;tag=a\r\nTo: <sip:b@b>\r\nCall-ID: 1-7@192.0.2.1\r\nCSeq: {number} {method}\r\n\
             Content-Length: 0\r\n\r\n"
        )
    };
    let mut answers = Vec::new();
    let at = |milliseconds| Instant::ZERO + Duration::from_millis(milliseconds);
    for (milliseconds, method) in [(0, "OPTIONS"), (300, "INFO"), (700, "INFO")] {
        let now = at(milliseconds);
        let bytes = request(method, milliseconds as u32 + 1);
        side.call.receive(&mut side.run, (now, now), bytes.as_bytes(), side.local);
        answers.extend(side.sent());
        assert_eq!(side.call.poll_timeout(), Some(at(1000)), "{method}");
    }
    side.call.handle_timeout(&mut side.run, at(1000));
    answers.extend(side.sent());
    let lines: Vec<String> = answers
        .iter()
        .map(|bytes| String::from_utf8_lossy(bytes).lines().next().unwrap().to_owned())
        .collect();
    assert_eq!(lines, ["SIP/2.0 202 Accepted", "SIP/2.0 202 Accepted", "SIP/2.0 200 OK"]);
    assert_eq!(side.call.outcome, Some(ScriptOutcome::Succeeded));
}

#[test]
fn what_a_failed_call_has_begun_is_ended() {
    let ringing = "<recv request=\"INVITE\"/>
<send><![CDATA[
    SIP/2.0 180 Ringing
    [last_Via:]
    [last_From:]
    [last_To:];tag=[pid]B[call_number]
    [last_Call-ID:]
    [last_CSeq:]
    Content-Length: 0
]]></send>
<recv request=\"CANCEL\"/>";
    let waiting = format!("{INVITE}\n<recv response=\"180\"/>\n<recv response=\"200\" timeout=\"3000\"/>");
    let mut caller = CallSide::new(&waiting, CALLER, CALLEE);
    let mut callee = CallSide::new(ringing, CALLEE, CALLER);
    exchange(&mut caller, &mut callee);
    assert_eq!(caller.call.outcome, Some(ScriptOutcome::Failed { step: 2, why: ScriptFailure::Timeout }));
    assert_eq!(callee.call.outcome, Some(ScriptOutcome::Succeeded), "it was cancelled");

    // The 2xx of the session is acknowledged, and the session is ended by a BYE along its route.
    let late = format!("{INVITE}\n<recv response=\"180\"/>\n<recv response=\"183\"/>");
    let mut caller = CallSide::new(&late, CALLER, CALLEE);
    let mut callee = CallSide::new(ANSWER, CALLEE, CALLER);
    let messages = exchange(&mut caller, &mut callee);
    let why = ScriptFailure::Unexpected("SIP/2.0 200 OK".to_owned());
    assert_eq!(caller.call.outcome, Some(ScriptOutcome::Failed { step: 2, why }));
    assert_eq!(callee.call.outcome, Some(ScriptOutcome::Succeeded), "{:?}", first_lines(&messages));
    let bye = messages.iter().find(|message| message.starts_with("BYE ")).unwrap();
    assert!(
        bye.starts_with("BYE sip:b@192.0.2.2:5060 SIP/2.0\r\n") && bye.contains("CSeq: 2 BYE\r\n"),
        "{bye}"
    );
    let routes = bye.find("two.example").zip(bye.find("one.example"));
    assert!(routes.is_some_and(|(two, one)| two < one), "{bye}");

    // If `ends_sessions` is false, the session stays open, so that the behaviour of the server can be observed.
    let mut caller = CallSide::new(&waiting, CALLER, CALLEE);
    caller.run.settings.ends_sessions = false;
    let mut callee = CallSide::new(ringing, CALLEE, CALLER);
    let messages = exchange(&mut caller, &mut callee);
    assert!(messages.iter().all(|message| !message.starts_with("CANCEL")), "{:?}", first_lines(&messages));
}

#[test]
fn repetitions_get_the_answer_again() {
    let mut callee = CallSide::new(ANSWER, CALLEE, CALLER);
    let mut caller = CallSide::new(&format!("{INVITE}\n{CALL}"), CALLER, CALLEE);
    caller.call.begin(&mut caller.run, Instant::ZERO);
    let invite = caller.sent().remove(0);
    callee.call.begin(&mut callee.run, Instant::ZERO);
    callee.call.receive(&mut callee.run, (Instant::ZERO, Instant::ZERO), &invite, address(CALLEE));
    assert_eq!(callee.sent().len(), 2);
    callee.call.receive(&mut callee.run, (Instant::ZERO, Instant::ZERO), &invite, address(CALLEE));
    let again: Vec<_> =
        callee.sent().iter().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).collect();
    assert_eq!(first_lines(&again), ["SIP/2.0 200 OK"]);
}

#[test]
fn actions_take_values_from_messages_and_decide() {
    let script = format!(
        "{INVITE}
        <recv response=\"180\"><action>
          <ereg regexp=\"tag=([0-9]+)([A-Z])\" search_in=\"hdr\" header=\"To:\" check_it=\"true\" assign_to=\"all,digits,letter\"/>
          <todouble assign_to=\"number\" variable=\"digits\"/>
          <add assign_to=\"number\" value=\"0.5\"/>
          <multiply assign_to=\"number\" value=\"2\"/>
          <test assign_to=\"is15\" variable=\"number\" compare=\"equal\" value=\"15\"/>
          <strcmp assign_to=\"order\" variable=\"letter\" value=\"B\"/>
          <assignstr assign_to=\"text\" value=\"  [$letter]-[$number]-[$all] \"/>
          <trim assign_to=\"text\"/>
          <log message=\"[$text] [$order] [$is15]\"/>
        </action></recv>
        <nop next=\"end\" test=\"is15\"/>
        <recv request=\"NEVER\"/>
        <label id=\"end\"/>
        <nop><action><exec int_cmd=\"stop_call\"/></action></nop>"
    );
    let mut caller = CallSide::new(&script, CALLER, CALLEE);
    let mut callee = CallSide::new(ANSWER, CALLEE, CALLER);
    exchange(&mut caller, &mut callee);
    assert_eq!(caller.call.outcome, Some(ScriptOutcome::Failed { step: 4, why: ScriptFailure::Stopped }));
    let logged = caller.did.iter().find_map(|did| match did {
        ScriptOutput::Log(text) => Some(text.as_str()),
        _ => None,
    });
    assert_eq!(logged, Some("B-15.000000-tag=7B  true"));
}

#[test]
fn credentials_answer_a_challenge_and_are_verified() {
    let register = |more: &str| {
        format!(
            "<send><![CDATA[
                REGISTER sip:[remote_ip] SIP/2.0
                Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
                From: <sip:[field0]@[remote_ip]>;tag=1
                To: <sip:[field0]@[remote_ip]>
                Call-ID: [call_id]
                CSeq: [cseq] REGISTER
                {more}
                Content-Length: 0
            ]]></send>"
        )
    };
    let script = format!(
        "{}<recv response=\"401\" auth=\"true\"/>{}<recv response=\"200\"/>",
        register("X-First: yes"),
        register("[field1]")
    );
    let registrar = "<recv request=\"REGISTER\"/>
        <send><![CDATA[
            SIP/2.0 401 Unauthorized
            [last_Via:]
            [last_From:]
            [last_To:];tag=2
            [last_Call-ID:]
            [last_CSeq:]
            WWW-Authenticate: Digest realm=\"lab\", nonce=\"n1\", qop=\"auth\"
            Content-Length: 0
        ]]></send>
        <recv request=\"REGISTER\"><action>
            <verifyauth assign_to=\"is_right\" username=\"alice\" password=\"zanzibar\"/>
        </action></recv>
        <nop next=\"right\" test=\"is_right\"/>
        <nop><action><exec int_cmd=\"stop_call\"/></action></nop>
        <label id=\"right\"/>
        <send><![CDATA[
            SIP/2.0 200 OK
            [last_Via:]
            [last_From:]
            [last_To:];tag=2
            [last_Call-ID:]
            [last_CSeq:]
            Content-Length: 0
        ]]></send>";
    let mut run = run_of(&script, CALLER, CALLEE);
    let file = InjectionFile::parse("SEQUENTIAL\nalice;[authentication username=alice password=zanzibar]\n")
        .unwrap();
    run.files.insert("users.csv".to_owned(), file);
    run.default_file = Some("users.csv".to_owned());
    let mut caller = CallSide::with(run, CALLER);
    let mut callee = CallSide::new(registrar, CALLEE, CALLER);
    let messages = exchange(&mut caller, &mut callee);
    assert_eq!(caller.call.outcome, Some(ScriptOutcome::Succeeded), "{messages:#?}");
    assert_eq!(callee.call.outcome, Some(ScriptOutcome::Succeeded));
    assert!(
        messages[2].contains("Authorization: Digest ") && messages[2].contains("CSeq: 2 REGISTER"),
        "{}",
        messages[2]
    );
}

#[test]
fn a_scenario_without_end_ends() {
    let mut caller =
        CallSide::new("<label id=\"again\"/><nop next=\"again\"/><recv request=\"NEVER\"/>", CALLER, CALLEE);
    caller.call.begin(&mut caller.run, Instant::ZERO);
    let Some(ScriptOutcome::Failed { why: ScriptFailure::Script(why), .. }) = &caller.call.outcome else {
        panic!("{:?}", caller.call.outcome)
    };
    assert!(why.contains("loops without a wait"), "{why}");
}

/// A response to the caller's request with this CSeq.
fn response(line: &str, cseq: &str, other: &str) -> String {
    format!(
        "SIP/2.0 {line}\r\nVia: SIP/2.0/UDP {CALLER};branch=z9hG4bK-7-1-0\r\nFrom: <sip:a@192.0.2.1>;tag=7Tag1\r\n\
         To: <sip:b@192.0.2.2>;tag=B1\r\nCall-ID: 1-7@192.0.2.1\r\nCSeq: {cseq}\r\nContact: <sip:b@{CALLEE}>\r\n\
         {other}Content-Length: 0\r\n\r\n"
    )
}

impl CallSide {
    /// Receives a message at this time. Returns the first lines of the messages that the call then sends.
    fn take(&mut self, milliseconds: u64, message: &str) -> Vec<String> {
        let now = Instant::ZERO + Duration::from_millis(milliseconds);
        self.call.receive(&mut self.run, (now, now), message.as_bytes(), self.local);
        self.said()
    }

    /// The first lines of the messages sent since the last call of this function, with CSeq.
    fn said(&mut self) -> Vec<String> {
        let texts = self.sent().into_iter().map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let line = |text: String| {
            let cseq = text.lines().find_map(|line| line.strip_prefix("CSeq: ")).unwrap_or_default();
            let first = text.lines().next().unwrap_or_default();
            format!("{} ({cseq})", first.split(" sip:").next().unwrap_or_default())
        };
        texts.map(line).collect()
    }

    /// The messages that the call sends without receiving any, until nothing more is due, with their times in ms.
    fn alone(&mut self) -> Vec<(u64, String)> {
        let mut sent = Vec::new();
        while let Some(due) = self.call.poll_timeout() {
            self.call.handle_timeout(&mut self.run, due);
            let at = due.as_nanos() / 1_000_000;
            sent.extend(self.said().into_iter().map(|line| (at, line)));
        }
        sent
    }
}

const OPTIONAL: &str = "<recv response=\"100\" optional=\"true\"/>
<recv response=\"486\" optional=\"true\" next=\"busy\"/>
<recv response=\"180\" optional=\"true\"/>
<recv response=\"200\"/>
<pause milliseconds=\"60000\"/>
<label id=\"busy\"/>
<nop/>";

/// As in SIPp, an optional message does not advance the scenario. If its step has `next`, the call continues at that
/// label.
#[test]
fn optional_messages_come_in_any_order() {
    let mut side = CallSide::new(&format!("{INVITE}\n{OPTIONAL}"), CALLER, CALLEE);
    side.call.begin(&mut side.run, Instant::ZERO);
    side.said();
    for line in ["100 Trying", "180 Ringing", "180 Still Ringing", "486 Busy Here"] {
        assert_eq!(side.call.outcome, None, "{line}");
        side.take(10, &response(line, "1 INVITE", ""));
    }
    assert_eq!(side.call.outcome, Some(ScriptOutcome::Succeeded));
}

/// The optional message ends the call, because no mandatory message follows.
#[test]
fn an_optional_message_ends_a_wait_for_nothing_else() {
    let mut side = CallSide::new("<recv request=\"ACK\" optional=\"true\"/>", CALLEE, CALLER);
    side.call.begin(&mut side.run, Instant::ZERO);
    side.take(0, &response("200 OK", "1 ACK", "").replace("SIP/2.0 200 OK", "ACK sip:b@b SIP/2.0"));
    assert_eq!(side.call.outcome, Some(ScriptOutcome::Succeeded));
}

/// RFC 3261 section 13.2.2.4: a repeated 2xx is acknowledged again, even if its content differs.
#[test]
fn a_final_response_that_comes_again_is_acknowledged_again() {
    let mut side = CallSide::new(&format!("{INVITE}\n{CALL}"), CALLER, CALLEE);
    side.call.begin(&mut side.run, Instant::ZERO);
    side.said();
    for other in ["", "Server: another\r\n"] {
        assert_eq!(side.take(10, &response("200 OK", "1 INVITE", other)), ["ACK (1 ACK)"], "{other}");
    }
    assert_eq!(side.call.outcome, None);
}

/// The BYE that ends a failed call is retransmitted like any request, until it is answered or times out.
#[test]
fn what_ends_a_failed_call_is_repeated() {
    let busy = "<recv response=\"200\"/><pause milliseconds=\"100000\"/>";
    let mut side = CallSide::new(&format!("{INVITE}\n{busy}"), CALLER, CALLEE);
    side.call.begin(&mut side.run, Instant::ZERO);
    side.said();
    side.take(10, &response("200 OK", "1 INVITE", ""));
    // The session is established, so stopping the call acknowledges the 2xx and ends the session.
    side.call.stop(&side.run, Instant::ZERO + Duration::from_millis(1000));
    assert_eq!(side.said(), ["ACK (1 ACK)", "BYE (2 BYE)"]);
    assert_eq!(side.take(1100, &response("200 OK", "1 INVITE", "")), ["ACK (1 ACK)"]);
    let again: Vec<u64> = side.alone().iter().map(|(at, _)| *at).collect();
    assert_eq!(again, [1500, 2500, 4500, 8500, 12_500, 16_500, 20_500, 24_500, 28_500, 32_500]);
    let mut answered = CallSide::new(&format!("{INVITE}\n{busy}"), CALLER, CALLEE);
    answered.call.begin(&mut answered.run, Instant::ZERO);
    answered.said();
    answered.take(10, &response("200 OK", "1 INVITE", ""));
    answered.call.stop(&answered.run, Instant::ZERO);
    answered.said();
    answered.take(20, &response("200 OK", "2 BYE", ""));
    assert_eq!(answered.alone(), []);
}

/// RFC 3261 section 12.2.1.1: the CSeq number of the BYE is above those of the earlier requests.
#[test]
fn the_numbers_of_a_dialog_grow_to_its_end() {
    let info = "<recv response=\"200\"/><send><![CDATA[
    INFO sip:b@[remote_ip] SIP/2.0
    Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
    From: <sip:a@[local_ip]>;tag=[pid]Tag[call_number]
    To: <sip:b@[remote_ip]>[peer_tag_param]
    Call-ID: [call_id]
    CSeq: 5 INFO
    Content-Length: 0

    ]]></send><pause milliseconds=\"100000\"/>";
    let mut side = CallSide::new(&format!("{INVITE}\n{info}"), CALLER, CALLEE);
    side.call.begin(&mut side.run, Instant::ZERO);
    side.said();
    side.take(10, &response("200 OK", "1 INVITE", ""));
    side.call.stop(&side.run, Instant::ZERO);
    assert_eq!(side.said(), ["ACK (1 ACK)", "BYE (6 BYE)"]);
}

/// If the callee's call is stopped, the caller still receives a final response to its INVITE.
#[test]
fn a_call_that_is_ended_leaves_no_invite_without_a_response() {
    let invite = |method: &str| {
        format!(
            "{method} sip:b@{CALLEE} SIP/2.0\r\nVia: SIP/2.0/UDP {CALLER};branch=z9hG4bK1\r\nFrom: <sip:a@a>;tag=a\r\n\
             To: <sip:b@b>\r\nCall-ID: 1-7@192.0.2.1\r\nCSeq: 1 {method}\r\nContact: <sip:a@{CALLER}>\r\nContent-Length: 0\r\n\r\n"
        )
    };
    for (cancels, expected) in [(false, "SIP/2.0 500"), (true, "SIP/2.0 487")] {
        let script =
            "<recv request=\"INVITE\"/><recv request=\"CANCEL\" optional=\"true\"/><recv request=\"ACK\"/>";
        let mut side = CallSide::new(script, CALLEE, CALLER);
        side.call.begin(&mut side.run, Instant::ZERO);
        side.take(0, &invite("INVITE"));
        if cancels {
            side.take(10, &invite("CANCEL"));
        }
        side.call.stop(&side.run, Instant::ZERO + Duration::from_secs(1));
        let said = side.said();
        assert!(said.len() == 1 && said[0].starts_with(expected), "{said:?}");
    }
}

/// RFC 3261 section 17.1: timers B and F are 64 T1.
#[test]
fn requests_are_given_up_after_64_first_pauses() {
    for (method, last) in [("INVITE", 31_500), ("OPTIONS", 31_500)] {
        let script = format!("{}\n<recv response=\"200\"/>", INVITE.replace("INVITE", method));
        let mut side = CallSide::new(&script, CALLER, CALLEE);
        side.call.begin(&mut side.run, Instant::ZERO);
        side.said();
        let (mut sent, mut over) = (Vec::new(), 0);
        while let (Some(due), None) = (side.call.poll_timeout(), &side.call.outcome) {
            side.call.handle_timeout(&mut side.run, due);
            over = due.as_nanos() / 1_000_000;
            sent.extend(side.said().iter().map(|_| over));
        }
        assert_eq!((sent.last().copied(), over), (Some(last), 32_000), "{method}: {sent:?}");
        assert_eq!(
            side.call.outcome,
            Some(ScriptOutcome::Failed { step: 1, why: ScriptFailure::NoAnswer }),
            "{method}"
        );
    }
}

/// After a time-out, the call continues at the label of `ontimeout`. If the label is after the last step, the call
/// fails.
#[test]
fn what_takes_too_long_goes_where_the_scenario_says() {
    let start = INVITE.replace("<send ", "<send ontimeout=\"gone\" ");
    let mut side = CallSide::new(
        &format!(
            "{start}\n<recv response=\"200\"/><pause milliseconds=\"1000000\"/><label id=\"gone\"/><nop/>"
        ),
        CALLER,
        CALLEE,
    );
    side.call.begin(&mut side.run, Instant::ZERO);
    side.alone();
    assert_eq!(side.call.outcome, Some(ScriptOutcome::Succeeded));
    let mut side = CallSide::new(
        "<recv request=\"INVITE\" timeout=\"100\" ontimeout=\"end\"/><label id=\"end\"/>",
        CALLEE,
        CALLER,
    );
    side.call.begin(&mut side.run, Instant::ZERO);
    side.alone();
    assert_eq!(side.call.outcome, Some(ScriptOutcome::Failed { step: 0, why: ScriptFailure::Timeout }));
}

/// `lost` drops messages as if the network lost them, including retransmissions.
#[test]
fn what_is_lost_never_comes() {
    let mut side = CallSide::new("<recv request=\"INVITE\" lost=\"100\"/><nop/>", CALLEE, CALLER);
    side.call.begin(&mut side.run, Instant::ZERO);
    side.take(0, &response("200 OK", "1 INVITE", "").replace("SIP/2.0 200 OK", "INVITE sip:b@b SIP/2.0"));
    assert_eq!(side.call.outcome, None);
    let mut side = CallSide::new(
        &format!("{}\n{CALL}", INVITE.replace("<send ", "<send lost=\"100\" ")),
        CALLER,
        CALLEE,
    );
    side.call.begin(&mut side.run, Instant::ZERO);
    assert_eq!(side.said(), Vec::<String>::new());
    assert_eq!(side.alone(), []);
}

/// A response time whose start no step sets is measured from the start of the call.
#[test]
fn response_times_begin_with_the_call() {
    let mut side =
        CallSide::new("<pause milliseconds=\"300\"/><recv request=\"INVITE\" rtd=\"1\"/>", CALLEE, CALLER);
    side.call.begin(&mut side.run, Instant::ZERO);
    side.alone();
    side.take(350, &response("200 OK", "1 INVITE", "").replace("SIP/2.0 200 OK", "INVITE sip:b@b SIP/2.0"));
    let expected = ScriptOutput::ResponseTime { name: 0, took: Duration::from_millis(350) };
    assert_eq!(side.did, [expected]);
}
