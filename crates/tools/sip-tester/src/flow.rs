//! The tester for the flows of an experiment.

use netrig_sip::settings::Connections;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};

use netrig_core::{Duration, Sample};
use netrig_host::Clock;
use netrig_sip::load::{Pace, Scan, Side};
use netrig_sip::settings::LoadSettings;
use netrig_sip_net::load::{Carrier, LoadOrder};
use netrig_sip_net::tap::{MessageTap, MessageTaps, PassedMessage};
use netrig_sip_net::{
    EndAddress, FlowTester, KeepOrder, MessageKeeper, RuleReport, ScenarioCalls, ScenarioRecord, TesterFault,
};

use crate::conformance::{ConformancePlan, GateReport, PurposeResult, PurposeVerdict};
use crate::keep::Keeper;
use crate::scenario::{
    CallScript, InjectionError, InjectionFile, ScenarioDocument, ScenarioError, ScenarioFormError,
    ScenarioOrder, ScenarioWatch, ScriptConnections, ScriptMedia, ScriptSettings, ScriptSide, ScriptWords,
    read_scenario_form, read_sipp_scenario, run_scenario_by,
};
use netrig_core::number::counted;

/// Runs conformance tests and scenarios, and keeps messages, for the flows of an experiment.
#[derive(Clone, Copy, Debug, Default)]
pub struct ExperimentTester;

impl FlowTester for ExperimentTester {
    fn test_rules(
        &self,
        load: &LoadOrder,
        stop: &AtomicBool,
        taps: Option<&dyn MessageTaps>,
    ) -> Result<RuleReport, TesterFault> {
        let plan = ConformancePlan::before_load(load)?;
        let tap = taps.map(|taps| Mutex::new(taps.tap()));
        let result = plan.run(stop, &|row| {
            if let Some(tap) = &tap {
                pass(row, &mut **tap.lock().unwrap_or_else(PoisonError::into_inner));
            }
        })?;
        let failed = result.purposes.iter().filter(|row| row.verdict == Some(PurposeVerdict::Fail));
        let failed = failed.map(|row| row.purpose.id.to_owned()).collect();
        let report = GateReport::of(plan.role, &result);
        Ok(RuleReport {
            role: plan.role.name().to_owned(),
            run: report.run as u64,
            failed,
            inconclusive: report.inconclusive.len() as u64,
            lines: report.lines(),
        })
    }

    fn keep(&self, order: &KeepOrder) -> Result<Box<dyn MessageKeeper>, TesterFault> {
        Ok(Box::new(Keeper::begin(order)?))
    }

    fn scenario(
        &self,
        load: &LoadOrder,
        settings: &LoadSettings,
    ) -> Result<Box<dyn ScenarioCalls>, TesterFault> {
        let text = settings.script().unwrap_or_default();
        let FlowScenario { script, files } =
            FlowScenario::read(text, &settings.keys, settings.values_text.as_deref())?;
        Ok(Box::new(FlowCalls { order: order(load, settings, script, files)? }))
    }
}

/// Passes the messages of a test purpose to `tap`. A purpose whose verdict is not PASS counts as a failed attempt. The
/// duration is zero, because a purpose may wait deliberately and must not count as slow.
fn pass(row: &PurposeResult, tap: &mut dyn MessageTap) {
    for message in &row.evidence {
        tap.message(&PassedMessage {
            at_ns: message.at_ns,
            is_sent: message.is_sent,
            local: message.local,
            peer: message.peer,
            transport: message.transport,
            is_of_script: true,
            bytes: &message.bytes,
        });
    }
    let failure =
        row.verdict.filter(|verdict| *verdict != PurposeVerdict::Pass).map(|_| row.observation.as_str());
    let call_ids = row.evidence.iter().filter_map(|message| Scan::of(&message.bytes).call_id);
    for call_id in call_ids.collect::<BTreeSet<_>>() {
        tap.call_ended(Side::Caller, &String::from_utf8_lossy(call_id), failure, Duration::ZERO);
    }
    tap.hand_on();
}

/// A scenario of a flow, and the injection file with the values of its calls.
#[derive(Clone, Debug)]
pub struct FlowScenario {
    script: CallScript,
    files: Vec<(String, InjectionFile)>,
}

