//! A limit of the wake-up latency of processors.

use std::fs::File;
use std::io::Write;

/// The file to which the limit of the wake-up latency is written, µs. The limit is in effect while the file is open
/// (admin-guide/pm, "CPU latency limits").
const LIMIT: &str = "/dev/cpu_dma_latency";

/// Prevents the idle processors of this machine from halting, until this value is dropped. The kernel removes the limit
/// when the process ends, for whatever reason.
///
/// A halted processor needs 10 to 50 µs to run again, and a virtual processor waits for its hypervisor. On a shared
/// host, a source that slept between datagrams lost 4 to 13 % of the run's time in this way, in periods of
/// milliseconds. It lost 0.3 % when the processors did not halt. Processors that do not halt use more power, but they
/// take no time from other threads.
#[derive(Debug)]
pub struct CpuLatencyLimit {
    /// The open file, which keeps the limit in effect.
    _limit: File,
}

impl CpuLatencyLimit {
    /// Prevents processors from halting from now on. `None` if the kernel does not support the limit, or if the process
    /// may not write the file, which belongs to root.
    pub fn keep() -> Option<Self> {
        let mut limit = File::options().write(true).open(LIMIT).ok()?;
        limit.write_all(&0_i32.to_ne_bytes()).ok()?;
        Some(Self { _limit: limit })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The effective limit, µs: the minimum of all processes' limits.
    fn limit() -> Option<i32> {
        Some(i32::from_ne_bytes(std::fs::read(LIMIT).ok()?.try_into().ok()?))
    }

    #[test]
    fn the_kernel_reads_back_no_latency_at_all() {
        // A process without root rights can neither write nor read the file.
        let kept = CpuLatencyLimit::keep();
        assert_eq!(kept.is_some(), limit().is_some());
        assert!(limit().is_none_or(|limit| limit == 0));
    }
}
