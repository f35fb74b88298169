//! Actions of a step.

use netrig_core::choices;
use serde::{Deserialize, Serialize};

use super::template::ScriptTemplate;
use super::variables::VariableId;

/// An action. `V` is the type of a variable: its index in a script, its name in a file. `T` is the type of a text with
/// keywords: a template in a script, and a string in a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "kebab-case", deny_unknown_fields)]
pub enum ScriptAction<V = VariableId, T = ScriptTemplate> {
    /// Search for a regular expression, and store the texts that its groups match.
    Extract {
        /// The regular expression, POSIX extended.
        pattern: String,
        /// The text to search.
        from: SearchPlace<V>,
        /// The variables for the match and its groups.
        #[serde(default = "Vec::new", skip_serializing_if = "Vec::is_empty")]
        into: Vec<V>,
        /// The result that fails the call.
        #[serde(default, skip_serializing_if = "is_default")]
        check: ScriptCheck,
    },
    /// Write a line to the log.
    Log(T),
    /// Write a warning to the log.
    Warn(T),
    /// End the run with an error.
    Fail(T),
    /// Set a variable to a number.
    Assign(ScriptCalculation<V>),
    /// Add a number to a variable.
    Add(ScriptCalculation<V>),
    /// Subtract a number from a variable.
    Subtract(ScriptCalculation<V>),
    /// Multiply a variable by a number.
    Multiply(ScriptCalculation<V>),
    /// Divide a variable by a number.
    Divide(ScriptCalculation<V>),
    /// Assign a text to a variable.
    Text {
        /// The variable.
        variable: V,
        /// The text.
        value: T,
    },
    /// Set two variables to the current time: seconds since 1970, and microseconds within the second.
    TimeOfDay {
        /// The variable of the seconds.
        seconds: V,
        /// The variable of the microseconds.
        microseconds: V,
    },
    /// Set a variable to the number of the step.
    StepNumber(V),
    /// Continue the call at the step with this number.
    Jump(ScriptNumber<V>),
    /// Set the end of the pause to which the call returns: ms since the start of the run.
    RestorePause(ScriptNumber<V>),
    /// Set a variable to a random number from a distribution.
    Sample {
        /// The result.
        variable: V,
        /// The distribution.
        distribution: ScriptDistribution,
    },
    /// Convert a text to a number.
    ToNumber {
        /// The number.
        variable: V,
        /// The text.
        from: V,
    },
    /// Compare two numbers.
    Test {
        /// The result.
        into: Option<V>,
        /// The first.
        variable: V,
        /// The comparison.
        is: ScriptComparison,
        /// The second.
        value: ScriptNumber<V>,
        /// The result that fails the call.
        #[serde(default, skip_serializing_if = "is_default")]
        check: ScriptCheck,
    },
    /// Compare two texts. The result is negative, 0 or positive.
    CompareTexts {
        /// The result.
        into: Option<V>,
        /// The first.
        variable: V,
        /// The second.
        value: ScriptText<V>,
        /// The result that fails the call.
        #[serde(default, skip_serializing_if = "is_default")]
        check: ScriptCheck,
    },
    /// Remove white space at both ends of a variable's text.
    Trim(V),
    /// Decode the percent encoding of a variable's text.
    DecodeUrl(V),
    /// Encode a variable's text with percent encoding.
    EncodeUrl(V),
    /// Check the credentials of the last request.
    VerifyCredentials {
        /// The result.
        into: V,
        /// User name.
        username: T,
        /// Password.
        password: T,
    },
    /// Find a line of an injection file by the value of its indexed field. The result is the number of the line, or −1
    /// if no line has the value.
    Lookup {
        /// The result.
        into: V,
        /// The file.
        file: T,
        /// The value.
        key: T,
    },
    /// Add a line to an injection file.
    Insert {
        /// The file.
        file: T,
        /// The line.
        line: T,
    },
    /// Replace a line of an injection file.
    Replace {
        /// The file.
        file: T,
        /// Number of the line.
        place: T,
        /// The line.
        line: T,
    },
    /// Set the destination of the call's messages.
    Destination {
        /// Address.
        host: T,
        /// Port.
        port: T,
        /// Transport.
        protocol: T,
    },
    /// Close the connection of the call. In a file, actions without parameters have the value `true`.
    CloseConnection(bool),
    /// Start a program, and do not wait for its end.
    Command(T),
    /// End the call.
    StopCall(bool),
    /// Start no more calls.
    StopGracefully(bool),
    /// End the run.
    StopNow(bool),
    /// Play the packets of a capture.
    PlayCapture {
        /// The kind of media.
        media: MediaKind,
        /// The file.
        file: String,
    },
    /// Play a file as a stream, with SIPp's parameters after its name.
    PlayStream(String),
    /// Play digits as telephone events (RFC 4733).
    PlayDigits(String),
    /// Pause or resume the streams of the call, by SIPp's name of the action.
    ControlStream(String),
    /// Turn the echo of media on or off.
    Echo(ScriptNumber<V>),
}

