//! The report on a scenario load: its seconds, and its document.

use std::net::IpAddr;

use netrig_core::Duration;
use netrig_sip_net::load::{DelayRow, TesterReport, TesterUse, pace_words};

use super::super::calls::{ScriptSide, ScriptTally};
use super::super::document::{
    CounterRow, SCENARIO_FORMAT, ScenarioDocument, ScenarioSecond, ScriptFailureRow, StepRow,
};
use super::super::run::{ScriptRun, ScriptSettings};
use super::super::script::CallScript;
use super::{ScenarioLoad, SecondMark};
use crate::media::{MediaEngine, MediaReport, sending_faults};

impl ScenarioLoad<'_> {
    /// Ends a second: returns its row, and adds its faults to those of the load.
    pub(super) fn tell(
        &mut self,
        second: u64,
        before: &mut SecondMark,
        used: &mut TesterUse,
    ) -> ScenarioSecond {
        used.tell(&mut self.second);
        if let Ok((dropped, unsent)) = self.end.take_losses() {
            self.second.dropped += dropped;
            self.second.unsent += unsent;
        }
        let media = self.media.as_mut().and_then(MediaEngine::take_clock_step);
        self.second.stepped = self.end.take_clock_step().max(media).unwrap_or_default();
        if let Some(tap) = &mut self.tap {
            tap.tap.hand_on();
        }
        let of_second = std::mem::take(&mut self.second);
        let faults = of_second.faults();
        for fault in &faults {
            self.faults.push(format!("second {}: {fault}", second + 1));
        }
        self.whole += &of_second;
        let tally = &self.calls.tally;
        let again = self.calls.run.tallies.iter().map(|step| step.again).sum();
        let now = SecondMark { begun: tally.begun, succeeded: tally.succeeded, failed: tally.failed, again };
        let row = ScenarioSecond {
            second,
            begun: now.begun - before.begun,
            succeeded: now.succeeded - before.succeeded,
            failed: now.failed - before.failed,
            open: self.calls.open() as u64,
            again: now.again - before.again,
            faults,
        };
        *before = now;
        row
    }

    pub(super) fn document(
        mut self,
        tester: &str,
        side: ScriptSide,
        (began_ns, took, interrupted, open): (u64, Duration, bool, u64),
        seconds: Vec<ScenarioSecond>,
    ) -> ScenarioDocument {
        /// The largest number of listed faults.
        const MOST_FAULTS: usize = 10;
        let withheld = self.end.take_withheld();
        let Self { order, calls, mut faults, whole, stopped, player, media, end, .. } = self;
        let more = faults.len().saturating_sub(MOST_FAULTS);
        if more > 0 {
            faults.truncate(MOST_FAULTS);
            faults.push(format!("and {more} more"));
        }
        let voice = media.as_ref().map(MediaEngine::report);
        faults.extend(voice.iter().flat_map(MediaReport::faults));
        let played = player.counts;
        faults.extend(sending_faults(played.sent, played.late, played.unsent));
        let script = &calls.run.script;
        let tally = &calls.tally;
        let is_caller = side == ScriptSide::Caller;
        let measured = took.as_secs_f64();
        ScenarioDocument {
            format: SCENARIO_FORMAT,
            tester: tester.to_owned(),
            file: order.file.display().to_string(),
            name: script.name.clone(),
            target: (side != ScriptSide::Callee).then(|| target_name(&calls.run.settings)),
            local: end.local().to_string(),
            transport: order.address.transport.name().to_lowercase(),
            pace: is_caller.then(|| pace_words(&order.pace)),
            seed: order.seed,
            began_ns,
            took_s: took.as_secs_f64(),
            valid: faults.is_empty(),
            faults,
            interrupted,
            stopped: stopped.flatten(),
            begun: tally.begun,
            succeeded: tally.succeeded,
            failed: tally.failed,
            open,
            per_second: if measured > 0.0 { tally.succeeded as f64 / measured } else { 0.0 },
            failures: failure_rows(script, tally),
            examples: tally.examples.clone(),
            steps: step_rows(&calls.run),
            delays: delay_rows(script, tally),
            counters: script
                .counters
                .iter()
                .zip(&calls.run.counters)
                .map(|(name, count)| CounterRow { name: name.clone(), count: *count })
                .collect(),
            strays: tally.strays,
            without_room: tally.without_room,
            withheld,
            media: (player.counts != Default::default()).then_some(player.counts),
            voice,
            seconds,
            log: tally.log.clone(),
            more_lines: tally.more_lines,
            tester_record: TesterReport::of(&whole, 1),
            messages: None,
            records: None,
        }
    }
}

fn failure_rows(script: &CallScript, tally: &ScriptTally) -> Vec<ScriptFailureRow> {
    let mut rows: Vec<ScriptFailureRow> = tally
        .failures
        .iter()
        .map(|((step, why), count)| {
            let own = script.steps.get(*step);
            ScriptFailureRow {
                step: Some(step + 1),
                line: own.map(|own| own.line),
                what: own.map_or_else(|| "has ended".to_owned(), |own| own.words()),
                why: why.clone(),
                count: *count,
            }
        })
        .collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.count));
    if tally.other_failures > 0 {
        rows.push(ScriptFailureRow {
            step: None,
            line: None,
            what: String::new(),
            why: "for other reasons".to_owned(),
            count: tally.other_failures,
        });
    }
    rows
}

fn step_rows(run: &ScriptRun) -> Vec<StepRow> {
    let rows = run.script.steps.iter().zip(&run.tallies).zip(1..).map(|((step, tally), number)| StepRow {
        step: number,
        line: step.line,
        what: step.words(),
        tally: *tally,
    });
    rows.collect()
}

fn delay_rows(script: &CallScript, tally: &ScriptTally) -> Vec<DelayRow> {
    let times = script.response_times.iter().zip(&tally.response_times);
    let times = times.filter_map(|(name, times)| DelayRow::of(format!("rtd {name}"), None, times));
    times.chain(DelayRow::of("call", None, &tally.lengths)).collect()
}

/// The server as typed, with its port.
fn target_name(settings: &ScriptSettings) -> String {
    match settings.remote_host.trim_matches(['[', ']']).parse::<IpAddr>() {
        Ok(_) => settings.remote.to_string(),
        Err(_) => format!("{}:{}", settings.remote_host, settings.remote.port()),
    }
}
