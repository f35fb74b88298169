//! Actions of a step.

use bytes::Bytes;
use netrig_core::{Duration, Instant};
use netrig_sip::digest::{DigestCredentials, Secret};
use netrig_sip::{Headers, Method, Name};

use super::super::action::{
    ScriptAction, ScriptCalculation, ScriptCheck, ScriptComparison, ScriptNumber, ScriptText, SearchPlace,
    SearchedHeader,
};
use super::super::distribution::drawn;
use super::super::run::ScriptRun;
use super::super::script::{LONGEST_TIME, ScriptStep};
use super::super::values::{ScriptValue, ScriptValues};
use super::super::variables::{VariableId, VariableScope};
use super::{ScriptCall, ScriptFailure, ScriptOutput};

impl ScriptCall {
    /// Runs the actions of a step. Returns whether the call continues.
    pub(super) fn act(&mut self, run: &mut ScriptRun, now: Instant, step: &ScriptStep) -> bool {
        for action in &step.actions {
            if let Err(why) = self.action(run, now, action) {
                self.fail(run, now, why);
            }
            if self.is_over() {
                return false;
            }
        }
        true
    }

    fn action(
        &mut self,
        run: &mut ScriptRun,
        now: Instant,
        action: &ScriptAction,
    ) -> Result<(), ScriptFailure> {
        let wrong = ScriptFailure::Script;
        match action {
            ScriptAction::Extract { pattern, from, into, check } => {
                self.extract(run, pattern, from, into, *check)?
            }
            ScriptAction::Log(template) => {
                let text = self.text(run, template, now, false).map_err(wrong)?;
                self.outputs.push_back(ScriptOutput::Log(text));
            }
            ScriptAction::Warn(template) => {
                let text = self.text(run, template, now, false).map_err(wrong)?;
                self.outputs.push_back(ScriptOutput::Warn(text));
            }
            ScriptAction::Fail(template) => {
                let text = self.text(run, template, now, false).map_err(wrong)?;
                self.outputs.push_back(ScriptOutput::StopNow(Some(text.clone())));
                return Err(wrong(text));
            }
            ScriptAction::Assign(by) => self.calculate(run, by, |_, other| other),
            ScriptAction::Add(by) => self.calculate(run, by, |own, other| own + other),
            ScriptAction::Subtract(by) => self.calculate(run, by, |own, other| own - other),
            ScriptAction::Multiply(by) => self.calculate(run, by, |own, other| own * other),
            ScriptAction::Divide(by) if self.number_of(by.value) == 0.0 => {
                return Err(wrong("<divide> by a variable that is zero".to_owned()));
            }
            ScriptAction::Divide(by) => self.calculate(run, by, |own, other| own / other),
            ScriptAction::Text { variable, value } => {
                let text = self.text(run, value, now, false).map_err(wrong)?;
                self.set(run, *variable, ScriptValue::Text(text));
            }
            ScriptAction::TimeOfDay { seconds, microseconds } => {
                let nanos = self.began_ns + now.as_nanos();
                self.set(run, *seconds, ScriptValue::Number((nanos / 1_000_000_000) as f64));
                self.set(run, *microseconds, ScriptValue::Number((nanos % 1_000_000_000 / 1000) as f64));
            }
            ScriptAction::StepNumber(into) => self.set(run, *into, ScriptValue::Number(self.step as f64)),
            ScriptAction::Jump(number) => {
                let to = self.number_of(*number);
                if !(0.0..run.script.steps.len() as f64).contains(&to) {
                    return Err(wrong(format!("<jump> to step {to}: there are {}", run.script.steps.len())));
                }
                self.jump = Some(to as usize);
            }
            ScriptAction::RestorePause(number) => {
                let milliseconds = self.number_of(*number);
                // 0 means that the interrupted step was not a pause.
                self.pause_ends = (milliseconds > 0.0)
                    .then(|| Instant::ZERO + Duration::from_secs_f64((milliseconds / 1e3).min(LONGEST_TIME)));
            }
            ScriptAction::Sample { variable, distribution } => {
                let number = drawn(*distribution, run);
                self.set(run, *variable, ScriptValue::Number(number));
            }
            ScriptAction::ToNumber { variable, from } => {
                let number = self.values.get(*from).to_number();
                self.set(run, *variable, ScriptValue::Number(number));
            }
            ScriptAction::Test { into, variable, is, value, check } => {
                let (left, right) = (self.values.get(*variable).to_number(), self.number_of(*value));
                let holds = match is {
                    ScriptComparison::Equal => left == right,
                    ScriptComparison::NotEqual => left != right,
                    ScriptComparison::Greater => left > right,
                    ScriptComparison::Less => left < right,
                    ScriptComparison::GreaterOrEqual => left >= right,
                    ScriptComparison::LessOrEqual => left <= right,
                };
                if let Some(into) = into {
                    self.set(run, *into, ScriptValue::Truth(holds));
                }
                checked(*check, holds, || ScriptFailure::Test)?;
            }
            ScriptAction::CompareTexts { into, variable, value, check } => {
                let left = self.values.get(*variable).to_text();
                let right = match value {
                    ScriptText::Value(text) => text.clone(),
                    ScriptText::Variable { variable } => self.values.get(*variable).to_text(),
                };
                let order = match left.cmp(&right) {
                    std::cmp::Ordering::Less => -1.0,
                    std::cmp::Ordering::Equal => 0.0,
                    std::cmp::Ordering::Greater => 1.0,
                };
                if let Some(into) = into {
                    self.set(run, *into, ScriptValue::Number(order));
                }
                checked(*check, order == 0.0, || ScriptFailure::Test)?;
            }
            ScriptAction::Trim(variable) => self.change(run, *variable, |text| text.trim().to_owned()),
            ScriptAction::DecodeUrl(variable) => self.change(run, *variable, decoded),
            ScriptAction::EncodeUrl(variable) => self.change(run, *variable, encoded),
            ScriptAction::VerifyCredentials { into, username, password } => {
                let username = self.text(run, username, now, false).map_err(wrong)?;
                let password = self.text(run, password, now, false).map_err(wrong)?;
                let holds = self.is_authorized(&username, &password);
                self.set(run, *into, ScriptValue::Truth(holds));
            }
            ScriptAction::Lookup { into, file, key } => {
                let file = self.text(run, file, now, false).map_err(wrong)?;
                let key = self.text(run, key, now, false).map_err(wrong)?;
                let known = run
                    .files
                    .get(&file)
                    .ok_or_else(|| wrong(format!("there is no injection file {file}")))?;
                let line = known.lookup(&key).map_or(-1.0, |line| line as f64);
                self.set(run, *into, ScriptValue::Number(line));
            }
            ScriptAction::Insert { file, line } => {
                let file = self.text(run, file, now, false).map_err(wrong)?;
                let line = self.text(run, line, now, false).map_err(wrong)?;
                let known = run
                    .files
                    .get_mut(&file)
                    .ok_or_else(|| wrong(format!("there is no injection file {file}")))?;
                known.insert(&line).map_err(|error| wrong(format!("{file}: {error}")))?;
            }
            ScriptAction::Replace { file, place, line } => {
                let file = self.text(run, file, now, false).map_err(wrong)?;
                let place = self.text(run, place, now, false).map_err(wrong)?;
                let line = self.text(run, line, now, false).map_err(wrong)?;
                let place: f64 =
                    place.trim().parse().map_err(|_| wrong(format!("`{place}` is not a line number")))?;
                let known = run
                    .files
                    .get_mut(&file)
                    .ok_or_else(|| wrong(format!("there is no injection file {file}")))?;
                known.replace(place as i64, &line).map_err(|error| wrong(format!("{file}: {error}")))?;
            }
            ScriptAction::Destination { host, port, protocol } => {
                let host = self.text(run, host, now, false).map_err(wrong)?;
                let port = self.text(run, port, now, false).map_err(wrong)?;
                let protocol = self.text(run, protocol, now, false).map_err(wrong)?;
                self.outputs.push_back(ScriptOutput::Destination { host, port, protocol });
            }
            ScriptAction::CloseConnection(_) => self.outputs.push_back(ScriptOutput::CloseConnection),
            ScriptAction::Command(template) => {
                let command = self.text(run, template, now, false).map_err(wrong)?;
                self.outputs.push_back(ScriptOutput::Command(command));
            }
            ScriptAction::StopCall(_) => return Err(ScriptFailure::Stopped),
            ScriptAction::StopGracefully(_) => self.outputs.push_back(ScriptOutput::StopGracefully),
            ScriptAction::StopNow(_) => self.outputs.push_back(ScriptOutput::StopNow(None)),
            ScriptAction::PlayCapture { .. }
            | ScriptAction::PlayStream(_)
            | ScriptAction::PlayDigits(_)
            | ScriptAction::ControlStream(_) => {
                let ends = Box::new(self.media.clone());
                let media = action.media().map(|media| ScriptOutput::Media(media, ends));
                self.outputs.extend(media);
            }
            ScriptAction::Echo(number) => {
                let is_on = self.number_of(*number) != 0.0;
                self.outputs.push_back(ScriptOutput::Echo(is_on));
            }
        }
        Ok(())
    }

