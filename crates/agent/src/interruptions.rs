//! What kept a thread from running: others on its processor, and the hypervisor.

use serde::{Deserialize, Serialize};

use crate::Precedence;

/// A run of which the hypervisor took more than this share of the processors' time must not be trusted.
const STOLEN: f64 = 0.01;

/// But not of so little time, which the kernel counts in hundredths of a second.
const UNNOTICED: f64 = 0.1;

/// The unit of /proc/stat, s (`USER_HZ`, which is 100 on every Linux).
const TICK: f64 = 0.01;

/// How a thread was kept from running while a run lasted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Interruptions {
    /// Share of the time of all processors that the hypervisor gave to others (0 to 1).
    pub steal: f64,
    /// The same, s.
    pub stolen: f64,
    /// How often another thread was let run instead (`nonvoluntary_ctxt_switches`).
    pub switches: u64,
    /// Before whom it ran.
    #[serde(default)]
    pub precedence: Precedence,
    /// Whether it kept idle processors from halting.
    #[serde(default)]
    pub awake: bool,
}

impl Interruptions {
    /// Why the run must not be trusted, if the hypervisor took too much.
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

/// What the kernel has counted so far. Where it does not tell, nothing was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct InterruptionCounts {
    stolen: u64,
    time: u64,
    switches: u64,
}

impl InterruptionCounts {
    /// Of this machine and of the thread that asks.
    pub fn read() -> Self {
        let file = |path| std::fs::read_to_string(path).unwrap_or_default();
        Self::parse(&file("/proc/stat"), &file("/proc/thread-self/status"))
    }

    /// From the texts of /proc/stat and /proc/thread-self/status (proc(5)).
    fn parse(stat: &str, status: &str) -> Self {
        let total = stat.lines().next().and_then(|line| line.strip_prefix("cpu "));
        // user, nice, system, idle, iowait, irq, softirq, steal; what guests take stands in user and nice too.
        let times: Vec<u64> = total
            .unwrap_or_default()
            .split_whitespace()
            .take(8)
            .map_while(|word| word.parse().ok())
            .collect();
        let switches = status.lines().find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"));
        Self {
            stolen: times.get(7).copied().unwrap_or(0),
            time: times.iter().sum(),
            switches: switches.and_then(|count| count.trim().parse().ok()).unwrap_or(0),
        }
    }

    /// What has happened between `earlier` and these to a thread that ran before such others, and kept processors awake or
    /// not.
    pub fn since(&self, earlier: &Self, precedence: Precedence, awake: bool) -> Interruptions {
        let time = self.time.saturating_sub(earlier.time);
        let stolen = self.stolen.saturating_sub(earlier.stolen);
        Interruptions {
            steal: if time > 0 { stolen as f64 / time as f64 } else { 0.0 },
            stolen: stolen as f64 * TICK,
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
        InterruptionCounts::parse(stat, &status)
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
                switches: 7,
                precedence: Precedence::Nice,
                awake: true
            }
        );
        assert!(interruptions.fault().unwrap().contains("25.0 %"));
        assert_eq!(before.since(&before, Precedence::None, false).fault(), None);
        // One tick of a short run is a large share, and nothing.
        assert_eq!(
            counts("cpu  100 0 51 801 0 0 0 51 7 0", 3).since(&before, Precedence::None, false).fault(),
            None
        );
    }

    #[test]
    fn a_kernel_that_tells_nothing_has_counted_nothing() {
        assert_eq!(InterruptionCounts::parse("intr 1 2", ""), InterruptionCounts::default());
        assert_eq!(InterruptionCounts::parse("cpu  1 2 x", "nonvoluntary_ctxt_switches:\tx").time, 3);
    }

    #[test]
    fn this_machine_has_run_for_some_time() {
        assert!(InterruptionCounts::read().time > 0);
    }
}
