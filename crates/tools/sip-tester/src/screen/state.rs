//! The state of the screen, and the effects of keys on it.

use std::collections::VecDeque;

use netrig_core::Duration;
use netrig_sip::load::Pace;
use netrig_sip_net::load::{DelayRow, FailureRow, LoadOrder, SPEEDS, SecondRow, SoFar, ThresholdRow};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Number of seconds that are stored for the curves: more than the width of any terminal.
const KEPT: usize = 600;

/// Number of finished steps of a search that are stored.
const STEPS: usize = 100;

/// One press of `+` multiplies the rate by this factor, and one press of `-` divides it.
const STEP: f64 = 1.1;

/// The state that the screen shows.
#[derive(Clone, Debug, Default)]
pub struct ScreenState {
    /// The target and the load.
    pub title: String,
    /// How long calls start, s.
    pub lasts: f64,
    /// Threads of the tester.
    pub threads: u16,
    /// Whether the screen shows a search, which selects its rates itself.
    pub is_search: bool,
    /// Whether attempts start at a planned rate, in contrast to a closed loop of users.
    pub is_open_loop: bool,
    /// Factor of the planned rate.
    pub factor: f64,
    /// Whether no call starts until the user ends the pause.
    pub is_paused: bool,
    /// Whether no new call starts.
    pub is_ending: bool,
    /// The last seconds.
    pub seconds: VecDeque<SecondRow>,
    /// Delays since the start.
    pub delays: Vec<DelayRow>,
    /// The thresholds, with the results so far.
    pub thresholds: Vec<ThresholdRow>,
    /// Failures since the start, the most frequent first.
    pub failures: Vec<FailureRow>,
    /// 99th percentile of the lateness of starts, since the start.
    pub late: Duration,
    /// Datagrams for which the tester had no room, since the start.
    pub dropped: u64,
    /// The last fault of the tester, with its second.
    pub fault: Option<(u64, String)>,
    /// Seconds with faults.
    pub faulty: u64,
    /// Lines about the finished steps of a search, the last one first.
    pub steps: VecDeque<String>,
}

/// The action that a key requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum KeyAction {
    /// Run at this multiple of the planned rate; 0 is a pause.
    Speed(f64),
    /// Start no new calls.
    Enough,
    /// End the load now.
    Interrupt,
}

impl ScreenState {
    /// The state before the first second of a load.
    pub fn of(title: String, order: &LoadOrder) -> Self {
        Self {
            title,
            lasts: order.plan.duration.as_secs_f64(),
            threads: order.shards,
            is_open_loop: matches!(order.plan.pace, Pace::Open(_)),
            factor: 1.0,
            ..Self::default()
        }
    }

    /// Resets the state for a new step of a search.
    pub fn begin_step(&mut self, title: String, order: &LoadOrder) {
        let steps = std::mem::take(&mut self.steps);
        let is_ending = self.is_ending;
        *self = Self { is_search: true, is_ending, steps, ..Self::of(title, order) };
    }

    /// Adds the line about a finished step of a search.
    pub fn end_step(&mut self, line: String) {
        self.steps.push_front(line);
        self.steps.truncate(STEPS);
    }

    /// Updates the state at the end of a second.
    pub fn second(&mut self, row: &SecondRow, so_far: SoFar<'_>, order: &LoadOrder) {
        self.delays = so_far.delays();
        self.failures = so_far.failures();
        self.failures.sort_by_key(|row| std::cmp::Reverse(row.count));
        self.thresholds = so_far.judged(&order.plan.thresholds);
        self.late = so_far.lateness_p99();
        self.dropped = so_far.dropped();
        if !row.faults.is_empty() {
            self.faulty += 1;
            self.fault = Some((row.second + 1, row.faults.join("; ")));
        }
        self.seconds.push_back(row.clone());
        if self.seconds.len() > KEPT {
            self.seconds.pop_front();
        }
    }