/// Why a scenario cannot be used by a flow.
#[derive(Debug, thiserror::Error)]
pub enum FlowScenarioError {
    /// The SIPp scenario is invalid.
    #[error("line {}: {}", .0.line, .0.what)]
    Sipp(ScenarioError),
    /// The scenario in netrig's own form is invalid.
    #[error(transparent)]
    Form(#[from] ScenarioFormError),
    /// The values of its calls are invalid.
    #[error("the values: {0}")]
    Values(#[from] InjectionError),
    /// It uses a feature that flows of an experiment do not have.
    #[error("line {line}: {why}")]
    NotOfFlows {
        /// The line, from 1.
        line: usize,
        /// The feature, and its replacement.
        why: String,
    },
}

impl FlowScenarioError {
    /// The line in the text of the scenario, from 1, if known.
    pub const fn line(&self) -> Option<usize> {
        match self {
            Self::Sipp(ScenarioError { line, .. })
            | Self::Form(ScenarioFormError::Place { line, .. })
            | Self::NotOfFlows { line, .. } => Some(*line),
            Self::Form(ScenarioFormError::Toml(_)) | Self::Values(_) => None,
        }
    }
}

impl FlowScenario {
    /// Reads a SIPp scenario (XML, which begins with `<`) or one in netrig's own form (TOML), with values for its own keywords
    /// and the text of an injection file.
    ///
    /// # Errors
    /// If the scenario is invalid, or uses a feature that flows do not have: programs, other processes, media files, or
    /// a first step that waits for a message.
    pub fn read(
        text: &str,
        keys: &BTreeMap<String, String>,
        values: Option<&str>,
    ) -> Result<Self, FlowScenarioError> {
        let keys: Vec<_> = keys.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
        let words = ScriptWords { keys: &keys };
        let script = if text.trim_start_matches('\u{feff}').trim_start().starts_with('<') {
            read_sipp_scenario(text, words).map_err(FlowScenarioError::Sipp)?.0
        } else {
            read_scenario_form(text, words)?
        };
        let file = values.map(InjectionFile::parse).transpose()?;
        let refuse = |line: usize, why: &str| FlowScenarioError::NotOfFlows { line, why: why.to_owned() };
        if let Some(line) = script.starts_programs() {
            return Err(refuse(
                line,
                "it starts a program, which a flow of an experiment cannot: remove <exec command>",
            ));
        }
        if let Some((line, what)) = script.needs_link() {
            return Err(refuse(
                line,
                &format!("<{what}> needs another process of the test, which a flow does not have"),
            ));
        }
        let plays = script
            .media()
            .find(|(_, media)| matches!(media, ScriptMedia::Capture(..) | ScriptMedia::Stream(_)));
        if let Some((line, _)) = plays {
            return Err(refuse(
                line,
                "it plays a media file, which is not part of the experiment's file: use a flow of voice for media",
            ));
        }
        if ScriptSide::of(&script) != ScriptSide::Caller {
            let line = script.steps.first().map_or(1, |step| step.line);
            return Err(refuse(
                line,
                "its first step receives a message, but the users of a flow start its calls",
            ));
        }
        let named: Vec<&str> = script.named_files().into_iter().collect();
        let files = match (file, &*named, script.first_field()) {
            (None, _, Some(line)) => {
                return Err(refuse(
                    line,
                    "its fields need values: give the flow `values_file` or `values_text`",
                ));
            }
            (Some(_), [_, other, ..], Some(line)) => {
                return Err(refuse(
                    line,
                    &format!("it uses a second file of values, {other}: a flow has one"),
                ));
            }
            // The file has the name by which the scenario refers to it.
            (Some(file), [name], _) => vec![((*name).to_owned(), file)],
            (Some(file), ..) => vec![("values".to_owned(), file)],
            (None, ..) => Vec::new(),
        };
        Ok(Self { script, files })
    }
}

/// The order for a flow whose calls follow a scenario.
fn order(
    load: &LoadOrder,
    settings: &LoadSettings,
    script: CallScript,
    files: Vec<(String, InjectionFile)>,
) -> Result<ScenarioOrder, TesterFault> {
    let (plan, transport) = (&load.plan, load.carrier.transport());
    let tls = match &load.carrier {
        Carrier::Tls(_, tls) => Some(tls.clone()),
        _ => None,
    };
    let line_tls = tls.as_ref().map(|tls| (tls.client.clone(), tls.name.clone()));
    let address = EndAddress::towards(load.target, transport, load.local, line_tls)?;
    let address = EndAddress { server_tls: tls.and_then(|tls| tls.server), ..address };
    let service = settings.service.clone().unwrap_or_else(|| "service".to_owned());
    // A closed loop needs users; an open loop does not.
    let users = settings.users.or(matches!(plan.pace, Pace::Closed(_)).then_some(plan.users));
    let usual = ScenarioOrder::new(script, address);
    Ok(ScenarioOrder {
        settings: ScriptSettings {
            username: service.clone(),
            service,
            pause: settings.script_pause(),
            password: settings.password.clone().unwrap_or(usual.settings.password),
            t2: plan.timing.t2,
            // The number differs between the flows of a run, and between replications. Each run has its own server.
            run_number: (plan.seed & 0x3FFF_FFFF) as u32,
            users: users.unwrap_or(0),
            ..usual.settings
        },
        files,
        connections: match load.carrier.connecting() {
            Some(Connections::PerAttempt) => ScriptConnections::PerCall,
            _ => ScriptConnections::One,
        },
        pace: plan.pace.clone(),
        lasts: Some(plan.duration),
        count: plan.count,
        users,
        most_open: plan.calls as usize,
        seed: plan.seed,
        may_test: load.may_test,
        ..usual
    })
}

/// The calls of a flow that are not yet started.
struct FlowCalls {
    order: ScenarioOrder,
}

impl ScenarioCalls for FlowCalls {
    fn carry_out(
        self: Box<Self>,
        clock: Clock,
        stop: &AtomicBool,
        taps: Option<&dyn MessageTaps>,
        samples: &mut dyn FnMut(Vec<Sample>),
    ) -> Result<ScenarioRecord, TesterFault> {
        let watch = ScenarioWatch { stop, taps, ready: &mut |_| {}, second: &mut |_| {} };
        let document = run_scenario_by(clock, self.order, watch, samples, env!("CARGO_PKG_VERSION"))?;
        Ok(ScenarioRecord { notes: notes(&document), faults: document.faults })
    }
}

/// The notes for the run from the document of its scenario, in sentences.
fn notes(document: &ScenarioDocument) -> Vec<String> {
    let stopped = document.stopped.iter().map(|why| format!("the scenario ended the load: {why}"));
    let failures = document.failures.iter().map(|row| {
        let step = row.step.map(|step| format!(" at step {step} ({})", row.what)).unwrap_or_default();
        format!("{} failed{step}: {}", counted(row.count, "call", "calls"), row.why)
    });
    let open = (document.open > 0)
        .then(|| format!("{} ended with the run", counted(document.open, "call was", "calls were")));
    let delays = document.delays.iter().map(|row| {
        let span = |us: f64| Duration::from_secs_f64(us.max(0.0) / 1e6);
        format!(
            "{}: {} measured, mean {}, p95 {}, most {}",
            row.name,
            row.n,
            span(row.mean_us),
            span(row.p95_us),
            span(row.max_us)
        )
    });
    let counters = document.counters.iter().map(|row| format!("counter {}: {}", row.name, row.count));
    let log = document.log.iter().map(|line| format!("the scenario says: {line}"));
    stopped.chain(failures).chain(open).chain(delays).chain(counters).chain(log).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct SeenMessages {
        messages: Vec<Vec<u8>>,
        ended: Vec<(String, Option<String>)>,
    }

    impl MessageTap for SeenMessages {
        fn message(&mut self, message: &PassedMessage<'_>) {
            assert!(message.is_of_script);
            self.messages.push(message.bytes.to_vec());
        }

        fn ended(&mut self, _: &netrig_sip::load::Record) {}

        fn call_ended(&mut self, _: Side, call_id: &str, failure: Option<&str>, _: Duration) {
            self.ended.push((call_id.to_owned(), failure.map(str::to_owned)));
        }

        fn hand_on(&mut self) {}
    }

    #[test]
    fn the_messages_of_a_test_purpose_are_handed_on_with_its_verdict() {
        let purpose = crate::conformance::catalogue().next().unwrap();
        let message = |call_id: &str| crate::conformance::EvidenceMessage {
            at_ns: 1,
            is_sent: true,
            local: "192.0.2.1:5060".parse().unwrap(),
            peer: "192.0.2.2:5060".parse().unwrap(),
            transport: netrig_sip::header::Transport::Udp,
            bytes: format!("OPTIONS sip:a SIP/2.0\r\nCall-ID: {call_id}\r\n\r\n").into(),
        };
        let handed_on = |verdict| {
            let row = PurposeResult {
                purpose,
                verdict: Some(verdict),
                observation: "it answers 500".to_owned(),
                evidence: ["a", "b", "a"].map(message).to_vec(),
                questions: Vec::new(),
                took: Duration::ZERO,
            };
            let mut seen = SeenMessages::default();
            pass(&row, &mut seen);
            assert_eq!(seen.messages.len(), 3);
            seen.ended
        };
        let ended = |why: Option<&str>| {
            ["a", "b"].map(|call_id| (call_id.to_owned(), why.map(str::to_owned))).to_vec()
        };
        assert_eq!(handed_on(PurposeVerdict::Fail), ended(Some("it answers 500")));
        assert_eq!(handed_on(PurposeVerdict::Pass), ended(None));
    }

    /// A SIPp scenario that sends an OPTIONS with these header fields. The steps `rest` precede its response.
    fn sipp(message: &str, rest: &str) -> String {
        format!(
            "<?xml version=\"1.0\"?>\n<scenario name=\"o\"><send><![CDATA[\nOPTIONS sip:[service]@[remote_ip]:[remote_port] SIP/2.0\n{message}\
             Call-ID: [call_id]\nCSeq: 1 OPTIONS\nContent-Length: 0\n\n]]></send>\n{rest}<recv response=\"200\"/></scenario>"
        )
    }

    fn refused(text: &str, values: Option<&str>) -> (Option<usize>, String) {
        let error = FlowScenario::read(text, &BTreeMap::new(), values).unwrap_err();
        (error.line(), error.to_string())
    }

    #[test]
    fn a_scenario_is_read_with_its_keywords_and_values() {
        let keys = BTreeMap::from([("tenant".to_owned(), "blue".to_owned())]);
        let text = sipp("X-Tenant: [tenant]\nX-User: [field0 file=\"users.csv\"]\n", "");
        let read = FlowScenario::read(&text, &keys, Some("SEQUENTIAL\nanna\n")).unwrap();
        // The file has the name that the scenario uses.
        assert_eq!(read.files.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["users.csv"]);
        assert_eq!(read.script.steps.len(), 2);
    }

    #[test]
    fn what_a_flow_has_not_is_refused_with_its_line() {
        let (line, why) = refused("<scenario><send>", None);
        assert!(line.is_some() && why.starts_with("line "), "{why}");
        let (_, why) = refused("steps = 3", None);
        assert!(why.contains("steps") || why.contains("line"), "{why}");
        let (line, why) = refused(&sipp("X: [field0]\n", ""), None);
        assert!(line.is_some() && why.contains("`values_file`"), "{why}");
        let two = sipp("X: [field0 file=\"a\"] [field0 file=\"b\"]\n", "");
        assert!(refused(&two, Some("SEQUENTIAL\nx\n")).1.contains("a second file of values"));
        assert!(refused(&sipp("", ""), Some("SOMEHOW\n")).1.starts_with("the values: line 1"));
        let (line, why) = refused(&sipp("", "<nop><action><exec command=\"ls\"/></action></nop>"), None);
        assert!(line.is_some() && why.contains("starts a program"), "{why}");
        let plays = "<nop><action><exec play_pcap_audio=\"g711a.pcap\"/></action></nop>";
        assert!(refused(&sipp("", plays), None).1.contains("media file"));
        let callee = "<?xml version=\"1.0\"?>\n<scenario><recv request=\"INVITE\"/></scenario>";
        assert!(refused(callee, None).1.contains("first step receives a message"));
    }
}
