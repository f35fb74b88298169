//! A scenario as it is carried out.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use netrig_core::Duration;

use super::template::ScriptTemplate;
use super::variables::{VariableId, VariableTable};

/// The longest time of a step, s.
pub(super) const LONGEST_TIME: f64 = 1e6;

/// A scenario: what one call does, step by step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallScript {
    /// Its name.
    pub name: String,
    /// Steps of a call.
    pub steps: Vec<ScriptStep>,
    /// Steps that are carried out once, before the first call.
    pub opening: Vec<ScriptStep>,
    /// Variables that the steps use.
    pub variables: VariableTable,
    /// Names of transactions that the steps tell apart.
    pub transactions: Vec<String>,
    /// Names of response times that are measured.
    pub response_times: Vec<String>,
    /// Names of counters.
    pub counters: Vec<String>,
    /// The step that a message goes to that no step awaits (`_unexp.main`). The variable `_unexp.retaddr` then has the number of the
    /// step that it came to, `_unexp.pausedaddr` the end of its pause.
    pub on_unexpected: Option<usize>,
}

/// A step.
#[derive(Clone, Debug, PartialEq)]
pub struct ScriptStep {
    /// Line in the file, from 1.
    pub line: usize,
    /// What it does.
    pub kind: StepKind,
    /// Response times that begin with it.
    pub starts: Vec<usize>,
    /// The response time that ends with it.
    pub ends: Option<usize>,
    /// Whether that is measured again each time.
    pub ends_again: bool,
    /// The counter that it raises.
    pub counter: Option<usize>,
    /// Share of its messages that are lost on purpose, 0 to 1.
    pub lost: f64,
    /// What is done with a message that was received, or at this point.
    pub actions: Vec<ScriptAction>,
    /// It is carried out only if this variable is set, or not set.
    pub condition: Option<StepCondition>,
    /// Where the call goes on.
    pub branch: Option<StepBranch>,
    /// Where the call goes on if the time of the step is over.
    pub on_timeout: Option<usize>,
    /// What the screen shows for it.
    pub display: Option<String>,
}

impl CallScript {
    /// The line of the first step that needs another process of the test, and its name.
    pub fn needs_link(&self) -> Option<(usize, &'static str)> {
        self.steps.iter().find_map(|step| match step.kind {
            StepKind::SendCommand { .. } => Some((step.line, "sendCmd")),
            StepKind::ReceiveCommand { .. } => Some((step.line, "recvCmd")),
            _ => None,
        })
    }
}

impl ScriptStep {
    /// What it does, in some words.
    pub fn words(&self) -> String {
        let mut words = match &self.kind {
            StepKind::Send(send) => {
                let start = send.message.beginning().lines().next().unwrap_or_default();
                let what = match start.strip_prefix("SIP/2.0 ") {
                    Some(status) => status,
                    None => start.split(' ').next().unwrap_or_default(),
                };
                let again =
                    send.again_after.map(|after| format!(", again after {after}")).unwrap_or_default();
                format!("sends {}{again}", if what.is_empty() { "a message" } else { what.trim_end() })
            }
            StepKind::Receive(receive) => {
                let what = match &receive.expected {
                    ExpectedMessage::Response(status, _) => status.to_string(),
                    ExpectedMessage::Request(method) => method.clone(),
                    ExpectedMessage::Matching(pattern) => format!("what fits `{pattern}`"),
                };
                let presence = match receive.presence {
                    MessagePresence::Mandatory => "",
                    MessagePresence::Optional => ", optional",
                    MessagePresence::OptionalEverywhere => ", optional here and later",
                };
                format!("awaits {what}{presence}")
            }
            StepKind::Pause(pause) => format!("pauses{}", pause.words()),
            StepKind::TimeWait(pause) => format!("waits for repetitions{}", pause.words()),
            StepKind::Nothing => "does its actions".to_owned(),
            StepKind::SendCommand { .. } => "sends a message to another process".to_owned(),
            StepKind::ReceiveCommand { .. } => "awaits a message of another process".to_owned(),
        };
        if let Some(display) = self.display.as_ref().filter(|display| !display.is_empty()) {
            words += &format!(" ({display})");
        }
        match self.actions.len() {
            0 => {}
            1 => words += ", 1 action",
            n => words += &format!(", {n} actions"),
        }
        if let Some(branch) = self.branch {
            words += &format!(", then step {}", branch.to + 1);
        }
        words
    }
}