/// Converts the variables and texts of an action.
pub(super) trait ActionConverter<V, T> {
    /// A converted variable.
    type Variable;
    /// A converted text.
    type Text;
    /// Why a text cannot be converted.
    type Error;

    fn variable(&mut self, variable: &V) -> Self::Variable;

    fn text(&mut self, text: &T) -> Result<Self::Text, Self::Error>;
}

impl<V> ScriptNumber<V> {
    fn convert<T, C: ActionConverter<V, T>>(&self, converter: &mut C) -> ScriptNumber<C::Variable> {
        match self {
            Self::Value(value) => ScriptNumber::Value(*value),
            Self::Variable { variable } => ScriptNumber::Variable { variable: converter.variable(variable) },
        }
    }
}

impl<V> ScriptCalculation<V> {
    fn convert<T, C: ActionConverter<V, T>>(&self, converter: &mut C) -> ScriptCalculation<C::Variable> {
        let variable = converter.variable(&self.variable);
        ScriptCalculation { variable, value: self.value.convert(converter) }
    }
}

impl<V, T> ScriptAction<V, T> {
    /// The same action with all variables and texts converted.
    pub(super) fn convert<C: ActionConverter<V, T>>(
        &self,
        converter: &mut C,
    ) -> Result<ScriptAction<C::Variable, C::Text>, C::Error> {
        let c = converter;
        Ok(match self {
            Self::Extract { pattern, from, into, check } => ScriptAction::Extract {
                pattern: pattern.clone(),
                from: match from {
                    SearchPlace::Message => SearchPlace::Message,
                    SearchPlace::Body => SearchPlace::Body,
                    SearchPlace::Variable(variable) => SearchPlace::Variable(c.variable(variable)),
                    SearchPlace::Header(header) => SearchPlace::Header(header.clone()),
                },
                into: into.iter().map(|variable| c.variable(variable)).collect(),
                check: *check,
            },
            Self::Log(text) => ScriptAction::Log(c.text(text)?),
            Self::Warn(text) => ScriptAction::Warn(c.text(text)?),
            Self::Fail(text) => ScriptAction::Fail(c.text(text)?),
            Self::Assign(calculation) => ScriptAction::Assign(calculation.convert(c)),
            Self::Add(calculation) => ScriptAction::Add(calculation.convert(c)),
            Self::Subtract(calculation) => ScriptAction::Subtract(calculation.convert(c)),
            Self::Multiply(calculation) => ScriptAction::Multiply(calculation.convert(c)),
            Self::Divide(calculation) => ScriptAction::Divide(calculation.convert(c)),
            Self::Text { variable, value } => {
                ScriptAction::Text { value: c.text(value)?, variable: c.variable(variable) }
            }
            Self::TimeOfDay { seconds, microseconds } => ScriptAction::TimeOfDay {
                seconds: c.variable(seconds),
                microseconds: c.variable(microseconds),
            },
            Self::StepNumber(variable) => ScriptAction::StepNumber(c.variable(variable)),
            Self::Jump(number) => ScriptAction::Jump(number.convert(c)),
            Self::RestorePause(number) => ScriptAction::RestorePause(number.convert(c)),
            Self::Sample { variable, distribution } => {
                ScriptAction::Sample { variable: c.variable(variable), distribution: *distribution }
            }
            Self::ToNumber { variable, from } => {
                ScriptAction::ToNumber { variable: c.variable(variable), from: c.variable(from) }
            }
            Self::Test { into, variable, is, value, check } => ScriptAction::Test {
                into: into.as_ref().map(|into| c.variable(into)),
                variable: c.variable(variable),
                is: *is,
                value: value.convert(c),
                check: *check,
            },
            Self::CompareTexts { into, variable, value, check } => ScriptAction::CompareTexts {
                into: into.as_ref().map(|into| c.variable(into)),
                variable: c.variable(variable),
                value: match value {
                    ScriptText::Value(text) => ScriptText::Value(text.clone()),
                    ScriptText::Variable { variable } => {
                        ScriptText::Variable { variable: c.variable(variable) }
                    }
                },
                check: *check,
            },
            Self::Trim(variable) => ScriptAction::Trim(c.variable(variable)),
            Self::DecodeUrl(variable) => ScriptAction::DecodeUrl(c.variable(variable)),
            Self::EncodeUrl(variable) => ScriptAction::EncodeUrl(c.variable(variable)),
            Self::VerifyCredentials { into, username, password } => ScriptAction::VerifyCredentials {
                username: c.text(username)?,
                password: c.text(password)?,
                into: c.variable(into),
            },
            Self::Lookup { into, file, key } => {
                ScriptAction::Lookup { file: c.text(file)?, key: c.text(key)?, into: c.variable(into) }
            }
            Self::Insert { file, line } => ScriptAction::Insert { file: c.text(file)?, line: c.text(line)? },
            Self::Replace { file, place, line } => {
                ScriptAction::Replace { file: c.text(file)?, place: c.text(place)?, line: c.text(line)? }
            }
            Self::Destination { host, port, protocol } => ScriptAction::Destination {
                host: c.text(host)?,
                port: c.text(port)?,
                protocol: c.text(protocol)?,
            },
            Self::CloseConnection(is) => ScriptAction::CloseConnection(*is),
            Self::Command(command) => ScriptAction::Command(c.text(command)?),
            Self::StopCall(is) => ScriptAction::StopCall(*is),
            Self::StopGracefully(is) => ScriptAction::StopGracefully(*is),
            Self::StopNow(is) => ScriptAction::StopNow(*is),
            Self::PlayCapture { media, file } => {
                ScriptAction::PlayCapture { media: *media, file: file.clone() }
            }
            Self::PlayStream(stream) => ScriptAction::PlayStream(stream.clone()),
            Self::PlayDigits(digits) => ScriptAction::PlayDigits(digits.clone()),
            Self::ControlStream(word) => ScriptAction::ControlStream(word.clone()),
            Self::Echo(number) => ScriptAction::Echo(number.convert(c)),
        })
    }

