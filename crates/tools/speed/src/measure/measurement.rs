//! A whole measurement: the idle path, then the tasks in order. Delays are measured continuously.

use std::sync::atomic::AtomicBool;

use netrig_core::{Duration, Rate};
use netrig_host::monotonic_nanos;

use super::beside::PathObserver;
use super::call::{CallOrder, PhaseEvent, SpeedCall};
use super::error::SpeedError;
use super::phase_reports::{self, CompletedTask};
use super::progress::{MeasureProgress, tell};
use super::report::SpeedReport;
use super::searching::{SearchTask, Searching};
use crate::protocol::{DataDirection, MeasurementPhase};

/// The order of a measurement.
#[derive(Clone, Debug)]
pub struct MeasureOrder {
    /// The server and the options of the session.
    pub call: CallOrder,
    /// Duration of the idle phase before the tasks. Zero omits it.
    pub idle: Duration,
    /// The tasks, in order.
    pub tasks: Vec<MeasureTask>,
    /// Duration of the idle phase after the tasks. Zero omits it.
    pub after: Duration,
    /// Interval between echoes.
    pub echo_every: Duration,
    /// Whether responsiveness is measured with new connections under load. They use up to a twentieth of the line.
    pub responsive: bool,
}

/// A task of a measurement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MeasureTask {
    /// Runs a phase.
    Carry(MeasurementPhase),
    /// Searches for the capacity of the line.
    Search(SearchTask),
}

impl MeasureOrder {
    /// The time by which each phase of connections may be extended, in a session of at most `lasts`.
    /// [`least`](Self::least) and the time limits of the searches are subtracted first.
    fn to_spare(&self, lasts: Duration) -> Duration {
        let search = |task: &MeasureTask| {
            if let MeasureTask::Search(search) = task { search.lasts.as_nanos() } else { 0 }
        };
        let searches = self.tasks.iter().map(search).fold(0, u64::saturating_add);
        let adapt = |task: &&MeasureTask| matches!(task, MeasureTask::Carry(phase) if phase.carrier.adapts());
        let phases = self.tasks.iter().filter(adapt).count().max(1) as u64;
        let taken = self.least().as_nanos().saturating_add(searches);
        Duration::from_nanos(lasts.as_nanos().saturating_sub(taken) / phases)
    }

    /// Minimum duration of the measurement. Searches count as zero, because they may end immediately.
    fn least(&self) -> Duration {
        let carried = |task: &MeasureTask| match task {
            MeasureTask::Carry(phase) => phase.lasts_ns,
            MeasureTask::Search(_) => 0,
        };
        let tasks = self.tasks.iter().map(carried).fold(0, u64::saturating_add);
        Duration::from_nanos(tasks.saturating_add(self.idle.as_nanos()).saturating_add(self.after.as_nanos()))
    }
}

/// Opens a session at the server and runs the measurement.
///
/// # Errors
/// If nothing could be measured. If the measurement failed later, the report is partial.
pub fn measure(
    order: MeasureOrder,
    cancel: &AtomicBool,
    progress: &mut dyn FnMut(MeasureProgress),
) -> Result<SpeedReport, SpeedError> {
    let mut call = SpeedCall::connect(order.call.clone(), cancel, &mut |before, of| {
        progress(MeasureProgress::Waits { before, of })
    })?;
    let [client, server] = call.ends();
    // The time of the budget has started before the client receives it.
    let (needs, lasts) = (order.least(), Duration::from_millis(call.budget().lasts_ns.div_ceil(1_000_000)));
    if needs > lasts {
        return Err(SpeedError::TooLong { needs, lasts });
    }
    let spare = order.to_spare(lasts);
    let held_to = call.budget().bits_per_s.map(|most| most as f64);
    let beside = PathObserver::begin(&call, &order.call, order.echo_every, order.responsive);
    let beside = beside.map_err(SpeedError::Carrying)?;
    let mut done = Vec::new();
    let carried = carry_all(&mut call, (&order, spare), &beside, cancel, progress, &mut done);
    let watched = beside.end().map_err(SpeedError::Carrying)?;
    let broken = match carried {
        // If no task has transferred data, at most the idle path was measured, which is not a result.
        Err(error) if !done.iter().any(CompletedTask::has_carried) => return Err(error),
        Err(error) => Some(error.to_string()),
        Ok(()) => {
            call.close();
            None
        }
    };
    Ok(phase_reports::report([client, server], done, Some(&watched), held_to, broken))
}

/// Runs the tasks in order, between two idle phases, until one ends early.
fn carry_all(
    call: &mut SpeedCall,
    (order, spare): (&MeasureOrder, Duration),
    beside: &PathObserver,
    cancel: &AtomicBool,
    progress: &mut dyn FnMut(MeasureProgress),
    done: &mut Vec<CompletedTask>,
) -> Result<(), SpeedError> {
    if !order.idle.is_zero() {
        let carriage = call.carry(MeasurementPhase::idle(order.idle), cancel, &mut |_| {})?;
        done.push(CompletedTask { carriage, found: None });
    }
    for (place, task) in order.tasks.iter().enumerate() {
        progress(MeasureProgress::Task(place));
        for way in [DataDirection::Down, DataDirection::Up] {
            if let Some(bits_per_s) = known(done, way) {
                beside.knows(way, bits_per_s);
            }
        }
        done.push(match task {
            MeasureTask::Carry(phase) => match carry(call, (phase, spare), beside, cancel, progress) {
                Ok(carried) => carried,
                Err(error) => {
                    done.extend(call.take_broken().map(|carriage| CompletedTask { carriage, found: None }));
                    return Err(error);
                }
            },
            MeasureTask::Search(task) => {
                let known = known(done, task.way);
                let searched = search(call, *task, known, cancel, progress);
                beside.pause();
                searched?
            }
        });
        if done.last().is_some_and(|done| done.carriage.cut_short) {
            return Ok(());
        }
    }
    if !order.after.is_zero() {
        let carriage = call.carry(MeasurementPhase::idle(order.after), cancel, &mut |_| {})?;
        done.push(CompletedTask { carriage, found: None });
    }
    Ok(())
}