    fn calculate(&mut self, run: &mut ScriptRun, by: &ScriptCalculation, result: impl Fn(f64, f64) -> f64) {
        let own = self.values.get(by.variable).to_number();
        self.set(run, by.variable, ScriptValue::Number(result(own, self.number_of(by.value))));
    }

    fn number_of(&self, number: ScriptNumber) -> f64 {
        match number {
            ScriptNumber::Value(value) => value,
            ScriptNumber::Variable { variable } => self.values.get(variable).to_number(),
        }
    }

    /// Sets a variable of the call, and of the user or the run if the variable is shared.
    pub(super) fn set(&mut self, run: &mut ScriptRun, variable: VariableId, value: ScriptValue) {
        let scope = run.script.variables.iter().nth(variable.0).map(|known| known.scope);
        let variables = run.script.variables.iter().count();
        match (scope, self.user) {
            (Some(VariableScope::Global), _) => run.globals.set(variable, value.clone()),
            (Some(VariableScope::User), Some(user)) => {
                let of_user = run.of_users.entry(user).or_insert_with(|| ScriptValues::new(variables));
                of_user.set(variable, value.clone());
            }
            _ => {}
        }
        self.values.set(variable, value);
    }

    fn change(&mut self, run: &mut ScriptRun, variable: VariableId, change: impl Fn(&str) -> String) {
        let text = change(&self.values.get(variable).to_text());
        self.set(run, variable, ScriptValue::Text(text));
    }