    /// The media that the action plays or controls; `None` for other actions.
    pub(super) fn media(&self) -> Option<ScriptMedia> {
        match self {
            Self::PlayCapture { media, file } => Some(ScriptMedia::Capture(*media, file.clone())),
            Self::PlayStream(stream) => Some(ScriptMedia::Stream(stream.clone())),
            Self::PlayDigits(digits) => Some(ScriptMedia::Digits(digits.clone())),
            Self::ControlStream(word) => Some(ScriptMedia::Control(word.clone())),
            _ => None,
        }
    }
}

/// A distribution of random numbers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[expect(missing_docs, reason = "the parameters have the names of statistics")]
pub enum ScriptDistribution {
    /// A constant.
    Fixed(f64),
    /// Uniform.
    Uniform { least: f64, most: f64 },
    /// Normal.
    Normal { mean: f64, deviation: f64 },
    /// Log-normal. `mean` and `deviation` are those of the logarithm.
    LogNormal { mean: f64, deviation: f64 },
    /// Exponential.
    Exponential { mean: f64 },
    /// Weibull.
    Weibull { scale: f64, shape: f64 },
    /// Pareto.
    Pareto { shape: f64, least: f64 },
    /// Generalized Pareto.
    GeneralizedPareto { shape: f64, scale: f64, location: f64 },
    /// Gamma.
    Gamma { shape: f64, scale: f64 },
    /// Negative binomial: the number of failures before this number of successes. Each trial succeeds with this
    /// probability.
    NegativeBinomial { successes: f64, probability: f64 },
}

