//! `netrig sip capacity`.

mod arguments;
mod baseline;
mod journal;
mod offer;
mod settings;
mod show;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use netrig_agent::sip::load::Offered;
use netrig_runner::capacity::{Baseline, Drain, Order, Search, Verdict};

use super::screen::{Hand, State};
use super::watching::Watchers;
use crate::commands::sip::subject::work;
use crate::failure::{FAILED, Failure, INTERRUPTED, TESTER, print};
use crate::interruption::until_interrupted;

pub use arguments::Capacity;
pub use show::{Document as CapacityDocument, FORMAT};

/// How often a silence looks whether it is interrupted.
const LOOK: Duration = Duration::from_millis(50);

/// Looks for the highest rate that a server carries.
pub fn capacity(typed: &Capacity) -> Result<ExitCode, Failure> {
    let search = &typed.search;
    // What cannot be is refused before the first call.
    let order = offer::order(typed, search.start.0, 1.0, Some(1))?;
    typed.environment.save()?;
    let settings = settings::settings(typed, &order);
    let (mut search, known) = journal::begun(typed, settings)?;
    let stop = until_interrupted()?;
    let baseline = match known {
        Some(known) => Some(known),
        None => baseline::find(typed, &stop)?,
    };
    let verdict = match &baseline {
        Some(baseline) => {
            eprintln!("{}", baseline.sentence(settings::unit(work(&typed.subject))));
            let hand = Hand { stop: Arc::clone(&stop), control: None };
            let state = State { title: typed.subject.target.clone(), is_search: true, ..State::default() };
            let watchers = Watchers::open(&typed.watching, state, hand)?;
            let verdict = searched(typed, &mut search, baseline, &stop, &watchers)?;
            watchers.finish()?;
            verdict
        }
        None => None,
    };
    let journal = search.journal();
    if typed.json {
        print(show::document(typed, Offered::of(&order), &journal, baseline.as_ref(), verdict.as_ref())?)?;
    } else {
        print(show::table(typed, &journal, baseline.as_ref(), verdict.as_ref()).trim_end())?;
    }
    Ok(exit_code(verdict.as_ref()))
}

/// Does what the search orders until it is finished; `None` if it was interrupted.
fn searched(
    typed: &Capacity,
    search: &mut Search,
    baseline: &Baseline,
    stop: &AtomicBool,
    watchers: &Watchers,
) -> Result<Option<Verdict>, Failure> {
    let mut is_warned = false;
    loop {
        match search.next() {
            Order::Finished(verdict) => return Ok(Some(verdict)),
            Order::Drain(drain) => {
                let title = format!("{}: left alone for {} s", typed.subject.target, drain.span_s);
                watchers.show(|state| state.title = title);
                if !is_silent(drain, stop) {
                    return Ok(None);
                }
                search.drained();
            }
            Order::Step(step) => {
                let warn = |warnings: &[String]| {
                    if !std::mem::replace(&mut is_warned, true) {
                        watchers.warn(warnings);
                    }
                };
                let seen = match baseline.refuses(step.rate) {
                    Some(refused) => Some(refused),
                    None => offer::offer(typed, &step, search, (stop, watchers), warn)?,
                };
                let Some(seen) = seen else { return Ok(None) };
                if let Some(record) = search.end(&seen) {
                    watchers.show(|state| state.end_step(show::step(record)));
                    watchers.say(|| show::step(record));
                }
            }
        }
        if let Some(file) = &typed.journal {
            journal::write(typed, file, baseline, search.journal())?;
        }
    }
}

/// Offers nothing for a while; whether it was let.
fn is_silent(drain: Drain, stop: &AtomicBool) -> bool {
    let end = Instant::now() + Duration::from_secs_f64(drain.span_s);
    while !stop.load(Ordering::Relaxed) {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(LOOK));
    }
    false
}

/// Whether a capacity was found, and whether that can be said.
fn exit_code(verdict: Option<&Verdict>) -> ExitCode {
    match verdict {
        None => ExitCode::from(INTERRUPTED),
        Some(Verdict::Capacity(_) | Verdict::MoreThan { .. }) => ExitCode::SUCCESS,
        Some(Verdict::TesterLimit { .. }) => ExitCode::from(TESTER),
        Some(Verdict::LessThan { .. } | Verdict::NotRecovered { .. } | Verdict::Unsettled { .. }) => {
            ExitCode::from(FAILED)
        }
    }
}
