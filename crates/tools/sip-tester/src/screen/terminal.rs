//! Switches the terminal to a screen, and back.

use std::io::{IsTerminal, Stderr, stderr, stdin};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};

/// Whether the terminal is a screen now.
static IS_SCREEN: AtomicBool = AtomicBool::new(false);

/// Whether stderr is a suitable terminal and stdin can deliver keys.
pub fn can_be_screen() -> bool {
    let is_dumb = std::env::var_os("TERM").is_none_or(|name| name.is_empty() || name == "dumb");
    stderr().is_terminal() && stdin().is_terminal() && !is_dumb
}

/// The terminal as a screen, until it is dropped, the program panics, or [`restore`] is called.
pub struct Screen {
    /// The terminal.
    pub terminal: Terminal<CrosstermBackend<Stderr>>,
}

impl Screen {
    /// Takes over the terminal of stderr.
    pub fn open() -> std::io::Result<Self> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let before = std::panic::take_hook();
            // The message of a panic must be readable.
            std::panic::set_hook(Box::new(move |panic| {
                restore();
                before(panic);
            }));
        });
        enable_raw_mode()?;
        IS_SCREEN.store(true, Ordering::Relaxed);
        let opened = execute!(stderr(), EnterAlternateScreen, Hide)
            .and_then(|()| Terminal::new(CrosstermBackend::new(stderr())));
        opened.map(|terminal| Self { terminal }).inspect_err(|_| restore())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

/// Whether the terminal is still a screen: it may have been restored.
pub fn is_screen() -> bool {
    IS_SCREEN.load(Ordering::Relaxed)
}

/// Restores the terminal if it is a screen. Code that ends the program at once calls it first.
pub fn restore() {
    if IS_SCREEN.swap(false, Ordering::Relaxed) {
        // If the terminal is gone, nothing can be restored.
        let _ = execute!(stderr(), LeaveAlternateScreen, Show);
        let _ = disable_raw_mode();
    }
}
