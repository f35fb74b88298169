//! The live screen of a load or a search: what it shows is a state, drawn by a pure function; keys change both.

mod draw;
mod state;
pub mod terminal;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use netrig_sip_net::load::Control;
use ratatui::crossterm::event::{self, Event, KeyEventKind};

pub use state::{KeyAction, ScreenState};

/// How long a key, or a second that is over, waits at most until it is seen.
const LOOK: Duration = Duration::from_millis(100);

/// A screen while something goes on. It is closed when it is dropped.
pub struct Screen {
    shared: Arc<SharedScreen>,
    thread: Option<JoinHandle<()>>,
}

/// State that is shared between the screen's thread and its users.
struct SharedScreen {
    state: Mutex<ScreenState>,
    /// There is something to draw.
    is_changed: AtomicBool,
    is_over: AtomicBool,
}

/// What keys may do.
#[derive(Clone)]
pub struct Hand {
    /// Ends what goes on at once.
    pub stop: Arc<AtomicBool>,
    /// Changes it; without it a key that asks for the end ends it at once.
    pub control: Option<Arc<Control>>,
    /// Ends the program. Called if the end is asked for twice; the terminal is restored before.
    pub abort: fn() -> !,
}

impl Screen {
    /// Opens the screen; `None` if stderr is no terminal that can be one.
    ///
    /// # Errors
    /// If the terminal refuses, or the system starts no thread.
    pub fn open(state: ScreenState, hand: Hand) -> io::Result<Option<Self>> {
        if !terminal::can_be_screen() {
            return Ok(None);
        }
        let mut screen = terminal::Screen::open()?;
        let shared = Arc::new(SharedScreen {
            state: Mutex::new(state),
            is_changed: AtomicBool::new(true),
            is_over: AtomicBool::new(false),
        });
        let own = Arc::clone(&shared);
        let work = move || {
            while !own.is_over.load(Ordering::Relaxed) && terminal::is_screen() {
                if own.is_changed.swap(false, Ordering::Relaxed) {
                    let state = own.state().clone();
                    // A terminal that is gone shows nothing.
                    let _ = screen.terminal.draw(|frame| draw::draw(frame, &state));
                }
                own.take_keys(&hand);
            }
        };
        let thread = std::thread::Builder::new().name("screen".to_owned()).spawn(work)?;
        Ok(Some(Self { shared, thread: Some(thread) }))
    }

    /// Changes what it shows.
    pub fn show(&self, change: impl FnOnce(&mut ScreenState)) {
        change(&mut self.shared.state());
        self.shared.is_changed.store(true, Ordering::Relaxed);
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // If it panicked, the terminal was restored and the panic told of.
            let _ = thread.join();
        }
    }
}

impl SharedScreen {
    fn state(&self) -> MutexGuard<'_, ScreenState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a key for a while, and does what it asks for.
    fn take_keys(&self, hand: &Hand) {
        match event::poll(LOOK) {
            Ok(true) => {}
            Ok(false) => return,
            // Nothing can be read there any more: signals are left.
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
            hand.do_it(action);
        }
    }
}

impl Hand {
    fn do_it(&self, action: KeyAction) {
        match (action, &self.control) {
            (KeyAction::Speed(factor), Some(control)) => control.speed(factor),
            (KeyAction::Enough, Some(control)) => control.enough(),
            (KeyAction::Speed(_), None) => {}
            (KeyAction::Enough | KeyAction::Interrupt, _) => {
                // As with signals: who asks twice waits for nothing.
                if self.stop.swap(true, Ordering::Relaxed) {
                    terminal::restore();
                    (self.abort)();
                }
            }
        }
    }
}
