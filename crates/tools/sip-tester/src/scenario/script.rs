//! A parsed scenario.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use netrig_core::Duration;

use super::action::{MediaKind, ScriptAction, ScriptDistribution};
use super::template::ScriptTemplate;
use super::variables::{VariableId, VariableTable};

/// The longest time of a step, s.
pub(super) const LONGEST_TIME: f64 = 1e6;

/// The index of a name in `names`. An unknown name is added.
pub(super) fn place_of(names: &mut Vec<String>, name: &str) -> usize {
    names.iter().position(|known| known == name).unwrap_or_else(|| {
        names.push(name.to_owned());
        names.len() - 1
    })
}

/// A scenario: the steps of one call.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallScript {
    /// Its name.
    pub name: String,
    /// Steps of a call.
    pub steps: Vec<ScriptStep>,
    /// Steps that run once, before the first call.
    pub opening: Vec<ScriptStep>,
    /// Variables that the steps use.
    pub variables: VariableTable,
    /// Names of transactions.
    pub transactions: Vec<String>,
    /// Names of response times.
    pub response_times: Vec<String>,
    /// Names of counters.
    pub counters: Vec<String>,
    /// The step at which a call continues after an unexpected message (`_unexp.main`). The variable `_unexp.retaddr`
    /// then contains the number of the interrupted step, and `_unexp.pausedaddr` the end of its pause.
    pub on_unexpected: Option<usize>,
}

/// A step.
#[derive(Clone, Debug, PartialEq)]
pub struct ScriptStep {
    /// Line in the file, from 1.
    pub line: usize,
    /// The kind of the step.
    pub kind: StepKind,
    /// Response times whose measurement starts with the step.
    pub starts: Vec<usize>,
    /// The response time whose measurement ends with the step.
    pub ends: Option<usize>,
    /// Whether that response time is measured each time the step runs, not only the first time.
    pub ends_again: bool,
    /// The counter that the step increments.
    pub counter: Option<usize>,
    /// Share of the step's messages that are deliberately lost, 0 to 1.
    pub lost: f64,
    /// Actions that run after the message of the step, or at this point of the call.
    pub actions: Vec<ScriptAction>,
    /// Condition under which the step runs.
    pub condition: Option<StepCondition>,
    /// The next step, if it may differ from the following one.
    pub branch: Option<StepBranch>,
    /// The next step after a time-out.
    pub on_timeout: Option<usize>,
    /// The text that describes the step in reports.
    pub display: Option<String>,
}

impl CallScript {
    /// The line of the first step that needs another process of the test, and the name of its element.
    pub fn needs_link(&self) -> Option<(usize, &'static str)> {
        self.steps.iter().find_map(|step| match step.kind {
            StepKind::SendCommand { .. } => Some((step.line, "sendCmd")),
            StepKind::ReceiveCommand { .. } => Some((step.line, "recvCmd")),
            _ => None,
        })
    }
}

impl ScriptStep {
    /// The step in words.
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
                    ExpectedMessage::Matching(pattern) => format!("a message that matches `{pattern}`"),
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

/// The condition for running a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepCondition {
    /// The variable.
    pub variable: VariableId,
    /// Whether the variable must be unset.
    pub is_inverse: bool,
}

/// The next step of a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepBranch {
    /// Index of the step. If it is beyond the last step, the call ends.
    pub to: usize,
    /// Condition: this variable is set.
    pub test: Option<VariableId>,
    /// Probability, 0 to 1.
    pub chance: f64,
}

/// The kind of a step.
#[derive(Clone, Debug, PartialEq)]
pub enum StepKind {
    /// Send a message.
    Send(SendStep),
    /// Wait for a message.
    Receive(ReceiveStep),
    /// Pause, and then run the next step.
    Pause(ScriptPause),
    /// Wait at the end of the call, and answer retransmissions meanwhile.
    TimeWait(ScriptPause),
    /// Only run the actions.
    Nothing,
    /// Send a message to another process of the test.
    SendCommand {
        /// Name of the process, if there are several.
        to: Option<String>,
        /// The message.
        message: ScriptTemplate,
    },
    /// Wait for a message from another process.
    ReceiveCommand {
        /// Name of the process, if there are several.
        from: Option<String>,
        /// Whether the call continues without it.
        is_optional: bool,
    },
}

