//! The call in the hands of a person at a terminal.

use std::time::Duration as Wait;

use netrig_core::Duration;
use netrig_sip::manual::{Draft, Step};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::ManualCallError;
use super::conversation::{Conversation, Ended, shown};
use super::editor::edited;
use super::raw_keys::RawKeys;

/// For so long at most a key waits.
const LOOK: Duration = Duration::from_millis(20);

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

/// Lets the person choose what is sent, until there is enough.
pub fn talk(conversation: &mut Conversation) -> Result<Ended, ManualCallError> {
    // Keys are read one by one for as long as it is there.
    let mut raw = RawKeys::begin()?;
    // The request that is shown and not sent.
    let mut drafted: Option<(Draft, bytes::Bytes)> = None;
    let mut offered = String::new();
    loop {
        if conversation.is_stopped() {
            return Ok(Ended::Interrupted);
        }
        let offer = offer(conversation, drafted.is_some());
        if offer != offered {
            conversation.show(&offer)?;
            offered = offer;
        }
        conversation.turn(LOOK)?;
        let Some(key) = pressed() else { continue };
        match (key.code, drafted.take()) {
            (KeyCode::Char('c'), _) if key.modifiers.contains(KeyModifiers::CONTROL) => {
                return Ok(Ended::Interrupted);
            }
            (KeyCode::Char('q'), None) => return Ok(verdict(conversation)),
            (KeyCode::Char('x'), None) => conversation.desk.stop_repeating(),
            (KeyCode::Enter | KeyCode::Char('s'), Some((draft, bytes))) => conversation.send(draft, bytes)?,
            (KeyCode::Char('e'), Some((draft, bytes))) => {
                drop(raw);
                let made = edited(&bytes);
                raw = RawKeys::begin()?;
                let bytes = match made {
                    Ok(made) => made,
                    Err(why) => {
                        conversation.show(&why)?;
                        bytes
                    }
                };
                conversation.show(&shown(&bytes))?;
                drafted = Some((draft, bytes));
            }
            (KeyCode::Esc, Some(_)) => {}
            (_, Some(kept)) => drafted = Some(kept),
            (KeyCode::Char(typed), None) => {
                let chosen = conversation.desk.choices().into_iter().find(|step| key_of(*step) == typed);
                if let Some(step) = chosen {
                    drafted = draft(conversation, step)?;
                }
            }
            _ => {}
        }
        offered.clear();
    }
}

fn draft(
    conversation: &mut Conversation,
    step: Step,
) -> Result<Option<(Draft, bytes::Bytes)>, ManualCallError> {
    match conversation.desk.compose(step) {
        Ok(draft) => {
            let bytes = conversation.changed(&draft, &[]);
            conversation.show(&shown(&bytes))?;
            Ok(Some((draft, bytes)))
        }
        Err(violation) => {
            conversation.show(&format!("{step} cannot be sent: {violation}"))?;
            Ok(None)
        }
    }
}

/// What keys do now, in a line.
fn offer(conversation: &Conversation, is_drafted: bool) -> String {
    if is_drafted {
        return "[Enter] send   [e] edit   [Esc] discard".to_owned();
    }
    let choices = conversation.desk.choices();
    let mut keys: Vec<_> = choices.iter().map(|step| format!("[{}] {step}", key_of(*step))).collect();
    if conversation.desk.repeats() {
        keys.push("[x] send nothing again".to_owned());
    }
    keys.push("[q] end".to_owned());
    keys.join("   ")
}

/// Whether the last request went well.
fn verdict(conversation: &Conversation) -> Ended {
    match &conversation.heard {
        Some(heard) if heard.timed_out => Ended::Failed(format!("{} was not answered in time", heard.step)),
        _ => Ended::Held,
    }
}

/// A key that was pressed.
fn pressed() -> Option<KeyEvent> {
    match event::poll(Wait::ZERO) {
        Ok(true) => match event::read() {
            Ok(Event::Key(key)) if key.kind != KeyEventKind::Release => Some(key),
            _ => None,
        },
        _ => None,
    }
}
