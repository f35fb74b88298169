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

/// Whether the terminal is in screen mode (alternate screen, raw mode).
static IS_SCREEN: AtomicBool = AtomicBool::new(false);

/// Whether stderr is a suitable terminal and stdin can deliver keys.
pub fn can_be_screen() -> bool {
    let is_dumb = std::env::var_os("TERM").is_none_or(|name| name.is_empty() || name == "dumb");
    stderr().is_terminal() && stdin().is_terminal() && !is_dumb
}

/// The terminal in screen mode, until this is dropped, the program panics, or [`restore`] is called.
pub struct Screen {
    /// The terminal.
    pub terminal: Terminal<CrosstermBackend<Stderr>>,
}

impl Screen {
    /// Puts the terminal of stderr into screen mode.
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

/// Whether the terminal is still in screen mode. It may have been restored.
pub fn is_screen() -> bool {
    IS_SCREEN.load(Ordering::Relaxed)
}

/// Restores the terminal if it is in screen mode. Code that ends the program immediately calls it first.
pub fn restore() {
    if IS_SCREEN.swap(false, Ordering::Relaxed) {
        // If the terminal is gone, nothing can be restored.
        let _ = execute!(stderr(), LeaveAlternateScreen, Show);
        let _ = disable_raw_mode();
    }
}