impl ScriptPause {
    fn words(&self) -> String {
        match self {
            Self::Default => String::new(),
            Self::Variable(_) => " for a variable's time".to_owned(),
            Self::Drawn(ScriptDistribution::Fixed(time)) => format!(" {time} ms"),
            Self::Drawn(_) => " for a drawn time".to_owned(),
        }
    }
}

/// Whether a step is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepCondition {
    /// The variable.
    pub variable: VariableId,
    /// It has to be unset.
    pub is_inverse: bool,
}

/// Where a call goes on behind a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepBranch {
    /// The step; behind the last one the call is over.
    pub to: usize,
    /// Only if this variable is set.
    pub test: Option<VariableId>,
    /// In this share of the cases, 0 to 1.
    pub chance: f64,
}

/// What a step does.
#[derive(Clone, Debug, PartialEq)]
pub enum StepKind {
    /// It sends a message.
    Send(SendStep),
    /// It waits for a message.
    Receive(ReceiveStep),
    /// It waits.
    Pause(ScriptPause),
    /// It waits at the end of the call, and answers what comes again meanwhile.
    TimeWait(ScriptPause),
    /// It does its actions only.
    Nothing,
    /// It sends a message to another process of the test.
    SendCommand {
        /// Which, if there are several.
        to: Option<String>,
        /// The message.
        message: ScriptTemplate,
    },
    /// It waits for one from there.
    ReceiveCommand {
        /// From which, if there are several.
        from: Option<String>,
        /// Whether the call goes on without it.
        is_optional: bool,
    },
}

/// A message that is sent.
#[derive(Clone, Debug, PartialEq)]
pub struct SendStep {
    /// The message.
    pub message: ScriptTemplate,
    /// The first pause before it is sent again over UDP. Absent: it is sent once.
    pub again_after: Option<Duration>,
    /// How long it is sent again; 64 times the first pause if absent.
    pub timeout: Option<Duration>,
    /// The transaction that it begins.
    pub begins: Option<usize>,
    /// The transaction whose response it acknowledges.
    pub acknowledges: Option<usize>,
}

/// A message that is awaited.
#[derive(Clone, Debug, PartialEq)]
pub struct ReceiveStep {
    /// Which.
    pub expected: ExpectedMessage,
    /// Whether the call goes on without it.
    pub presence: MessagePresence,
    /// Whether an optional message moves the call on.
    pub moves_on: bool,
    /// How long it is waited for.
    pub timeout: Option<Duration>,
    /// Its Record-Route becomes the route set.
    pub keeps_routes: bool,
    /// The transaction that a response belongs to.
    pub transaction: Option<usize>,
}

/// The message that a step awaits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExpectedMessage {
    /// A response with this status, to one of these methods; to any if there are none.
    Response(u16, Vec<String>),
    /// A request with this method.
    Request(String),
    /// A request or response whose method or status fits a regular expression.
    Matching(String),
}

/// Whether a message has to come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MessagePresence {
    /// It has to.
    #[default]
    Mandatory,
    /// It may come here.
    Optional,
    /// It may come here or at any later step.
    OptionalEverywhere,
}

/// How long a pause is.
#[derive(Clone, Debug, PartialEq)]
pub enum ScriptPause {
    /// As `-d` says.
    Default,
    /// Milliseconds, from a distribution.
    Drawn(ScriptDistribution),
    /// Milliseconds, from a variable.
    Variable(VariableId),
}

/// A distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ScriptDistribution {
    /// Always the same.
    Fixed(f64),
    /// Between two values.
    Uniform(f64, f64),
    /// Mean and standard deviation.
    Normal(f64, f64),
    /// The same of the logarithm.
    LogNormal(f64, f64),
    /// Mean.
    Exponential(f64),
    /// Scale and shape.
    Weibull(f64, f64),
    /// Shape and least value.
    Pareto(f64, f64),
    /// Shape, scale and location.
    GeneralizedPareto(f64, f64, f64),
    /// Shape and scale.
    Gamma(f64, f64),
    /// Failures before so many successes, with this probability each.
    NegativeBinomial(f64, f64),
}

/// A number, or the variable that has it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ScriptNumber {
    /// The number.
    Value(f64),
    /// The variable.
    Variable(VariableId),
}

/// A text, or the variable that has it.
#[derive(Clone, Debug, PartialEq)]
pub enum ScriptText {
    /// The text.
    Value(String),
    /// The variable.
    Variable(VariableId),
}

