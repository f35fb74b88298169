//! Reads SIPp 3.6 scenarios.

mod action;

use std::collections::BTreeMap;

use netrig_core::Duration;

use super::action::ScriptDistribution;
use super::script::{
    CallScript, ExpectedMessage, LONGEST_TIME, MessagePresence, ReceiveStep, ScriptPause, ScriptStep,
    SendStep, StepBranch, StepCondition, StepKind, place_of,
};
use super::template::{ScriptTemplate, ScriptWords};
use super::variables::{VariableId, VariableScope};
use super::xml::{LaxElement, LaxXmlError, ScenarioWarning, read_lax_xml};

/// Why a SIPp scenario cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct ScenarioError {
    /// Line, from 1.
    pub line: usize,
    /// The error, and the expected value.
    pub what: String,
}

impl From<LaxXmlError> for ScenarioError {
    fn from(LaxXmlError { line, what }: LaxXmlError) -> Self {
        Self { line, what }
    }
}

/// Reads a SIPp scenario. Also returns warnings about deviations that are accepted.
///
/// # Errors
/// If the text is not a SIPp scenario, or uses an unsupported feature.
pub fn read_sipp_scenario(
    text: &str,
    words: ScriptWords<'_>,
) -> Result<(CallScript, Vec<ScenarioWarning>), ScenarioError> {
    let (root, warnings) = read_lax_xml(text)?;
    if root.name != "scenario" {
        return Err(ScenarioError {
            line: root.line,
            what: format!("expected <scenario>, found <{}>", root.name),
        });
    }
    let mut reader = SippReader {
        script: CallScript::default(),
        words,
        warnings,
        methods: Vec::new(),
        labels: ScriptLabels::default(),
    };
    reader.scenario(&root)?;
    if let Some((line, what)) = reader.script.wrong_pattern() {
        return error(line, what);
    }
    reader.warnings.sort_by_key(|warning| warning.line);
    Ok((reader.script, reader.warnings))
}

/// The index of the step at each label.
#[derive(Default)]
struct ScriptLabels {
    steps: BTreeMap<String, usize>,
    opening: BTreeMap<String, usize>,
}

/// A parsed step whose jump targets are names of labels, not indices.
struct UnlinkedStep {
    step: ScriptStep,
    next: Option<(String, Option<VariableId>, f64)>,
    on_timeout: Option<String>,
}

struct SippReader<'a> {
    script: CallScript,
    words: ScriptWords<'a>,
    warnings: Vec<ScenarioWarning>,
    /// Methods of the requests so far that start no named transaction.
    methods: Vec<String>,
    labels: ScriptLabels,
}

fn error<T>(line: usize, what: impl Into<String>) -> Result<T, ScenarioError> {
    Err(ScenarioError { line, what: what.into() })
}

