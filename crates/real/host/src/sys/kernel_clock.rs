//! The kernel's state of its wall clock (adjtimex(2)).

/// The state of `CLOCK_REALTIME`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelClock {
    /// Whether the clock is synchronised (NTP, PTP).
    pub synchronised: bool,
    /// Maximum error, ns: at most 16 s, the value for a clock that is not synchronised.
    pub error_ns: u64,
}

impl KernelClock {
    /// Reads the state. If the kernel does not report it, the clock counts as not synchronised.
    #[expect(unsafe_code, reason = "no safe wrapper asks without setting")]
    pub fn read() -> Self {
        const UNKNOWN: KernelClock = KernelClock { synchronised: false, error_ns: 16_000_000_000 };
        // SAFETY: all zeros is a valid `timex`; with modes of zero, the call reads the state and sets nothing.
        let mut state: libc::timex = unsafe { std::mem::zeroed() };
        // SAFETY: the kernel writes into `state`, which is large enough for it and outlives the call.
        if unsafe { libc::adjtimex(&raw mut state) } < 0 {
            return UNKNOWN;
        }
        let micros = u64::try_from(state.maxerror).unwrap_or(0);
        Self {
            synchronised: state.status & libc::STA_UNSYNC == 0,
            error_ns: micros.saturating_mul(1000).min(UNKNOWN.error_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_tells_and_a_clock_that_nobody_keeps_is_off_by_most() {
        let clock = KernelClock::read();
        assert!(clock.error_ns <= 16_000_000_000);
        assert!(clock.synchronised || clock.error_ns > 0, "{clock:?}");
    }
}