/// What ends a call as failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScriptCheck {
    /// Nothing.
    #[default]
    None,
    /// A result that is false.
    Holds,
    /// A result that is true.
    HoldsNot,
}

/// Where a regular expression is looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SearchPlace {
    /// The whole message.
    Message,
    /// Its body.
    Body,
    /// A header field: its name as it is written, which occurrence, and how it is found.
    Header {
        /// With its colon, if it has one.
        name: String,
        /// From 1.
        occurrence: usize,
        /// The case of the name does not matter.
        any_case: bool,
        /// At the start of a line only.
        at_line_start: bool,
    },
    /// A variable.
    Variable(VariableId),
}

/// How two numbers are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptComparison {
    /// `=`.
    Equal,
    /// `≠`.
    NotEqual,
    /// `>`.
    Greater,
    /// `<`.
    Less,
    /// `≥`.
    GreaterOrEqual,
    /// `≤`.
    LessOrEqual,
}

/// A calculation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptArithmetic {
    /// The number itself.
    Assign,
    /// `+`.
    Add,
    /// `−`.
    Subtract,
    /// `×`.
    Multiply,
    /// `÷`.
    Divide,
}

/// Which media of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MediaKind {
    /// `m=audio`.
    Audio,
    /// `m=video`.
    Video,
    /// `m=image`.
    Image,
}

impl MediaKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Audio, Self::Video, Self::Image];

    /// Its name in session descriptions (RFC 4566 section 5.14).
    pub const fn name(self) -> &'static str {
        match self {
            Self::Audio => "audio",
            Self::Video => "video",
            Self::Image => "image",
        }
    }
}

/// Where the media of a call come from and go to, by the session descriptions of both sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MediaEnds {
    /// Where media come from whose place the own description does not say.
    pub default: SocketAddr,
    /// The own ends.
    pub local: BTreeMap<MediaKind, SocketAddr>,
    /// Those of the other side.
    pub remote: BTreeMap<MediaKind, SocketAddr>,
    /// Protocol and payload types of the other side's audio, as they stand in its media line.
    pub formats: String,
    /// Payload type of telephone events, by the other side's description.
    pub event_type: u8,
}

/// Payload type of telephone events where no description says another.
pub(super) const EVENT_TYPE: u8 = 101;

impl MediaEnds {
    /// Before any description.
    pub fn new(default: SocketAddr) -> Self {
        let (local, remote) = (BTreeMap::new(), BTreeMap::new());
        Self { default, local, remote, formats: String::new(), event_type: EVENT_TYPE }
    }

    /// Whether the other side takes this payload type without encryption.
    pub fn takes(&self, payload_type: u8) -> bool {
        let mut words = self.formats.split(' ');
        words.next() == Some("RTP/AVP") && words.any(|word| word.parse() == Ok(payload_type))
    }

    /// Both ends of one kind of media; the other side's if it is known.
    pub fn of(&self, kind: MediaKind) -> (SocketAddr, Option<SocketAddr>) {
        (self.local.get(&kind).copied().unwrap_or(self.default), self.remote.get(&kind).copied())
    }

    /// Takes what a message says that was sent or received. Its description may be anything: what is not understood is left.
    pub fn learn(&mut self, message: &str, is_sent: bool) {
        let Some((_, body)) = message.split_once("\r\n\r\n").filter(|(_, body)| body.contains("m=")) else {
            return;
        };
        let address = |line: &str| {
            let text = line.strip_prefix("c=IN IP4 ").or_else(|| line.strip_prefix("c=IN IP6 "))?;
            text.trim().split('/').next()?.parse::<IpAddr>().ok()
        };
        let lines: Vec<&str> = body.lines().map(str::trim_end).collect();
        let first_media = lines.iter().position(|line| line.starts_with("m=")).unwrap_or(lines.len());
        let of_session = lines[..first_media].iter().find_map(|line| address(line));
        for (place, line) in lines.iter().enumerate().skip(first_media) {
            let Some(words) = line.strip_prefix("m=") else {
                let event = line.strip_prefix("a=rtpmap:").and_then(|rest| rest.split_once(' '));
                let event = event.filter(|(_, name)| name.starts_with("telephone-event/"));
                if let (false, Some(Ok(event_type @ 0..128))) =
                    (is_sent, event.map(|(number, _)| number.parse()))
                {
                    self.event_type = event_type;
                }
                continue;
            };
            let mut words = words.split(' ');
            let kind =
                words.next().and_then(|name| MediaKind::ALL.into_iter().find(|kind| kind.name() == name));
            let port = words.next().and_then(|port| port.split('/').next()?.parse::<u16>().ok());
            let own = lines[place + 1..].iter().take_while(|line| !line.starts_with("m="));
            let ip = own.clone().find_map(|line| address(line)).or(of_session);
            if kind == Some(MediaKind::Audio) && !is_sent {
                self.formats = words.collect::<Vec<_>>().join(" ");
            }
            if let (Some(kind), Some(port), Some(ip)) = (kind, port, ip) {
                let ends = if is_sent { &mut self.local } else { &mut self.remote };
                ends.insert(kind, SocketAddr::new(ip, port));
            }
        }
    }
}