impl SippReader<'_> {
    fn warn(&mut self, line: usize, what: impl Into<String>) {
        self.warnings.push(ScenarioWarning { line, what: what.into() });
    }

    fn scenario(&mut self, root: &LaxElement) -> Result<(), ScenarioError> {
        self.script.name = root.attribute("name").map(|name| name.value.clone()).unwrap_or_default();
        let (mut steps, mut opening) = (Vec::new(), Vec::new());
        let mut may_be_optional = None;
        for element in &root.children {
            if let Some(UnlinkedStep { step: ScriptStep { kind: StepKind::TimeWait(_), .. }, .. }) =
                steps.last()
                && !matches!(&*element.name, "CallLengthRepartition" | "ResponseTimeRepartition" | "label")
            {
                return error(element.line, "<timewait> has to be the last step");
            }
            match &*element.name {
                // These elements only affect the screens of SIPp.
                "CallLengthRepartition" | "ResponseTimeRepartition" => {}
                "Global" => self.declare(element, Some(VariableScope::Global))?,
                "User" => self.declare(element, Some(VariableScope::User))?,
                "Reference" => self.declare(element, None)?,
                "label" => {
                    let (name, line) = (self.required(element, "id")?, element.line);
                    if self.labels.steps.insert(name.clone(), steps.len()).is_some() {
                        return error(line, format!("the label {name} is defined a second time"));
                    }
                }
                "init" => self.opening(element, &mut opening)?,
                _ => {
                    let step = self.step(element)?;
                    match &step.step.kind {
                        StepKind::Receive(ReceiveStep { presence: MessagePresence::Mandatory, .. })
                        | StepKind::ReceiveCommand { is_optional: false, .. } => may_be_optional = None,
                        StepKind::Receive(_) | StepKind::ReceiveCommand { .. } => {
                            may_be_optional = Some(element.line)
                        }
                        _ => {
                            if let Some(line) = may_be_optional {
                                return error(
                                    line,
                                    format!(
                                        "the optional message here has no mandatory one between it and <{}> of line {}",
                                        element.name, element.line
                                    ),
                                );
                            }
                        }
                    }
                    steps.push(step);
                }
            }
        }
        if steps.is_empty() {
            return error(root.line, "the scenario has no step");
        }
        self.script.on_unexpected = self.labels.steps.get("_unexp.main").copied();
        let count = steps.len();
        self.script.steps = link(steps, &self.labels.steps, count)?;
        let count = opening.len();
        self.script.opening = link(opening, &self.labels.opening, count)?;
        self.check_variables(root.line);
        Ok(())
    }

    fn check_variables(&mut self, line: usize) {
        let once: Vec<String> = self
            .script
            .variables
            .iter()
            .filter(|variable| variable.uses == 1 && !variable.name.starts_with("_unexp."))
            .map(|variable| variable.name.clone())
            .collect();
        for name in once {
            self.warn(
                line,
                format!("the variable {name} is used only once; SIPp refuses that without <Reference>"),
            );
        }
    }

    fn declare(&mut self, element: &LaxElement, scope: Option<VariableScope>) -> Result<(), ScenarioError> {
        for name in self.required(element, "variables")?.split(',') {
            match scope {
                Some(scope) => _ = self.script.variables.declared(name, scope),
                None if self.script.variables.find(name).is_some() => _ = self.script.variables.used(name),
                None => return error(element.line, format!("there is no variable {}", name.trim())),
            }
        }
        Ok(())
    }

    fn opening(
        &mut self,
        element: &LaxElement,
        opening: &mut Vec<UnlinkedStep>,
    ) -> Result<(), ScenarioError> {
        for child in &element.children {
            match &*child.name {
                "nop" => opening.push(self.step(child)?),
                "label" => {
                    let name = self.required(child, "id")?;
                    if self.labels.opening.insert(name.clone(), opening.len()).is_some() {
                        return error(child.line, format!("the label {name} is defined a second time"));
                    }
                }
                other => {
                    return error(
                        child.line,
                        format!("expected <nop> or <label> within <init>, found <{other}>"),
                    );
                }
            }
        }
        Ok(())
    }

    fn step(&mut self, element: &LaxElement) -> Result<UnlinkedStep, ScenarioError> {
        let kind = match &*element.name {
            "send" => StepKind::Send(self.send(element)?),
            "recv" => StepKind::Receive(self.receive(element)?),
            "pause" => StepKind::Pause(self.pause(element)?),
            "timewait" => StepKind::TimeWait(self.pause(element)?),
            "nop" => StepKind::Nothing,
            "sendCmd" => StepKind::SendCommand {
                to: element.attribute("dest").map(|to| to.value.clone()),
                message: self.template(&self.data(element)?, element.line)?,
            },
            "recvCmd" => StepKind::ReceiveCommand {
                from: element.attribute("src").map(|from| from.value.clone()),
                is_optional: self.presence(element)? != MessagePresence::Mandatory,
            },
            "DefaultMessage" => return error(element.line, "<DefaultMessage> is not supported"),
            other => {
                return error(
                    element.line,
                    format!(
                        "<{other}> is not a step: expected send, recv, pause, timewait, nop, label, sendCmd or recvCmd"
                    ),
                );
            }
        };
        self.common(element, kind)
    }

    /// Reads the attributes that all kinds of steps have.
    fn common(&mut self, element: &LaxElement, kind: StepKind) -> Result<UnlinkedStep, ScenarioError> {
        let line = element.line;
        let names = |value: &str| value.split(',').map(|name| name.trim().to_owned()).collect::<Vec<_>>();
        let starts =
            element.attribute("start_rtd").map(|names_of| names(&names_of.value)).unwrap_or_default();
        let starts = starts.iter().map(|name| place_of(&mut self.script.response_times, name)).collect();
        let ends = element.attribute("rtd").map(|rtd| {
            // The name of a response time is its number; `true` stands for the first.
            let name = if rtd.value == "true" { "1" } else { rtd.value.trim() };
            place_of(&mut self.script.response_times, name)
        });
        let counter = element
            .attribute("counter")
            .map(|counter| place_of(&mut self.script.counters, counter.value.trim()));
        let lost = self.number(element, "lost")?.unwrap_or(0.0) / 100.0;
        if !(0.0..=1.0).contains(&lost) {
            return error(line, "lost: expected 0 to 100 (percent)");
        }
        let mut actions = Vec::new();
        for child in element.children.iter().filter(|child| child.name == "action") {
            for action in &child.children {
                actions.push(self.action(action)?);
            }
        }
        let condition = match self.variable(element, "condexec")? {
            None => None,
            Some(variable) => {
                let is_inverse = self.truth(element, "condexec_inverse")?.unwrap_or(false);
                Some(StepCondition { variable, is_inverse })
            }
        };
        let next = match element.attribute("next") {
            None => None,
            Some(label) => {
                let chance = self.number(element, "chance")?.unwrap_or(1.0);
                if !(0.0..=1.0).contains(&chance) {
                    return error(line, "chance: expected 0 to 1");
                }
                Some((label.value.clone(), self.variable(element, "test")?, chance))
            }
        };
        let on_timeout = element.attribute("ontimeout").map(|label| label.value.clone());
        let ends_again = self.truth(element, "repeat_rtd")?.unwrap_or(false);
        let display = element.attribute("display").map(|display| display.value.clone());
        let step = ScriptStep {
            line,
            kind,
            starts,
            ends,
            ends_again,
            counter,
            lost,
            actions,
            condition,
            branch: None,
            on_timeout: None,
            display,
        };
        Ok(UnlinkedStep { step, next, on_timeout })
    }

    fn send(&mut self, element: &LaxElement) -> Result<SendStep, ScenarioError> {
        let line = element.line;
        let message = self.template(&self.data(element)?, line)?;
        let start = message.beginning();
        let is_response = start.starts_with("SIP/2.0");
        let method = start.split([' ', '\r']).next().unwrap_or_default().to_owned();
        if let Some(wrong) = element.attribute("response_txn") {
            return error(wrong.line, "response_txn is for received messages");
        }
        let (begins, acknowledges) = (element.attribute("start_txn"), element.attribute("ack_txn"));
        if is_response && (begins.is_some() || acknowledges.is_some()) {
            return error(line, "a response neither starts nor acknowledges a transaction");
        }
        if begins.is_some() && method == "ACK" {
            return error(line, "an ACK starts no transaction");
        }
        if acknowledges.is_some() && method != "ACK" {
            return error(line, "ack_txn is for ACK only");
        }
        if !is_response && begins.is_none() && acknowledges.is_none() && !method.is_empty() {
            self.methods.push(method);
        }
        let mut place = |name: &str| place_of(&mut self.script.transactions, name);
        Ok(SendStep {
            begins: begins.map(|name| place(&name.value)),
            acknowledges: acknowledges.map(|name| place(&name.value)),
            message,
            again_after: self.milliseconds(element, "retrans")?,
            timeout: self.milliseconds(element, "timeout")?,
        })
    }

    fn receive(&mut self, element: &LaxElement) -> Result<ReceiveStep, ScenarioError> {
        let line = element.line;
        let is_pattern = self.truth(element, "regexp_match")?.unwrap_or(false);
        let expected = match (element.attribute("request"), element.attribute("response")) {
            (Some(request), None) if is_pattern => ExpectedMessage::Matching(request.value.clone()),
            (Some(request), None) => ExpectedMessage::Request(request.value.clone()),
            (None, Some(response)) if is_pattern => ExpectedMessage::Matching(response.value.clone()),
            (None, Some(response)) => match response.value.trim().parse() {
                Ok(status @ 100..=699) => ExpectedMessage::Response(status, self.methods.clone()),
                _ => {
                    return error(
                        response.line,
                        format!("response: expected a status, found `{}`", response.value),
                    );
                }
            },
            (Some(_), Some(_)) => {
                return error(line, "<recv> has request and response: expected one of them");
            }
            (None, None) => return error(line, "expected request or response in <recv>"),
        };
        let presence = self.presence(element)?;
        // Every challenge is stored for credentials, so the value of `auth` has no effect.
        self.truth(element, "auth")?;
        let moves_on = self.truth(element, "advance_state")?.unwrap_or(true);
        if !moves_on && presence == MessagePresence::Mandatory {
            return error(line, "advance_state is for optional messages only");
        }
        let transaction = element
            .attribute("response_txn")
            .map(|name| place_of(&mut self.script.transactions, &name.value));
        Ok(ReceiveStep {
            expected,
            presence,
            moves_on,
            timeout: self.milliseconds(element, "timeout")?,
            keeps_routes: self.truth(element, "rrs")?.unwrap_or(false),
            transaction,
        })
    }

    fn presence(&self, element: &LaxElement) -> Result<MessagePresence, ScenarioError> {
        match element.attribute("optional") {
            None => Ok(MessagePresence::Mandatory),
            Some(value) => match &*value.value {
                "true" => Ok(MessagePresence::Optional),
                "global" => Ok(MessagePresence::OptionalEverywhere),
                "false" => Ok(MessagePresence::Mandatory),
                other => {
                    error(value.line, format!("optional: expected true, false or global, found `{other}`"))
                }
            },
        }
    }

    fn pause(&mut self, element: &LaxElement) -> Result<ScriptPause, ScenarioError> {
        if let Some(variable) = self.variable(element, "variable")? {
            return Ok(ScriptPause::Variable(variable));
        }
        let old = ["normal", "exponential", "lognormal", "weibull", "pareto", "gamma"];
        let name = match element.attribute("distribution") {
            Some(name) => name.value.clone(),
            None => match old.iter().find(|name| element.attribute(name).is_some()) {
                Some(name) => (*name).to_owned(),
                None if element.attribute("min").is_some() || element.attribute("max").is_some() => {
                    "uniform".to_owned()
                }
                None => {
                    let time = self.number(element, "milliseconds")?;
                    return Ok(time.map_or(ScriptPause::Default, |time| {
                        ScriptPause::Drawn(ScriptDistribution::Fixed(time))
                    }));
                }
            },
        };
        self.distribution(element, &name).map(ScriptPause::Drawn)
    }

    fn distribution(
        &mut self,
        element: &LaxElement,
        name: &str,
    ) -> Result<ScriptDistribution, ScenarioError> {
        let of = |parameter: &str| match self.number(element, parameter) {
            Ok(Some(number)) => Ok(number),
            Ok(None) => error(element.line, format!("expected {parameter} for the distribution {name}")),
            Err(wrong) => Err(wrong),
        };
        use ScriptDistribution as D;
        Ok(match name {
            "fixed" => D::Fixed(of("value")?),
            "uniform" => D::Uniform { least: of("min")?, most: of("max")? },
            "normal" => D::Normal { mean: of("mean")?, deviation: of("stdev")? },
            "lognormal" => D::LogNormal { mean: of("mean")?, deviation: of("stdev")? },
            "exponential" => D::Exponential { mean: of("mean")? },
            "weibull" => D::Weibull { scale: of("lambda")?, shape: of("k")? },
            "pareto" => D::Pareto { shape: of("k")?, least: of("x_m")? },
            "gpareto" => {
                D::GeneralizedPareto { shape: of("shape")?, scale: of("scale")?, location: of("location")? }
            }
            "gamma" => D::Gamma { shape: of("k")?, scale: of("theta")? },
            "negbin" => D::NegativeBinomial { successes: of("n")?, probability: of("p")? },
            other => return error(element.line, format!("there is no distribution {other}")),
        })
    }

    // Readers of attributes.

    fn required(&self, element: &LaxElement, name: &str) -> Result<String, ScenarioError> {
        match element.attribute(name) {
            Some(found) => Ok(found.value.clone()),
            None => error(element.line, format!("expected {name} in <{}>", element.name)),
        }
    }

    fn number(&self, element: &LaxElement, name: &str) -> Result<Option<f64>, ScenarioError> {
        let Some(found) = element.attribute(name) else { return Ok(None) };
        match found.value.trim().parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(Some(number)),
            _ => error(found.line, format!("{name}: expected a number, found `{}`", found.value)),
        }
    }

    fn milliseconds(&self, element: &LaxElement, name: &str) -> Result<Option<Duration>, ScenarioError> {
        let Some(number) = self.number(element, name)? else { return Ok(None) };
        // In SIPp, 0 means that no time is set.
        Ok((number > 0.0).then(|| Duration::from_secs_f64((number / 1000.0).min(LONGEST_TIME))))
    }

    fn truth(&self, element: &LaxElement, name: &str) -> Result<Option<bool>, ScenarioError> {
        let Some(found) = element.attribute(name) else { return Ok(None) };
        match found.value.trim() {
            "true" => Ok(Some(true)),
            "false" => Ok(Some(false)),
            other => match other.parse::<i64>() {
                Ok(number) => Ok(Some(number != 0)),
                Err(_) => error(found.line, format!("{name}: expected true or false, found `{other}`")),
            },
        }
    }

    fn variable(&mut self, element: &LaxElement, name: &str) -> Result<Option<VariableId>, ScenarioError> {
        let Some(found) = element.attribute(name) else { return Ok(None) };
        if found.value.trim().is_empty() {
            return error(found.line, format!("{name}: expected a variable"));
        }
        Ok(Some(self.script.variables.used(&found.value)))
    }

    /// The message in an element. White space around lines is removed, and lines end with CR LF.
    fn data(&self, element: &LaxElement) -> Result<String, ScenarioError> {
        let Some(data) = &element.data else {
            return error(
                element.line,
                format!("expected a message in <![CDATA[…]]> within <{}>", element.name),
            );
        };
        let blank = [' ', '\t', '\n'];
        let text = data.text.trim_start_matches(blank);
        let trimmed = text.trim_end_matches(blank);
        if trimmed.is_empty() {
            return error(data.line, format!("the message of <{}> is empty", element.name));
        }
        let lines: Vec<&str> = trimmed.split('\n').map(|line| line.trim_matches([' ', '\t'])).collect();
        let mut message = lines.join("\n");
        if !message.contains("\n\n") {
            message.push_str("\n\n");
        }
        if !message.ends_with('\n') && text[trimmed.len()..].contains('\n') && element.name == "send" {
            message.push('\n');
        }
        Ok(message.replace('\n', "\r\n"))
    }

    fn template(&mut self, text: &str, line: usize) -> Result<ScriptTemplate, ScenarioError> {
        let parsed = ScriptTemplate::parse(text, self.words, &mut self.script.variables);
        parsed.map_err(|wrong| ScenarioError { line, what: wrong.to_string() })
    }
}

