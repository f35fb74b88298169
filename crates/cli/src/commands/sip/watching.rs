//! Who watches a load or a search while it goes on.

use std::cell::RefCell;
use std::path::PathBuf;

use clap::Args;
use netrig_sip_net::load::{LoadOrder, SecondRow, SoFar};

use super::metrics_arguments::MetricsArguments;
use crate::failure::Failure;
use netrig_sip_tester::metrics::{Metrics, of_load};
use netrig_sip_tester::screen::{Hand, Screen, State};

/// How it may be watched.
#[derive(Debug, Args)]
#[command(next_help_heading = "Watching")]
pub struct Watching {
    /// Lines on stderr, also where it is a terminal that could be a live screen
    #[arg(long)]
    pub no_screen: bool,
    #[command(flatten)]
    pub metrics: MetricsArguments,
}

/// Those who watch.
pub struct Watchers {
    screen: Option<Screen>,
    metrics: Option<Metrics>,
    metrics_file: Option<PathBuf>,
    /// What is watched, in words.
    title: String,
    /// What was to be said while there was a screen, and has to be read nevertheless.
    warnings: RefCell<Vec<String>>,
}

impl Watchers {
    /// Opens what was asked for.
    pub fn open(typed: &Watching, state: State, hand: Hand) -> Result<Self, Failure> {
        let title = state.title.clone();
        let metrics = typed.metrics.open(|place| eprintln!("{place}"))?;
        let screen = if typed.no_screen { Ok(None) } else { Screen::open(state, hand) };
        let screen =
            screen.map_err(|error| Failure::failed(format!("the terminal cannot be a screen: {error}")))?;
        let metrics_file = typed.metrics.metrics_file.clone();
        Ok(Self { screen, metrics, metrics_file, title, warnings: RefCell::default() })
    }

    /// Whether somebody can press keys.
    pub const fn has_screen(&self) -> bool {
        self.screen.is_some()
    }

    /// A second is over.
    pub fn second(&self, row: &SecondRow, so_far: SoFar<'_>, order: &LoadOrder) {
        self.show(|state| state.second(row, so_far, order));
        if let Some(metrics) = &self.metrics {
            metrics.show(of_load(&self.title, row, so_far, order));
        }
    }

    /// It is over: nobody is left who could press a key, and what is to stay is written.
    pub fn finish(mut self) -> Result<(), Failure> {
        self.screen = None;
        let metrics = self.metrics.take();
        metrics.map_or(Ok(()), |metrics| MetricsArguments::finish(self.metrics_file.as_deref(), metrics))
    }

    /// Changes what the screen shows, if there is one.
    pub fn show(&self, change: impl FnOnce(&mut State)) {
        if let Some(screen) = &self.screen {
            screen.show(change);
        }
    }

    /// Says a line on stderr, where no screen shows the same.
    pub fn say(&self, line: impl FnOnce() -> String) {
        if self.screen.is_none() {
            eprintln!("{}", line());
        }
    }

    fn tell_warnings(&self) {
        self.warnings.take().iter().for_each(|warning| eprintln!("warning: {warning}"));
    }

    /// Warns: when the screen is gone, if there is one.
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