    fn extract(
        &mut self,
        run: &mut ScriptRun,
        pattern: &str,
        place: &SearchPlace,
        into: &[VariableId],
        check: ScriptCheck,
    ) -> Result<(), ScriptFailure> {
        let pattern = run
            .pattern(pattern)
            .map_err(|why| ScriptFailure::Script(format!("regexp `{pattern}`: {why}")))?
            .clone();
        let last = self.sent.as_ref().or(self.last.as_ref());
        let text = match place {
            SearchPlace::Message => last.map(|last| last.text.clone()),
            SearchPlace::Body => last.map(|last| last.body().to_owned()),
            SearchPlace::Variable(variable) => Some(self.values.get(*variable).to_text()),
            SearchPlace::Header(header) => last.and_then(|last| header_in(&last.text, header)),
        };
        let found = text.as_deref().and_then(|text| pattern.captures(text));
        let groups: Vec<Option<String>> = match &found {
            None => Vec::new(),
            Some(found) => found.iter().map(|group| group.map(|group| group.as_str().to_owned())).collect(),
        };
        for (place, variable) in into.iter().enumerate() {
            if let Some(Some(group)) = groups.get(place) {
                self.set(run, *variable, ScriptValue::Text(group.clone()));
            }
        }
        checked(check, found.is_some(), || ScriptFailure::Extraction(pattern.as_str().to_owned()))
    }

    /// Whether the credentials of the last request are correct for this user and password.
    fn is_authorized(&self, username: &str, password: &str) -> bool {
        let Some(last) = &self.last else { return false };
        let Some((method, _)) = last.request() else { return false };
        let Ok(method) = method.parse::<Method>() else { return false };
        let mut headers = Headers::default();
        for name in ["Authorization", "Proxy-Authorization"] {
            last.value_of(name).into_iter().for_each(|value| headers.push(Name::Authorization, value));
        }
        let credentials = headers.credentials(&Name::Authorization).unwrap_or_default();
        let body = Bytes::copy_from_slice(last.body().as_bytes());
        credentials.iter().filter_map(|credentials| DigestCredentials::read(credentials).ok()).any(|answer| {
            answer.username == username
                && answer.proves(
                    &method,
                    &body,
                    &Secret::new(answer.algorithm.hash, username, &answer.realm, password),
                )
        })
    }
}

/// Returns the failure if the result `holds` fails the call.
fn checked(
    check: ScriptCheck,
    holds: bool,
    failure: impl FnOnce() -> ScriptFailure,
) -> Result<(), ScriptFailure> {
    match (check, holds) {
        (ScriptCheck::Holds, false) | (ScriptCheck::HoldsNot, true) => Err(failure()),
        _ => Ok(()),
    }
}

/// The rest of the line after the searched name. As in SIPp, the name may be anywhere in the message, unless it has to
/// be at the start of a line.
fn header_in(text: &str, searched: &SearchedHeader) -> Option<String> {
    let SearchedHeader { header, occurrence, any_case, at_line_start } = searched;
    let fold = |text: &str| if *any_case { text.to_ascii_lowercase() } else { text.to_owned() };
    let (haystack, needle) = (fold(text), fold(header));
    let places = haystack.match_indices(&needle).map(|(place, _)| place);
    let mut places =
        places.filter(|place| !*at_line_start || *place == 0 || haystack[..*place].ends_with('\n'));
    let place = places.nth((*occurrence).max(1) - 1)?;
    let rest = &text[place + needle.len()..];
    Some(rest.split(['\r', '\n']).next().unwrap_or_default().to_owned())
}

fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let (mut out, mut place) = (Vec::with_capacity(bytes.len()), 0);
    while place < bytes.len() {
        let code = (bytes[place] == b'%')
            .then(|| text.get(place + 1..place + 3).and_then(|digits| u8::from_str_radix(digits, 16).ok()))
            .flatten();
        match code {
            Some(code) => {
                out.push(code);
                place += 3;
            }
            None => {
                out.push(bytes[place]);
                place += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn encoded(text: &str) -> String {
    let of = |byte: u8| {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            char::from(byte).to_string()
        } else {
            format!("%{byte:02X}")
        }
    };
    text.bytes().map(of).collect()
}