/// A sent message.
#[derive(Clone, Debug, PartialEq)]
pub struct SendStep {
    /// The message.
    pub message: ScriptTemplate,
    /// First pause before a retransmission over UDP. `None`: no retransmission.
    pub again_after: Option<Duration>,
    /// How long the message is retransmitted; `None`: 64 times the first pause.
    pub timeout: Option<Duration>,
    /// The named transaction that the request starts.
    pub begins: Option<usize>,
    /// The named transaction whose response the ACK acknowledges.
    pub acknowledges: Option<usize>,
}

/// An expected message.
#[derive(Clone, Debug, PartialEq)]
pub struct ReceiveStep {
    /// The expected message.
    pub expected: ExpectedMessage,
    /// Whether the call continues without it.
    pub presence: MessagePresence,
    /// Whether an optional message may advance the call to the next step.
    pub moves_on: bool,
    /// How long to wait for the message; `None`: the default of the run.
    pub timeout: Option<Duration>,
    /// Whether the Record-Route of the message becomes the route set.
    pub keeps_routes: bool,
    /// The named transaction to which a response must belong.
    pub transaction: Option<usize>,
}

/// The message that a step expects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExpectedMessage {
    /// A response with this status to one of these methods; to any method if the list is empty.
    Response(u16, Vec<String>),
    /// A request with this method.
    Request(String),
    /// A request or response whose method or status matches a regular expression.
    Matching(String),
}

/// Whether a message is mandatory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MessagePresence {
    /// It must arrive.
    #[default]
    Mandatory,
    /// It may arrive here.
    Optional,
    /// It may arrive here or at any later step.
    OptionalEverywhere,
}

/// The length of a pause.
#[derive(Clone, Debug, PartialEq)]
pub enum ScriptPause {
    /// The default length, set by `-d`.
    Default,
    /// Milliseconds, from a distribution.
    Drawn(ScriptDistribution),
    /// Milliseconds, from a variable.
    Variable(VariableId),
}

/// The media addresses of a call, from the session descriptions of both sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MediaEnds {
    /// The local address of media that the tester's session description does not contain.
    pub default: SocketAddr,
    /// The addresses of the tester.
    pub local: BTreeMap<MediaKind, SocketAddr>,
    /// The addresses of the other side.
    pub remote: BTreeMap<MediaKind, SocketAddr>,
    /// Protocol and payload types in the audio line of the other side's description.
    pub formats: String,
    /// Payload type of telephone events in the other side's description.
    pub event_type: u8,
}

/// Default payload type of telephone events.
pub(super) const EVENT_TYPE: u8 = 101;

impl MediaEnds {
    /// The state before any description.
    pub fn new(default: SocketAddr) -> Self {
        let (local, remote) = (BTreeMap::new(), BTreeMap::new());
        Self { default, local, remote, formats: String::new(), event_type: EVENT_TYPE }
    }

    /// Whether the other side accepts this payload type without encryption.
    pub fn takes(&self, payload_type: u8) -> bool {
        let mut words = self.formats.split(' ');
        words.next() == Some("RTP/AVP") && words.any(|word| word.parse() == Ok(payload_type))
    }

    /// The tester's address for one kind of media, and the other side's if known.
    pub fn of(&self, kind: MediaKind) -> (SocketAddr, Option<SocketAddr>) {
        (self.local.get(&kind).copied().unwrap_or(self.default), self.remote.get(&kind).copied())
    }

    /// Reads the addresses from the session description of a sent or received message. Unknown parts are ignored.
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
            let kind = words.next().and_then(|name| name.parse().ok());
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
