//! Properties that hold for any bytes that are read as a scenario or an injection file. `fuzz/` searches for a
//! counterexample, and the test of the corpus replays its inputs.

use std::net::SocketAddr;

use netrig_core::{Duration, Instant, Seeds};
use netrig_sip::header::Transport;
use netrig_sip_tester::scenario::{
    InjectionFile, ScriptCall, ScriptOutput, ScriptRun, ScriptSettings, ScriptWords, read_scenario_form,
    read_sipp_scenario, write_scenario_form,
};

const RESPONSE: &[u8] = b"SIP/2.0 401 Unauthorized\r\nVia: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK-7-1-0\r\nFrom: <sip:a@b>;tag=1\r\n\
    To: <sip:c@d>;tag=2\r\nCall-ID: 1\r\nCSeq: 1 INVITE\r\nContact: <sip:e@f>\r\n\
    WWW-Authenticate: Digest realm=\"r\", nonce=\"n\"\r\n\r\nbody";

const REQUEST: &[u8] = b"INVITE sip:a@b SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.2\r\nCSeq: 7 INVITE\r\n\r\n";

/// Reading the bytes as a scenario gives a scenario, or an error with its line. A call that follows the scenario ends
/// or waits for every input, and its messages have at most 70,000 bytes. Reading the bytes as an injection file gives a
/// file or an error.
pub fn check(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    injected(&text);
    form(&text);
    let (script, warnings) = match read_sipp_scenario(&text, ScriptWords { keys: &[] }) {
        Ok(read) => read,
        Err(error) => {
            assert!(error.line <= text.lines().count() + 1, "{error}");
            return;
        }
    };
    assert!(warnings.iter().all(|warning| warning.line <= text.lines().count() + 1), "{warnings:?}");
    assert!(script.steps.iter().all(|step| !step.words().is_empty()));
    let written = write_scenario_form(&script);
    form(&written);
    // A scenario with `[file` would read files at any path.
    if text.contains("[file") {
        return;
    }
    let steps = script.steps.len();
    let mut run = ScriptRun::new(script, settings(), Seeds::new(1).stream("any"));
    let mut now = Instant::ZERO;
    let Ok(mut call) = ScriptCall::new(&mut run, 1, "1".to_owned(), Some(0), 0) else { return };
    call.begin(&mut run, now);
    for round in 0..20_usize {
        while let Some(output) = call.outputs.pop_front() {
            if let ScriptOutput::Send(bytes) = output {
                assert!(bytes.len() <= 70_000, "{}", bytes.len());
            }
        }
        assert!(call.step() <= steps);
        let message = if round % 2 == 0 { RESPONSE } else { REQUEST };
        call.receive(&mut run, (now, now), message, SocketAddr::from(([192, 0, 2, 1], 5060)));
        now = call.poll_timeout().unwrap_or(now + Duration::from_secs(1)).max(now);
        call.handle_timeout(&mut run, now);
    }
}

/// Reading the text in netrig's own form gives a scenario or an error. If the scenario is written, read and written
/// again, the text is the same.
fn form(text: &str) {
    let Ok(script) = read_scenario_form(text, ScriptWords { keys: &[] }) else { return };
    let written = write_scenario_form(&script);
    let again = read_scenario_form(&written, ScriptWords { keys: &[] });
    let again = again.unwrap_or_else(|error| panic!("{error}\n{written}"));
    assert_eq!(write_scenario_form(&again), written);
}

fn injected(text: &str) {
    let Ok(mut file) = InjectionFile::parse(text) else { return };
    let mut draws = Seeds::new(1).stream("any");
    for user in 0..3 {
        if let Ok(Some(line)) = file.next_line(Some(user), &mut draws) {
            file.field(line, user).expect("the line is one of the file");
        }
    }
    file.index_by(0);
    let _ = file.insert("a;b");
    let _ = file.replace(0, "c;d");
}

fn settings() -> ScriptSettings {
    ScriptSettings {
        codec: None,
        ends_sessions: true,
        remote: SocketAddr::from(([192, 0, 2, 2], 5060)),
        remote_host: "192.0.2.2".to_owned(),
        local: SocketAddr::from(([192, 0, 2, 1], 5060)),
        media: SocketAddr::from(([192, 0, 2, 1], 6000)),
        transport: Transport::Udp,
        service: "service".to_owned(),
        pause: Duration::from_secs(1),
        patience: Some(Duration::from_secs(5)),
        username: "alice".to_owned(),
        password: "zanzibar".to_owned(),
        t2: Duration::from_secs(4),
        answers_by_itself: true,
        run_number: 7,
        users: 1,
        version: "netrig".to_owned(),
    }
}
