//! Display of a load or a search in progress.

use clap::Args;
use netrig_sip_tester::screen::{KeyEffects, Screen, ScreenState};

use super::metrics_arguments::MetricsArguments;
use crate::failure::Failure;
use netrig_sip_tester::watchers::Watchers;

/// Ways to watch a load.
#[derive(Debug, Args)]
#[command(next_help_heading = "Watching")]
pub struct Watching {
    /// Write lines to stderr instead of the live screen of a terminal
    #[arg(long)]
    pub no_screen: bool,
    #[command(flatten)]
    pub metrics: MetricsArguments,
}

impl Watching {
    /// Opens the requested displays: the screen and the metrics.
    pub fn open(&self, state: ScreenState, effects: KeyEffects) -> Result<Watchers, Failure> {
        let title = state.title.clone();
        let metrics = self.metrics.open(|place| eprintln!("{place}"))?;
        let screen = if self.no_screen { Ok(None) } else { Screen::open(state, effects) };
        let screen =
            screen.map_err(|error| Failure::failed(format!("the terminal cannot be a screen: {error}")))?;
        Ok(Watchers::new(title, screen, metrics, |line| eprintln!("{line}")))
    }

    /// Closes the screen and the metrics, and writes the last metrics to the requested file.
    pub fn finish(&self, watchers: Watchers) -> Result<(), Failure> {
        watchers.finish().map_or(Ok(()), |last| self.metrics.write(&last))
    }
}
