//! What goes on between a person, or a script, and the server.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use netrig_core::{Duration, Instant};
use netrig_sip::Status;
use netrig_sip::manual::{Draft, Flaw, ManualClient, ManualClientEvent, MessageChange, Step};
use netrig_sip_net::Line;

use super::ManualCallError;
use super::ladder::Ladder;
use super::script::{Act, Wanted};

/// For so long at most nothing is looked at but the socket.
const LOOK: Duration = Duration::from_millis(20);

/// How a call has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All went as it should.
    Held,
    /// Something did not.
    Failed(String),
    /// The person has interrupted it.
    Interrupted,
}

/// What was heard of the last request.
#[derive(Clone, Debug)]
pub struct Heard {
    pub step: Step,
    /// All statuses, in their order.
    pub statuses: Vec<Status>,
    pub timed_out: bool,
}

impl Heard {
    /// Its final response.
    pub fn answer(&self) -> Option<Status> {
        self.statuses.iter().copied().find(|status| status.is_final())
    }
}

/// A call under way.
pub struct Conversation {
    pub line: Line,
    pub desk: ManualClient,
    /// Of all messages.
    pub changes: Vec<MessageChange>,
    /// What is wrong with them on purpose.
    pub flaw: Option<Flaw>,
    pub ladder: Ladder,
    pub has_credentials: bool,
    pub patience: Duration,
    /// Where the messages are shown.
    pub output: Box<dyn Write>,
    pub heard: Option<Heard>,
    pub stop: Arc<AtomicBool>,
}

impl Conversation {
    /// The draft as it would be sent, with these changes behind those of all messages.
    pub fn changed(&self, draft: &Draft, more: &[MessageChange]) -> Bytes {
        let all = self.changes.iter().chain(more).filter(|change| change.is_of(draft.method()));
        let flaw = self.flaw.as_ref().filter(|flaw| flaw.is_of(draft.method()));
        let composed = flaw.map_or_else(|| draft.to_bytes(), |flaw| draft.spoiled(flaw.fault));
        all.fold(composed, |bytes, change| change.apply(&bytes))
    }

    /// Sends a draft as these bytes.
    pub fn send(&mut self, draft: Draft, bytes: Bytes) -> Result<(), ManualCallError> {
        let step = draft.step;
        if step != Step::Ack {
            self.heard = Some(Heard { step, statuses: Vec::new(), timed_out: false });
        }
        self.desk.send(self.line.now(), draft, bytes);
        self.tell()
    }

    /// Waits for a while, and does what is to be done by itself.
    pub fn turn(&mut self, within: Duration) -> Result<(), ManualCallError> {
        let now = self.line.now();
        let due = self.desk.poll_timeout().map_or(within, |at| at - now.min(at));
        let came = self.line.receive(within.min(due));
        for (at, bytes) in came? {
            self.desk.handle(at, &bytes);
            self.tell()?;
        }
        self.desk.handle_timeout(self.line.now());
        self.tell()
    }

    /// Sends and shows what the desk has to say.
    fn tell(&mut self) -> Result<(), ManualCallError> {
        while let Some(told) = self.desk.poll() {
            let now = self.line.now();
            match told {
                ManualClientEvent::Send { bytes, step, why } => {
                    self.line.send(&bytes)?;
                    let words = self.ladder.sent(now, &bytes, step, why).words();
                    self.show(&words)?;
                }
                ManualClientEvent::Received(came) => {
                    if let (Some(status), Some((step, _)), Some(heard)) =
                        (came.status(), came.answers, &mut self.heard)
                        && heard.step == step
                    {
                        heard.statuses.push(status);
                    }
                    let words = self.ladder.came(now, &came).words();
                    self.show(&words)?;
                }
                ManualClientEvent::TimedOut { step, timer } => {
                    if let Some(heard) = self.heard.as_mut().filter(|heard| heard.step == step) {
                        heard.timed_out = true;
                    }
                    self.show(&format!(
                        "nobody has answered {step} (timer {timer:?}, RFC 3261 section 17.1)\n"
                    ))?;
                }
            }
        }
        Ok(())
    }

    /// Shows something to the person, whatever the terminal does with ends of lines.
    pub fn show(&mut self, text: &str) -> Result<(), ManualCallError> {
        let text = text.trim_end();
        let shown = if super::raw_keys::is_raw() {
            writeln!(self.output, "{}\r", text.replace('\n', "\r\n"))
        } else {
            writeln!(self.output, "{text}")
        };
        shown.map_err(ManualCallError::Output)
    }

