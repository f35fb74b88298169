//! A limit of the wake-up latency of processors.

use std::fs::File;
use std::io::Write;

/// The file that takes the limit of the wake-up latency, µs; the limit holds while the file is open (admin-guide/pm, "CPU latency
/// limits").
const LIMIT: &str = "/dev/cpu_dma_latency";

/// Keeps the idle processors of this machine from halting until it is dropped. The kernel removes the limit when the process ends
/// in any way.
///
/// A halted processor needs 10 to 50 µs to run again, and a virtual one waits for its hypervisor. On a shared host this took 4 to
/// 13 % of a run from a source that slept between datagrams, in pieces of milliseconds. With awake processors it was 0.3 %. Awake
/// processors use more power, but no time that another thread wants.
#[derive(Debug)]
pub struct CpuLatencyLimit {
    /// The limit holds while this is open.
    _limit: File,
}

impl CpuLatencyLimit {
    /// Keeps processors awake from now on, if the process may write the file, which belongs to root, and the kernel supports it.
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
        // Without root the file can be neither written nor read.
        let kept = CpuLatencyLimit::keep();
        assert_eq!(kept.is_some(), limit().is_some());
        assert!(limit().is_none_or(|limit| limit == 0));
    }
}
