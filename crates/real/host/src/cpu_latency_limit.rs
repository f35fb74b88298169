//! Processors that do not halt.

use std::fs::File;
use std::io::Write;

/// Where it is said how long a wake-up may take, µs, for as long as the file is open (admin-guide/pm, "CPU latency limits").
const LIMIT: &str = "/dev/cpu_dma_latency";

/// Keeps the idle processors of this machine from halting for as long as it lives; the kernel forgets it with the process,
/// however that ends.
///
/// What wakes up late is late for the whole run. A processor that has halted takes 10 to 50 µs to run again; a virtual one
/// has first to be given time by its hypervisor, which on a shared host took 4 to 13 % of a run away from a source that
/// slept between its datagrams, in pieces of milliseconds, and 0.3 % once the processors stayed awake. They use power
/// meanwhile, but no time that another thread wants.
#[derive(Debug)]
pub struct CpuLatencyLimit {
    /// The limit holds while this is open.
    _limit: File,
}

impl CpuLatencyLimit {
    /// Keeps them awake from now on, if the process may (the file belongs to root) and the kernel can.
    pub fn keep() -> Option<Self> {
        let mut limit = File::options().write(true).open(LIMIT).ok()?;
        limit.write_all(&0_i32.to_ne_bytes()).ok()?;
        Some(Self { _limit: limit })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The limit that holds, µs: of all that is asked for by anyone, the least.
    fn limit() -> Option<i32> {
        Some(i32::from_ne_bytes(std::fs::read(LIMIT).ok()?.try_into().ok()?))
    }

    #[test]
    fn the_kernel_reads_back_no_latency_at_all() {
        // Without root there is nothing to keep, and nothing to read.
        let kept = CpuLatencyLimit::keep();
        assert_eq!(kept.is_some(), limit().is_some());
        assert!(limit().is_none_or(|limit| limit == 0));
    }
}
