//! How other threads and the hypervisor kept a thread from running.

use serde::{Deserialize, Serialize};

use crate::proc::{self, TICK_S, ThreadTimes};
use crate::{Precedence, monotonic_nanos};

/// If the hypervisor takes a larger share of the processors' time than this, the run is not valid.
const STOLEN: f64 = 0.01;

/// Stolen time below this value is ignored, s. The kernel counts it in hundredths of a second.
const UNNOTICED: f64 = 0.1;

/// Interruptions of a thread during a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Interruptions {
    /// Share of the time of all processors that the hypervisor gave to other machines (0 to 1).
    pub steal: f64,
    /// Processor time that the hypervisor gave to other machines, s.
    pub stolen: f64,
    /// Share of the time for which the thread was runnable but had no processor (0 to 1): `run_delay` of its schedstat.
    #[serde(default)]
    pub waited: f64,
    /// How often the thread was preempted (`nonvoluntary_ctxt_switches`).
    pub switches: u64,
    /// Scheduling priority of the thread.
    #[serde(default)]
    pub precedence: Precedence,
    /// Whether the process prevented idle processors from halting ([`CpuLatencyLimit`](crate::CpuLatencyLimit)).
    #[serde(default)]
    pub awake: bool,
}

impl Interruptions {
    /// Why the results of connections that the thread served are not valid; `None` if they are valid, because the
    /// thread waited little for a processor.
    pub fn fault_of_connections(&self) -> Option<String> {
        (self.waited > WAITED).then(|| {
            format!(
                "the thread of its connections waited for a processor for {:.0} % of the time; {:.0} % are allowed",
                self.waited * 100.0,
                WAITED * 100.0
            )
        })
    }

    /// Why the run is not valid; `None` unless the hypervisor took too much processor time.
    pub fn fault(&self) -> Option<String> {
        (self.steal > STOLEN && self.stolen > UNNOTICED).then(|| {
            format!(
                "the hypervisor gave {:.1} % of this machine's processor time to others; {:.0} % are allowed",
                self.steal * 100.0,
                STOLEN * 100.0
            )
        })
    }
}

/// If a thread waited for a processor for a larger share of the run than this, it may have limited its connections.
const WAITED: f64 = 0.1;

/// A reading of kernel counters. Counters that the kernel lacks are zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InterruptionCounts {
    stolen: u64,
    time: u64,
    switches: u64,
    /// Time for which the thread was runnable without a processor, ns.
    waited: u64,
    /// Time of the reading, ns of `CLOCK_MONOTONIC`.
    at: u64,
}

impl InterruptionCounts {
    /// Reads the counters of this machine and of the calling thread.
    pub fn read() -> Self {
        let own = |file: &str| proc::text(format!("/proc/thread-self/{file}"));
        let stat = proc::text("/proc/stat");
        Self { at: monotonic_nanos(), ..Self::parse(&stat, &own("status"), &own("schedstat")) }
    }

    /// Parses the texts of /proc/stat, /proc/thread-self/status (proc(5)) and /proc/thread-self/schedstat
    /// (Documentation/scheduler/sched-stats).
    fn parse(stat: &str, status: &str, schedstat: &str) -> Self {
        let ticks = proc::processor_ticks(stat).find(|(processor, _)| processor.is_none());
        let ticks = ticks.map_or([0; 8], |(_, ticks)| ticks);
        Self {
            stolen: ticks[7],
            time: ticks.iter().sum(),
            switches: proc::number(status, "nonvoluntary_ctxt_switches").unwrap_or(0),
            waited: ThreadTimes::read(schedstat).unwrap_or_default().waited,
            at: 0,
        }
    }

    /// The interruptions since `earlier`. `precedence` is the priority of the thread, and `awake` says whether the
    /// process prevented idle processors from halting.
    pub fn since(&self, earlier: &Self, precedence: Precedence, awake: bool) -> Interruptions {
        let time = self.time.saturating_sub(earlier.time);
        let stolen = self.stolen.saturating_sub(earlier.stolen);
        let span = self.at.saturating_sub(earlier.at);
        Interruptions {
            steal: if time > 0 { stolen as f64 / time as f64 } else { 0.0 },
            stolen: stolen as f64 * TICK_S,
            waited: if span > 0 {
                self.waited.saturating_sub(earlier.waited) as f64 / span as f64
            } else {
                0.0
            },
            switches: self.switches.saturating_sub(earlier.switches),
            precedence,
            awake,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(stat: &str, switches: u64) -> InterruptionCounts {
        let status =
            format!("Name:\tx\nvoluntary_ctxt_switches:\t9\nnonvoluntary_ctxt_switches:\t{switches}\n");
        InterruptionCounts::parse(stat, &status, "")
    }

    #[test]
    fn what_the_hypervisor_took_is_a_share_of_all_time() {
        let before = counts("cpu  100 0 50 800 0 0 0 50 7 0\ncpu0 1 2 3\n", 3);
        let after = counts("cpu  140 0 60 900 0 0 0 100 9 0\n", 10);
        let interruptions = after.since(&before, Precedence::Nice, true);
        assert_eq!(
            interruptions,
            Interruptions {
                steal: 0.25,
                stolen: 0.5,
                waited: 0.0,
                switches: 7,
                precedence: Precedence::Nice,
                awake: true
            }
        );
        assert!(interruptions.fault().unwrap().contains("25.0 %"));
        assert_eq!(before.since(&before, Precedence::None, false).fault(), None);
        // In a short run, one stolen tick is a large share of the time, but is ignored.
        assert_eq!(
            counts("cpu  100 0 51 801 0 0 0 51 7 0", 3).since(&before, Precedence::None, false).fault(),
            None
        );
    }

    #[test]
    fn a_kernel_that_tells_nothing_has_counted_nothing() {
        assert_eq!(InterruptionCounts::parse("intr 1 2", "", "x"), InterruptionCounts::default());
        assert_eq!(InterruptionCounts::parse("cpu  1 2 x", "nonvoluntary_ctxt_switches:\tx", "7").time, 3);
    }

    #[test]
    fn a_thread_that_is_kept_waiting_is_told_for_its_connections() {
        let at = |at, schedstat| InterruptionCounts { at, ..InterruptionCounts::parse("", "", schedstat) };
        let before = at(1_000, "500 100 3");
        let waited = |schedstat| at(2_000, schedstat).since(&before, Precedence::None, false);
        assert_eq!(waited("900 150 9").waited, 0.05);
        assert_eq!(waited("900 150 9").fault_of_connections(), None);
        assert!(waited("900 350 9").fault_of_connections().unwrap().contains("for 25 % of the time"));
    }

    #[test]
    fn this_machine_has_run_for_some_time() {
        assert!(InterruptionCounts::read().time > 0);
    }
}