/// Runs a phase. A phase of connections is extended by up to `spare` if too few data arrive.
fn carry(
    call: &mut SpeedCall,
    (phase, spare): (&MeasurementPhase, Duration),
    beside: &PathObserver,
    cancel: &AtomicBool,
    progress: &mut dyn FnMut(MeasureProgress),
) -> Result<CompletedTask, SpeedError> {
    let way = phase.carrier.way();
    // Responsiveness is not defined for a load of datagrams at a fixed rate.
    let is_load = phase.carrier.adapts();
    let mut arrived = 0;
    let longer = longer(phase, spare);
    let mut begun = None;
    let carriage = call.carry(longer.clone(), cancel, &mut |mut news| {
        if let PhaseEvent::Tick(steering) = &mut news {
            let now = monotonic_nanos();
            let went_on = now - *begun.get_or_insert(now);
            steering.enough = went_on >= phase.lasts_ns && arrived >= ENOUGH_BYTES;
        }
        tell(way, &news, &mut |told| {
            if let MeasureProgress::Arrived { bytes, .. } = told {
                arrived = bytes;
            }
            if is_load {
                beside.watch(&told);
            }
            progress(told);
        });
    });
    beside.pause();
    let mut carriage = carriage?;
    let lasted_ns = carriage.span[1].saturating_sub(carriage.span[0]);
    carriage.phase.lasts_ns = lasted_ns.clamp(phase.lasts_ns, longer.lasts_ns);
    Ok(CompletedTask { carriage, found: None })
}

/// Bytes that must arrive before a phase of connections ends at the ordered time: a hundred full segments. With fewer
/// segments, the result is inaccurate: at 128 kbit/s, a segment takes 94 ms.
const ENOUGH_BYTES: u64 = 144_800;

/// Maximum duration of an extended phase, as a multiple of the ordered time.
const MOST_LONGER: u64 = 4;

/// The order of a phase with its maximum extension.
fn longer(phase: &MeasurementPhase, spare: Duration) -> MeasurementPhase {
    let lasts = (phase.lasts() * MOST_LONGER).min(phase.lasts() + spare);
    let longer = MeasurementPhase { lasts_ns: lasts.as_nanos(), ..phase.clone() };
    if phase.carrier.adapts() && longer.check().is_ok() { longer } else { phase.clone() }
}

fn search(
    call: &mut SpeedCall,
    task: SearchTask,
    known: Option<f64>,
    cancel: &AtomicBool,
    progress: &mut dyn FnMut(MeasureProgress),
) -> Result<CompletedTask, SpeedError> {
    let held_to = call.budget().bits_per_s.map(Rate::from_bits_per_s);
    let task = SearchTask { most: held_to.map_or(task.most, |most| most.min(task.most)), ..task };
    let size = task.payload(call.path_mtu(), call.ends()[1].is_ipv4(), known);
    let round_trip = call.round_trip().unwrap_or(Duration::ZERO);
    let mut searching = Searching::new(task, size, known, round_trip);
    let carriage = call.carry(searching.phase(), cancel, &mut |mut news| {
        searching.watch(&mut news);
        tell(Some(task.way), &news, progress);
    })?;
    Ok(CompletedTask { carriage, found: Some(searching.end()) })
}

/// The rate of the last phase of connections in this direction, payload bits per second.
fn known(done: &[CompletedTask], way: DataDirection) -> Option<f64> {
    let carried = done
        .iter()
        .rev()
        .find(|done| done.carriage.phase.carrier.adapts() && done.carriage.phase.way() == Some(way))?;
    Some(carried.carriage.course(way).throughput()?.bits_per_s)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Carrier;

    #[test]
    fn phases_of_connections_may_last_longer_where_there_is_time_to_spare() {
        let second = Duration::from_secs(1);
        let phase = |carrier: Carrier| {
            let every = Duration::from_millis(100);
            MeasurementPhase::new(carrier, second * 3, every)
        };
        let tcp = || phase(Carrier::Tcp { way: DataDirection::Down, streams: 4, congestion: None });
        let lasts = |phase: MeasurementPhase, spare| longer(&phase, spare).lasts();
        assert_eq!(lasts(tcp(), second * 60), second * 12);
        assert_eq!(lasts(tcp(), second * 2), second * 5);
        assert_eq!(lasts(tcp(), Duration::ZERO), second * 3);
        assert_eq!(lasts(phase(Carrier::Idle), second * 60), second * 3);
        // This phase is not extended, because the extended phase would exceed the limit of readings.
        let many = Carrier::Tcp { way: DataDirection::Down, streams: 128, congestion: None };
        let many = MeasurementPhase { lasts_ns: (second * 30).as_nanos(), ..phase(many) };
        assert_eq!(lasts(many, second * 600), second * 30);
    }
}
