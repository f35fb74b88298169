//! The views of a running load or search: screen, metrics and lines of text.

use std::cell::RefCell;

use crate::metrics::{Metrics, of_load};
use crate::screen::{Screen, ScreenState};
use netrig_sip_net::load::{LoadOrder, SecondRow, SoFar};

/// The screen, the metrics and the lines of text of a running load or search.
pub struct Watchers {
    screen: Option<Screen>,
    metrics: Option<Metrics>,
    /// The name of the load or the search.
    title: String,
    /// The function that prints a line.
    say: fn(&str),
    /// Warnings that are shown after the screen is closed.
    warnings: RefCell<Vec<String>>,
}

impl Watchers {
    /// Shows a load or a search on `screen` and `metrics`. Without a screen, lines of text are passed to `say`.
    pub fn new(title: String, screen: Option<Screen>, metrics: Option<Metrics>, say: fn(&str)) -> Self {
        Self { screen, metrics, title, say, warnings: RefCell::default() }
    }

    /// Whether the user can press keys.
    pub const fn has_screen(&self) -> bool {
        self.screen.is_some()
    }

    /// Updates all views at the end of a second.
    pub fn second(&self, row: &SecondRow, so_far: SoFar<'_>, order: &LoadOrder) {
        self.show(|state| state.second(row, so_far, order));
        if let Some(metrics) = &self.metrics {
            metrics.show(of_load(&self.title, row, so_far, order));
        }
    }

    /// Closes the screen; returns the last page of the metrics, if there are any.
    pub fn finish(mut self) -> Option<String> {
        self.screen = None;
        self.metrics.take().map(Metrics::finish)
    }

    /// Changes the state of the screen, if there is one.
    pub fn show(&self, change: impl FnOnce(&mut ScreenState)) {
        if let Some(screen) = &self.screen {
            screen.show(change);
        }
    }

    /// Prints a line, unless there is a screen, which shows the same information.
    pub fn say(&self, line: impl FnOnce() -> String) {
        if self.screen.is_none() {
            (self.say)(&line());
        }
    }

    fn tell_warnings(&self) {
        self.warnings.take().iter().for_each(|warning| (self.say)(&format!("warning: {warning}")));
    }

    /// Prints warnings; if there is a screen, after it is closed.
    pub fn warn(&self, warnings: &[String]) {
        self.warnings.borrow_mut().extend_from_slice(warnings);
        if self.screen.is_none() {
            self.tell_warnings();
        }
    }
}

impl Drop for Watchers {
    fn drop(&mut self) {
        self.screen = None;
        self.tell_warnings();
    }
}