/// A number, or a variable with a number.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a number, or { variable = NAME }")]
pub enum ScriptNumber<V = VariableId> {
    /// The number.
    Value(f64),
    /// The variable.
    Variable {
        /// Its name or index.
        variable: V,
    },
}

/// A text, or a variable with a text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a text, or { variable = NAME }")]
pub enum ScriptText<V = VariableId> {
    /// The text.
    Value(String),
    /// The variable.
    Variable {
        /// Its name or index.
        variable: V,
    },
}

/// Which result of an action fails the call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScriptCheck {
    /// No result fails the call.
    #[default]
    Nothing,
    /// A false result fails the call.
    Holds,
    /// A true result fails the call.
    HoldsNot,
}

/// The text in which a regular expression is searched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    rename_all = "kebab-case",
    expecting = "expected \"message\", \"body\", { variable = NAME } or { header = NAME }"
)]
pub enum SearchPlace<V = VariableId> {
    /// The whole message.
    Message,
    /// Its body.
    Body,
    /// A variable.
    Variable(V),
    /// A header field.
    #[serde(untagged)]
    Header(SearchedHeader),
}

/// The header field in which a regular expression is searched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct SearchedHeader {
    /// Its name as written, with its colon, if it has one.
    pub header: String,
    /// Number of the occurrence, from 1.
    #[serde(default = "first", skip_serializing_if = "is_first")]
    pub occurrence: usize,
    /// Whether the case of the name is ignored.
    #[serde(default, skip_serializing_if = "is_default")]
    pub any_case: bool,
    /// Whether the name must be at the start of a line.
    #[serde(default, skip_serializing_if = "is_default")]
    pub at_line_start: bool,
}

const fn first() -> usize {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives references")]
const fn is_first(value: &usize) -> bool {
    *value == 1
}

/// Whether a value is the default, which files do not contain.
pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The comparison of two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ScriptComparison {
    /// `=`.
    #[serde(rename = "=")]
    Equal,
    /// `≠`.
    #[serde(rename = "!=")]
    NotEqual,
    /// `>`.
    #[serde(rename = ">")]
    Greater,
    /// `<`.
    #[serde(rename = "<")]
    Less,
    /// `≥`.
    #[serde(rename = ">=")]
    GreaterOrEqual,
    /// `≤`.
    #[serde(rename = "<=")]
    LessOrEqual,
}

/// The operands of a calculation: a variable and a number. The variable receives the result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptCalculation<V = VariableId> {
    /// The variable.
    pub variable: V,
    /// The number.
    pub value: ScriptNumber<V>,
}

choices! {
    /// The kind of a media stream. Its name is that in session descriptions (RFC 4566 section 5.14).
    pub enum MediaKind {
        /// `m=audio`.
        Audio = "audio",
        /// `m=video`.
        Video = "video",
        /// `m=image`.
        Image = "image",
    }
}

/// The media that an action plays, or the control of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScriptMedia {
    /// Packets of a capture.
    Capture(MediaKind, String),
    /// A file as a stream, with SIPp's parameters after its name.
    Stream(String),
    /// Digits.
    Digits(String),
    /// Pause or resume the streams of the call, by SIPp's name of the action.
    Control(String),
}
