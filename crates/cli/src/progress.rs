//! A progress line with the remaining time.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use netrig_runner::{ProgressListener, RunEvent, RunTally};

/// A progress line on stderr. Nothing is printed if stderr is not a terminal.
pub struct ProgressLine {
    bar: ProgressBar,
}

impl ProgressLine {
    pub fn new() -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
        let style = ProgressStyle::with_template("{prefix} [{bar:30}] {pos}/{len} runs {msg}");
        if let Ok(style) = style {
            bar.set_style(style.progress_chars("=> "));
        }
        Self { bar }
    }
}

impl ProgressListener for ProgressLine {
    fn event(&mut self, event: &RunEvent<'_>, tally: &RunTally) {
        match event {
            RunEvent::Began { substrate } => self.bar.set_prefix((*substrate).to_owned()),
            RunEvent::Ended { point, replication, why: Some(why), .. } => {
                self.bar.suspend(|| eprintln!("run {replication} at {point}: {why}"));
            }
            _ => {}
        }
        self.bar.set_length(tally.total());
        self.bar.set_position(tally.found + tally.ran);
        let left = tally.left.map(|left| format!("{} left", words(left))).unwrap_or_default();
        let failed = if tally.failed > 0 { format!("{} failed, ", tally.failed) } else { String::new() };
        self.bar.set_message(format!("{failed}{left}"));
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// A duration in words.
pub fn words(span: Duration) -> String {
    match span.as_secs() {
        0 => format!("{:.1} s", span.as_secs_f64()),
        seconds @ 1..=119 => format!("{seconds} s"),
        seconds @ 120..=7199 => format!("{} min", seconds.div_ceil(60)),
        seconds => format!("{:.1} h", seconds as f64 / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_said_as_people_say_them() {
        let of = |seconds| words(Duration::from_secs_f64(seconds));
        assert_eq!([of(0.25), of(59.4), of(121.0), of(9000.0)], ["0.2 s", "59 s", "3 min", "2.5 h"]);
    }
}