    /// The action that a key requests. The state changes immediately.
    pub fn key(&mut self, key: KeyEvent) -> Option<KeyAction> {
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if is_control => Some(KeyAction::Interrupt),
            KeyCode::Char('q') | KeyCode::Esc => {
                let is_first = !std::mem::replace(&mut self.is_ending, true);
                is_first.then_some(KeyAction::Enough)
            }
            // A search selects its rates itself.
            _ if self.is_search || self.is_ending => None,
            KeyCode::Char('p' | ' ') => {
                self.is_paused = !self.is_paused;
                Some(self.speed())
            }
            KeyCode::Char('+' | '=') | KeyCode::Up => self.change(STEP),
            KeyCode::Char('-') | KeyCode::Down => self.change(1.0 / STEP),
            KeyCode::PageUp => self.change(2.0),
            KeyCode::PageDown => self.change(0.5),
            _ => None,
        }
    }

    /// Multiplies the factor of the rate by `by`. During a pause, no action is returned: the new rate takes effect
    /// after the pause.
    fn change(&mut self, by: f64) -> Option<KeyAction> {
        let (least, most) = SPEEDS;
        // Rounded to a hundredth, so that steps down reverse steps up.
        let wanted = (self.factor * by * 100.0).round() / 100.0;
        self.factor = wanted.clamp(least, most);
        (!self.is_paused).then(|| self.speed())
    }

    const fn speed(&self) -> KeyAction {
        KeyAction::Speed(if self.is_paused { 0.0 } else { self.factor })
    }
}

#[cfg(test)]
mod tests {
    use netrig_sip::load::{Arrivals, Gaps, Plan, Work};

    use super::*;

    fn press(state: &mut ScreenState, keys: &[KeyCode]) -> Vec<Option<KeyAction>> {
        keys.iter().map(|key| state.key(KeyEvent::new(*key, KeyModifiers::NONE))).collect()
    }

    #[test]
    fn keys_change_the_pace_of_a_load() {
        use KeyCode::{Char, Down, Esc, PageUp, Up};
        let mut state = ScreenState { factor: 1.0, ..ScreenState::default() };
        let speeds = |all: &[f64]| all.iter().map(|speed| Some(KeyAction::Speed(*speed))).collect::<Vec<_>>();
        assert_eq!(
            press(&mut state, &[Up, Char('+'), Down, Char('-'), PageUp]),
            speeds(&[1.1, 1.21, 1.1, 1.0, 2.0])
        );
        // A rate that is changed during a pause takes effect after the pause.
        assert_eq!(
            press(&mut state, &[Char(' '), Char('+'), Char('p')]),
            [Some(KeyAction::Speed(0.0)), None, Some(KeyAction::Speed(2.2))]
        );
        // The first press waits for open calls.
        assert_eq!(
            press(&mut state, &[Char('q'), Esc, Up, Char('x')]),
            [Some(KeyAction::Enough), None, None, None]
        );
        let interrupt = KeyEvent::new(Char('c'), KeyModifiers::CONTROL);
        assert_eq!(state.key(interrupt), Some(KeyAction::Interrupt));
    }

    #[test]
    fn a_search_is_only_ended() {
        let mut state = ScreenState { is_search: true, ..ScreenState::default() };
        assert_eq!(press(&mut state, &[KeyCode::Up, KeyCode::Char('p')]), [None, None]);
        assert_eq!(press(&mut state, &[KeyCode::Char('q')]), [Some(KeyAction::Enough)]);
        state.end_step("first".to_owned());
        let pace = Pace::Open(Arrivals::at(1.0, Gaps::Poisson));
        let plan = Plan::new(Work::Register, pace, Duration::from_secs(1));
        let order = LoadOrder::new("127.0.0.1:5060".parse().unwrap(), plan);
        state.begin_step("step".to_owned(), &order);
        assert!(state.is_ending && state.steps.len() == 1);
    }
}
