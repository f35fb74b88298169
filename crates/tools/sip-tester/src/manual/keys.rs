//! A call that is controlled by keys at a terminal.

use std::time::Duration;

use bytes::Bytes;
use netrig_sip::manual::{Draft, Step};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::ManualCallError;
use super::conversation::{Conversation, LOOK, ManualCallEnd, RawKeys};
use super::editor::edited;
use super::message_log::message_text;

/// The key of each request.
const fn key_of(step: Step) -> char {
    match step {
        Step::Register => 'g',
        Step::Invite => 'i',
        Step::Ack => 'a',
        Step::Cancel => 'c',
        Step::ReInvite => 'r',
        Step::Bye => 'b',
        Step::Options => 'o',
        Step::Message => 'm',
    }
}

impl Conversation {
    /// Sends the requests that the user selects, until the user ends the call.
    ///
    /// # Errors
    /// If the connection ends, or the terminal fails.
    pub fn talk(&mut self) -> Result<ManualCallEnd, ManualCallError> {
        let end = self.follow_keys();
        self.raw_keys = None;
        end
    }

    fn follow_keys(&mut self) -> Result<ManualCallEnd, ManualCallError> {
        self.raw_keys = Some(RawKeys::begin()?);
        // The request that is shown but not yet sent.
        let mut drafted: Option<(Draft, Bytes)> = None;
        let mut offered = String::new();
        loop {
            if self.is_stopped() {
                return Ok(ManualCallEnd::Interrupted);
            }
            let offer = self.offer(drafted.is_some());
            if offer != offered {
                self.show(&offer)?;
                offered = offer;
            }
            self.poll(LOOK)?;
            let Some(key) = pressed() else { continue };
            match (key.code, drafted.take()) {
                (KeyCode::Char('c'), _) if key.modifiers.contains(KeyModifiers::CONTROL) => {
                    return Ok(ManualCallEnd::Interrupted);
                }
                (KeyCode::Char('q'), None) => return Ok(self.end()),
                (KeyCode::Char('x'), None) => self.client.stop_repeating(),
                (KeyCode::Enter | KeyCode::Char('s'), Some((draft, bytes))) => self.send(draft, bytes)?,
                (KeyCode::Char('e'), Some((draft, bytes))) => {
                    self.raw_keys = None;
                    let made = edited(&bytes);
                    self.raw_keys = Some(RawKeys::begin()?);
                    let bytes = match made {
                        Ok(made) => made,
                        Err(why) => {
                            self.show(&why)?;
                            bytes
                        }
                    };
                    self.show(&message_text(&bytes))?;
                    drafted = Some((draft, bytes));
                }
                (KeyCode::Esc, Some(_)) => {}
                (_, Some(kept)) => drafted = Some(kept),
                (KeyCode::Char(typed), None) => {
                    let chosen = self.client.choices().into_iter().find(|step| key_of(*step) == typed);
                    match chosen.map(|step| self.draft(step, &[])).transpose()? {
                        Some(Ok(draft)) => drafted = Some(draft),
                        Some(Err(why)) => self.show(&why)?,
                        None => {}
                    }
                }
                _ => {}
            }
            offered.clear();
        }
    }

    /// One line with the available keys and their actions.
    fn offer(&self, is_drafted: bool) -> String {
        if is_drafted {
            return "[Enter] send   [e] edit   [Esc] discard".to_owned();
        }
        let choices = self.client.choices();
        let mut keys: Vec<_> = choices.iter().map(|step| format!("[{}] {step}", key_of(*step))).collect();
        if self.client.repeats() {
            keys.push("[x] send nothing again".to_owned());
        }
        keys.push("[q] end".to_owned());
        keys.join("   ")
    }

    /// A call fails if its last request timed out.
    fn end(&self) -> ManualCallEnd {
        match &self.last {
            Some(last) if last.timed_out => {
                ManualCallEnd::Failed(format!("{} was not answered in time", last.step))
            }
            _ => ManualCallEnd::Held,
        }
    }
}

/// The key that was pressed; `None` if none was.
fn pressed() -> Option<KeyEvent> {
    match event::poll(Duration::ZERO) {
        Ok(true) => match event::read() {
            Ok(Event::Key(key)) if key.kind != KeyEventKind::Release => Some(key),
            _ => None,
        },
        _ => None,
    }
}
