//! Actions of SIPp scenarios.

use super::super::action::{
    MediaKind, ScriptAction, ScriptCalculation, ScriptCheck, ScriptComparison, ScriptNumber, ScriptText,
    SearchPlace, SearchedHeader,
};
use super::super::template::ScriptTemplate;
use super::super::variables::VariableId;
use super::super::xml::LaxElement;
use super::{ScenarioError, SippReader, error};

impl SippReader<'_> {
    pub(super) fn action(&mut self, element: &LaxElement) -> Result<ScriptAction, ScenarioError> {
        let line = element.line;
        Ok(match &*element.name {
            "ereg" => self.extract(element)?,
            "log" => ScriptAction::Log(self.of(element, "message")?),
            "warning" => ScriptAction::Warn(self.of(element, "message")?),
            "error" => ScriptAction::Fail(self.of(element, "message")?),
            "assign" => ScriptAction::Assign(self.calculation(element)?),
            "add" => ScriptAction::Add(self.calculation(element)?),
            "subtract" => ScriptAction::Subtract(self.calculation(element)?),
            "multiply" => ScriptAction::Multiply(self.calculation(element)?),
            "divide" => match self.calculation(element)? {
                ScriptCalculation { value: ScriptNumber::Value(0.0), .. } => {
                    return error(line, "<divide> by zero");
                }
                calculation => ScriptAction::Divide(calculation),
            },
            "assignstr" => {
                ScriptAction::Text { variable: self.assigned(element)?, value: self.of(element, "value")? }
            }
            "gettimeofday" => match *self.assigned_list(element)? {
                [seconds, microseconds] => ScriptAction::TimeOfDay { seconds, microseconds },
                _ => return error(line, "<gettimeofday>: expected two variables in assign_to"),
            },
            "index" => ScriptAction::StepNumber(self.assigned(element)?),
            "jump" => ScriptAction::Jump(self.operand(element)?),
            "pauserestore" => ScriptAction::RestorePause(self.operand(element)?),
            "sample" => {
                let name = self.required(element, "distribution")?;
                ScriptAction::Sample {
                    variable: self.assigned(element)?,
                    distribution: self.distribution(element, &name)?,
                }
            }
            "todouble" => ScriptAction::ToNumber {
                variable: self.assigned(element)?,
                from: self.needed_variable(element, "variable")?,
            },
            "test" => self.test(element)?,
            "strcmp" => self.compare_texts(element)?,
            "trim" => ScriptAction::Trim(self.assigned(element)?),
            "urldecode" => ScriptAction::DecodeUrl(self.needed_variable(element, "variable")?),
            "urlencode" => ScriptAction::EncodeUrl(self.needed_variable(element, "variable")?),
            "verifyauth" => ScriptAction::VerifyCredentials {
                into: self.assigned(element)?,
                username: self.of(element, "username")?,
                password: self.of(element, "password")?,
            },
            "lookup" => ScriptAction::Lookup {
                into: self.assigned(element)?,
                file: self.of(element, "file")?,
                key: self.of(element, "key")?,
            },
            "insert" => {
                ScriptAction::Insert { file: self.of(element, "file")?, line: self.of(element, "value")? }
            }
            "replace" => ScriptAction::Replace {
                file: self.of(element, "file")?,
                place: self.of(element, "line")?,
                line: self.of(element, "value")?,
            },
            "setdest" => ScriptAction::Destination {
                host: self.of(element, "host")?,
                port: self.of(element, "port")?,
                protocol: self.of(element, "protocol")?,
            },
            "closecon" => ScriptAction::CloseConnection(true),
            "rtp_echo" => ScriptAction::Echo(self.operand(element)?),
            "exec" => self.execution(element)?,
            other => return error(line, format!("<{other}> is not an action")),
        })
    }

    fn extract(&mut self, element: &LaxElement) -> Result<ScriptAction, ScenarioError> {
        let pattern = self.required(element, "regexp")?;
        let from = match element.attribute("search_in").map(|place| (&*place.value, place.line)) {
            None | Some(("msg", _)) => SearchPlace::Message,
            Some(("body", _)) => SearchPlace::Body,
            Some(("var", _)) => SearchPlace::Variable(self.needed_variable(element, "variable")?),
            Some(("hdr", line)) => {
                let header = element.attribute("header").map(|name| name.value.clone()).unwrap_or_default();
                if header.is_empty() {
                    return error(line, "search_in=\"hdr\": expected header");
                }
                // SIPp also accepts an old misspelling.
                let occurrence = match self.number(element, "occurrence")? {
                    Some(occurrence) => Some(occurrence),
                    None => self.number(element, "occurence")?,
                };
                SearchPlace::Header(SearchedHeader {
                    header,
                    occurrence: occurrence.map_or(1, |occurrence| occurrence as usize),
                    any_case: self.truth(element, "case_indep")?.unwrap_or(false),
                    at_line_start: self.truth(element, "start_line")?.unwrap_or(false),
                })
            }
            Some((other, line)) => {
                return error(line, format!("search_in: expected msg, body, hdr or var, found `{other}`"));
            }
        };
        let check = self.check(element)?;
        Ok(ScriptAction::Extract { pattern, from, into: self.assigned_list(element)?, check })
    }

    fn test(&mut self, element: &LaxElement) -> Result<ScriptAction, ScenarioError> {
        let check = self.check(element)?;
        let into = self.result(element, check)?;
        let variable = self.needed_variable(element, "variable")?;
        let value = match (self.number(element, "value")?, self.variable(element, "variable2")?) {
            (Some(value), None) => ScriptNumber::Value(value),
            (None, Some(variable)) => ScriptNumber::Variable { variable },
            _ => return error(element.line, "<test>: expected value or variable2"),
        };
        let is = match &*self.required(element, "compare")? {
            "equal" => ScriptComparison::Equal,
            "not_equal" => ScriptComparison::NotEqual,
            "greater_than" => ScriptComparison::Greater,
            "less_than" => ScriptComparison::Less,
            "greater_than_equal" => ScriptComparison::GreaterOrEqual,
            "less_than_equal" => ScriptComparison::LessOrEqual,
            other => {
                return error(
                    element.line,
                    format!(
                        "compare: expected equal, not_equal, greater_than, less_than, greater_than_equal or less_than_equal, \
                         found `{other}`"
                    ),
                );
            }
        };
        Ok(ScriptAction::Test { into, variable, is, value, check })
    }

    fn compare_texts(&mut self, element: &LaxElement) -> Result<ScriptAction, ScenarioError> {
        let check = self.check(element)?;
        let into = self.result(element, check)?;
        let variable = self.needed_variable(element, "variable")?;
        let value = match (element.attribute("value"), self.variable(element, "variable2")?) {
            (Some(value), None) => ScriptText::Value(value.value.clone()),
            (None, Some(variable)) => ScriptText::Variable { variable },
            _ => return error(element.line, "<strcmp>: expected value or variable2"),
        };
        Ok(ScriptAction::CompareTexts { into, variable, value, check })
    }

    fn execution(&mut self, element: &LaxElement) -> Result<ScriptAction, ScenarioError> {
        let value = |name: &str| element.attribute(name).map(|found| found.value.clone());
        if element.attribute("command").is_some() {
            return Ok(ScriptAction::Command(self.of(element, "command")?));
        }
        if let Some(command) = value("int_cmd") {
            return Ok(match &*command {
                "stop_now" => ScriptAction::StopNow(true),
                "stop_gracefully" => ScriptAction::StopGracefully(true),
                _ => ScriptAction::StopCall(true),
            });
        }
        for &media in MediaKind::ALL {
            if let Some(file) = value(&format!("play_pcap_{}", media.name())) {
                return Ok(ScriptAction::PlayCapture { media, file });
            }
        }
        if let Some(digits) = value("play_dtmf") {
            return Ok(ScriptAction::PlayDigits(digits));
        }
        if let Some(stream) = value("rtp_stream") {
            let is_control = ["pause", "resume"].iter().any(|word| stream.starts_with(word));
            let media = if is_control { ScriptAction::ControlStream } else { ScriptAction::PlayStream };
            return Ok(media(stream));
        }
        if let Some(echo) = value("rtp_echo") {
            return Ok(ScriptAction::ControlStream(echo));
        }
        error(
            element.line,
            "<exec>: expected command, int_cmd, play_pcap_audio, play_dtmf, rtp_stream or rtp_echo",
        )
    }

    /// The template of an attribute.
    fn of(&mut self, element: &LaxElement, name: &str) -> Result<ScriptTemplate, ScenarioError> {
        let text = self.required(element, name)?;
        self.template(&text, element.line)
    }

    fn assigned(&mut self, element: &LaxElement) -> Result<VariableId, ScenarioError> {
        self.needed_variable(element, "assign_to")
    }

    fn assigned_list(&mut self, element: &LaxElement) -> Result<Vec<VariableId>, ScenarioError> {
        let names = self.required(element, "assign_to")?;
        Ok(names.split(',').map(|name| self.script.variables.used(name)).collect())
    }

    fn needed_variable(&mut self, element: &LaxElement, name: &str) -> Result<VariableId, ScenarioError> {
        self.required(element, name)?;
        match self.variable(element, name)? {
            Some(variable) => Ok(variable),
            None => error(element.line, format!("{name}: expected a variable")),
        }
    }

    /// The variable of a result. It may be absent if the result only checks the call.
    fn result(
        &mut self,
        element: &LaxElement,
        check: ScriptCheck,
    ) -> Result<Option<VariableId>, ScenarioError> {
        match self.variable(element, "assign_to")? {
            None if check == ScriptCheck::Nothing => {
                error(element.line, format!("expected assign_to in <{}>", element.name))
            }
            into => Ok(into),
        }
    }

    fn calculation(&mut self, element: &LaxElement) -> Result<ScriptCalculation, ScenarioError> {
        Ok(ScriptCalculation { variable: self.assigned(element)?, value: self.operand(element)? })
    }

    fn operand(&mut self, element: &LaxElement) -> Result<ScriptNumber, ScenarioError> {
        match (self.number(element, "value")?, self.variable(element, "variable")?) {
            (Some(value), None) => Ok(ScriptNumber::Value(value)),
            (None, Some(variable)) => Ok(ScriptNumber::Variable { variable }),
            _ => error(element.line, format!("<{}>: expected value or variable", element.name)),
        }
    }

    fn check(&mut self, element: &LaxElement) -> Result<ScriptCheck, ScenarioError> {
        match (self.truth(element, "check_it")?, self.truth(element, "check_it_inverse")?) {
            (Some(_), Some(_)) => error(element.line, "expected check_it or check_it_inverse, found both"),
            (Some(true), None) => Ok(ScriptCheck::Holds),
            (None, Some(true)) => Ok(ScriptCheck::HoldsNot),
            _ => Ok(ScriptCheck::Nothing),
        }
    }
}