/// Replaces the names of labels by the indices of their steps.
fn link(
    steps: Vec<UnlinkedStep>,
    labels: &BTreeMap<String, usize>,
    count: usize,
) -> Result<Vec<ScriptStep>, ScenarioError> {
    let of = |label: &str, line: usize| match labels.get(label) {
        Some(place) => Ok((*place).min(count)),
        None => error(line, format!("there is no label {label}")),
    };
    let linked = steps.into_iter().map(|UnlinkedStep { mut step, next, on_timeout }| {
        if let Some((label, test, chance)) = next {
            step.branch = Some(StepBranch { to: of(&label, step.line)?, test, chance });
        }
        step.on_timeout = on_timeout.map(|label| of(&label, step.line)).transpose()?;
        Ok(step)
    });
    linked.collect()
}

#[cfg(test)]
mod tests {
    use super::super::action::{ScriptAction, ScriptCheck, SearchPlace};
    use super::super::template::ScriptPiece;
    use super::*;

    fn read(text: &str) -> Result<(CallScript, Vec<ScenarioWarning>), ScenarioError> {
        read_sipp_scenario(&format!("<?xml version=\"1.0\"?>\n{text}"), ScriptWords { keys: &[] })
    }

    const CALL: &str = "<scenario name=\"call\">\n<send retrans=\"500\" start_rtd=\"1\">\n<![CDATA[\n\n  INVITE sip:[service]@[remote_ip] SIP/2.0\n\
        \x20 Call-ID: [call_id]  \n\n  v=0\n\n]]></send>\n<recv response=\"100\" optional=\"true\"/>\n\
        <recv response=\"200\" rtd=\"true\" rrs=\"true\" next=\"end\" test=\"x\">\n<action><ereg regexp=\"tag=(.*)\" search_in=\"hdr\" header=\"To:\" \
        check_it=\"true\" assign_to=\"all,x\"/></action></recv>\n<pause milliseconds=\"20\"/>\n<label id=\"end\"/>\n\
        <Reference variables=\"all\"/>\n</scenario>";

