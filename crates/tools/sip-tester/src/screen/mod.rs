//! The live screen of a load or a search: a state that a pure function draws and keys change.

mod draw;
mod state;
pub mod terminal;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use netrig_host::StoppableThread;
use netrig_sip_net::load::Control;
use ratatui::crossterm::event::{self, Event, KeyEventKind};

pub use state::{KeyAction, ScreenState};

/// The longest delay until the screen shows the effect of a key or the end of a second.
const LOOK: Duration = Duration::from_millis(100);

/// A screen during a load or a search. It is closed when dropped.
pub struct Screen {
    shared: Arc<SharedScreen>,
    _thread: StoppableThread<()>,
}

/// State that is shared between the screen's thread and its users.
struct SharedScreen {
    state: Mutex<ScreenState>,
    /// Whether something needs to be drawn.
    is_changed: AtomicBool,
}

/// The effects of keys.
#[derive(Clone)]
pub struct KeyEffects {
    /// Set to end the load or the search immediately.
    pub stop: Arc<AtomicBool>,
    /// Changes the load. If it is `None`, the key that ends the load stops it immediately.
    pub control: Option<Arc<Control>>,
    /// Ends the program. Called if the end is requested twice; the terminal is restored before.
    pub abort: fn() -> !,
}

impl Screen {
    /// Opens the screen; `None` if stderr is not a suitable terminal.
    ///
    /// # Errors
    /// If the terminal refuses, or the system cannot start a thread.
    pub fn open(state: ScreenState, effects: KeyEffects) -> io::Result<Option<Self>> {
        if !terminal::can_be_screen() {
            return Ok(None);
        }
        let mut screen = terminal::Screen::open()?;
        let shared = Arc::new(SharedScreen { state: Mutex::new(state), is_changed: AtomicBool::new(true) });
        let own = Arc::clone(&shared);
        let thread = StoppableThread::start("screen", move |stop| {
            while !stop.load(Ordering::Relaxed) && terminal::is_screen() {
                if own.is_changed.swap(false, Ordering::Relaxed) {
                    let state = own.state().clone();
                    // If the terminal is gone, nothing can be shown.
                    let _ = screen.terminal.draw(|frame| draw::draw(frame, &state));
                }
                own.take_keys(&effects);
            }
        })?;
        Ok(Some(Self { shared, _thread: thread }))
    }

    /// Changes the state.
    pub fn show(&self, change: impl FnOnce(&mut ScreenState)) {
        change(&mut self.shared.state());
        self.shared.is_changed.store(true, Ordering::Relaxed);
    }
}

impl SharedScreen {
    fn state(&self) -> MutexGuard<'_, ScreenState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a key for at most [`LOOK`], and performs its action.
    fn take_keys(&self, effects: &KeyEffects) {
        match event::poll(LOOK) {
            Ok(true) => {}
            Ok(false) => return,
            // No more keys can be read; signals still work.
            Err(_) => return std::thread::sleep(LOOK),
        }
        let Ok(event) = event::read() else { return };
        self.is_changed.store(true, Ordering::Relaxed);
        let Event::Key(key) = event else { return };
        if key.kind == KeyEventKind::Release {
            return;
        }
        let action = self.state().key(key);
        if let Some(action) = action {
            effects.do_it(action);
        }
    }
}

impl KeyEffects {
    fn do_it(&self, action: KeyAction) {
        match (action, &self.control) {
            (KeyAction::Speed(factor), Some(control)) => control.speed(factor),
            (KeyAction::Enough, Some(control)) => control.enough(),
            (KeyAction::Speed(_), None) => {}
            (KeyAction::Enough | KeyAction::Interrupt, _) => {
                // As with signals, the second request ends the program immediately.
                if self.stop.swap(true, Ordering::Relaxed) {
                    terminal::restore();
                    (self.abort)();
                }
            }
        }
    }
}