    /// Goes through a course. What is waited for has to come.
    pub fn perform(&mut self, acts: &[Act]) -> Result<Ended, ManualCallError> {
        let mut place = 0;
        while let Some(act) = acts.get(place) {
            place += 1;
            let done = match act {
                Act::Send(step, changes) => self.compose_and_send(*step, changes)?,
                Act::Pause(span) => self.pause(*span)?,
                Act::Wait(wanted) => {
                    let sent = acts[..place].iter().rev().find_map(|act| match act {
                        Act::Send(step, changes) if *step != Step::Ack => Some((*step, changes)),
                        _ => None,
                    });
                    self.wait(*wanted, sent)?
                }
            };
            if done != Ended::Held {
                return Ok(done);
            }
        }
        // What is on its way is heard, a final response that nobody has waited for too.
        let end = self.line.now() + self.patience;
        while self.desk.waits() && self.line.now() < end && !self.is_stopped() {
            self.turn(LOOK)?;
        }
        Ok(if self.is_stopped() { Ended::Interrupted } else { Ended::Held })
    }

    fn compose_and_send(&mut self, step: Step, changes: &[MessageChange]) -> Result<Ended, ManualCallError> {
        let draft = match self.desk.compose(step) {
            Ok(draft) => draft,
            Err(violation) => return Ok(Ended::Failed(format!("{step} cannot be sent: {violation}"))),
        };
        let bytes = self.changed(&draft, changes);
        self.show(&shown(&bytes))?;
        self.send(draft, bytes)?;
        Ok(Ended::Held)
    }

    fn pause(&mut self, span: Duration) -> Result<Ended, ManualCallError> {
        let end = self.line.now() + span;
        while self.line.now() < end && !self.is_stopped() {
            let left = end - self.line.now().min(end);
            self.turn(left.min(LOOK))?;
        }
        Ok(if self.is_stopped() { Ended::Interrupted } else { Ended::Held })
    }

    /// Waits for a response; each challenge that can be answered is, by the same request with credentials for all realms that
    /// have asked (RFC 3261 section 22.3).
    fn wait(
        &mut self,
        wanted: Wanted,
        sent: Option<(Step, &Vec<MessageChange>)>,
    ) -> Result<Ended, ManualCallError> {
        let Some((step, changes)) = sent else {
            return Ok(Ended::Failed("nothing was sent whose response could be waited for".to_owned()));
        };
        let mut end: Instant = self.line.now() + self.patience;
        loop {
            let heard = self.heard.clone();
            let (answer, timed_out, statuses) = heard
                .map_or((None, false, Vec::new()), |heard| (heard.answer(), heard.timed_out, heard.statuses));
            let is_wanted = match wanted {
                Wanted::Final => answer.is_some(),
                Wanted::Status(status) => statuses.contains(&status),
            };
            let is_challenge = answer.is_some_and(|status| matches!(status.code(), 401 | 407));
            let can_answer = self.has_credentials && self.desk.refusal().is_none();
            if is_challenge && can_answer && !(is_wanted && wanted != Wanted::Final) {
                let done = self.compose_and_send(step, changes)?;
                if done != Ended::Held {
                    return Ok(done);
                }
                end = self.line.now() + self.patience;
                continue;
            }
            if is_wanted {
                return Ok(Ended::Held);
            }
            if let Some(answer) = answer {
                let reason = answer.reason();
                let cause = match self.desk.refusal() {
                    _ if !is_challenge => String::new(),
                    _ if !self.has_credentials => ": no password is given with --password-env".to_owned(),
                    refusal => refusal.map_or(String::new(), |refusal| format!(": {refusal}")),
                };
                return Ok(Ended::Failed(format!("{step} was answered with {answer} {reason}{cause}")));
            }
            if timed_out || self.line.now() >= end {
                return Ok(Ended::Failed(format!("{step} was not answered in time")));
            }
            if self.is_stopped() {
                return Ok(Ended::Interrupted);
            }
            self.turn(LOOK)?;
        }
    }

    /// Whether the person has interrupted it.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// A message before it is sent, with the rules that it breaks.
pub fn shown(bytes: &Bytes) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut shown = super::ladder::indented(&text);
    for broken in super::ladder::broken(bytes) {
        shown.push_str(&format!("           ! {} ({})\n", broken.what, broken.rule));
    }
    shown
}