    #[test]
    fn a_call_is_read() {
        let (script, warnings) = read(CALL).unwrap();
        assert_eq!(warnings, []);
        assert_eq!((&*script.name, script.steps.len()), ("call", 4));
        let StepKind::Send(send) = &script.steps[0].kind else { panic!("{:?}", script.steps[0]) };
        assert_eq!(send.message.beginning(), "INVITE sip:");
        assert_eq!(send.message.pieces.last(), Some(&ScriptPiece::Literal("\r\n\r\nv=0\r\n".to_owned())));
        assert_eq!(send.again_after, Some(Duration::from_millis(500)));
        let StepKind::Receive(ok) = &script.steps[2].kind else { panic!("{:?}", script.steps[2]) };
        assert_eq!(ok.expected, ExpectedMessage::Response(200, vec!["INVITE".to_owned()]));
        assert!(ok.keeps_routes);
        assert_eq!(script.steps[2].branch.map(|branch| branch.to), Some(4), "behind the last step");
        assert_eq!((script.steps[0].starts.clone(), script.steps[2].ends), (vec![0], Some(0)));
        let [ScriptAction::Extract { from, into, check, .. }] = &*script.steps[2].actions else {
            panic!("{:?}", script.steps[2].actions)
        };
        assert!(matches!(from, SearchPlace::Header(place) if place.header == "To:"));
        assert_eq!((into.len(), *check), (2, ScriptCheck::Holds));
    }