/// What an action plays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScriptMedia {
    /// Packets of a capture.
    Capture(MediaKind, String),
    /// A file as a stream, with what SIPp writes behind its name.
    Stream(String),
    /// Digits.
    Digits(String),
    /// Pause, resume or echo, in SIPp's words.
    Control(String),
}

/// An action.
#[derive(Clone, Debug, PartialEq)]
pub enum ScriptAction {
    /// A regular expression is looked for, and its groups are kept.
    Extract {
        /// POSIX extended.
        pattern: String,
        /// Where.
        place: SearchPlace,
        /// The whole, and the groups.
        into: Vec<VariableId>,
        /// Whether the call fails.
        check: ScriptCheck,
    },
    /// A line in the log.
    Log(ScriptTemplate),
    /// A warning.
    Warn(ScriptTemplate),
    /// The run ends with an error.
    Fail(ScriptTemplate),
    /// A calculation with a variable.
    Calculate(VariableId, ScriptArithmetic, ScriptNumber),
    /// A text into a variable.
    Text(VariableId, ScriptTemplate),
    /// Seconds and microseconds since 1970.
    TimeOfDay(VariableId, VariableId),
    /// Number of the step.
    StepNumber(VariableId),
    /// The call goes on at this step.
    Jump(ScriptNumber),
    /// The pause that the call goes back to ends at this time of the run, ms.
    RestorePause(ScriptNumber),
    /// A number from a distribution.
    Sample(VariableId, ScriptDistribution),
    /// A text becomes a number.
    ToNumber {
        /// The number.
        into: VariableId,
        /// The text.
        from: VariableId,
    },
    /// Two numbers are compared.
    Test {
        /// The result.
        into: Option<VariableId>,
        /// The first.
        left: VariableId,
        /// How.
        comparison: ScriptComparison,
        /// The second.
        right: ScriptNumber,
        /// Whether the call fails.
        check: ScriptCheck,
    },
    /// Two texts are compared: below, above or 0.
    CompareTexts {
        /// The result.
        into: Option<VariableId>,
        /// The first.
        left: VariableId,
        /// The second.
        right: ScriptText,
        /// Whether the call fails.
        check: ScriptCheck,
    },
    /// White space at both ends goes.
    Trim(VariableId),
    /// Percent signs and codes become characters.
    DecodeUrl(VariableId),
    /// The other way.
    EncodeUrl(VariableId),
    /// Whether the credentials of a request are right.
    VerifyCredentials {
        /// The result.
        into: VariableId,
        /// User.
        username: ScriptTemplate,
        /// Password.
        password: ScriptTemplate,
    },
    /// The line of an injection file whose indexed field has this value; −1 if none.
    Lookup {
        /// The result.
        into: VariableId,
        /// The file.
        file: ScriptTemplate,
        /// The value.
        key: ScriptTemplate,
    },
    /// A line is added to an injection file.
    Insert(ScriptTemplate, ScriptTemplate),
    /// A line of an injection file is replaced.
    Replace(ScriptTemplate, ScriptTemplate, ScriptTemplate),
    /// Where the messages of the call go from now on.
    Destination {
        /// Address.
        host: ScriptTemplate,
        /// Port.
        port: ScriptTemplate,
        /// Transport.
        protocol: ScriptTemplate,
    },
    /// The connection of the call is closed.
    CloseConnection,
    /// A program is started; nobody waits for it.
    Command(ScriptTemplate),
    /// The call ends.
    StopCall,
    /// No more calls begin.
    StopGracefully,
    /// The run ends.
    StopNow,
    /// Media.
    Media(ScriptMedia),
    /// Whether media are sent back.
    Echo(ScriptNumber),
}