    #[test]
    fn what_is_wrong_has_its_line() {
        for (text, line, words) in [
            ("<scenarios/>", 2, "expected <scenario>"),
            ("<scenario>\n</scenario>", 2, "has no step"),
            ("<scenario>\n<sent/></scenario>", 3, "<sent> is not a step"),
            ("<scenario>\n<send/></scenario>", 3, "expected a message"),
            ("<scenario>\n<send><![CDATA[ ]]></send></scenario>", 3, "is empty"),
            ("<scenario>\n<send><![CDATA[A [what] B]]></send></scenario>", 3, "no keyword [what]"),
            ("<scenario>\n<recv/></scenario>", 3, "expected request or response"),
            ("<scenario>\n<recv response=\"2\"/></scenario>", 3, "expected a status"),
            ("<scenario>\n<nop next=\"a\"/></scenario>", 3, "there is no label a"),
            ("<scenario>\n<label id=\"a\"/>\n<label id=\"a\"/></scenario>", 4, "second time"),
            ("<scenario>\n<recv response=\"100\" optional=\"true\"/>\n<nop/></scenario>", 3, "no mandatory"),
            ("<scenario>\n<timewait milliseconds=\"1\"/>\n<nop/></scenario>", 4, "the last step"),
            ("<scenario>\n<pause distribution=\"x\"/></scenario>", 3, "no distribution x"),
            ("<scenario>\n<pause distribution=\"uniform\" min=\"1\"/></scenario>", 3, "expected max"),
            ("<scenario>\n<pause milliseconds=\"soon\"/></scenario>", 3, "expected a number"),
            ("<scenario>\n<nop><action><leap/></action></nop></scenario>", 3, "is not an action"),
            ("<scenario>\n<Reference variables=\"a\"/></scenario>", 3, "there is no variable a"),
        ] {
            let wrong = read(text).unwrap_err();
            assert!(wrong.line == line && wrong.what.contains(words), "{text}: {wrong}");
        }
    }
}
