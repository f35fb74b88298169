//! Source ports of connections.

use std::ops::RangeInclusive;

use netrig_host::sysctl;

/// The ephemeral ports of the kernel, used in turn. If the kernel chooses a port, it tries one after the other, which
/// takes milliseconds if more than half of them are in use. The port that was used longest ago is the first to become
/// free.
#[derive(Clone, Debug)]
pub(super) struct SourcePorts {
    range: RangeInclusive<u16>,
    next: u16,
}

impl SourcePorts {
    /// Starts with the port after `start`. `None` if the system does not report its ephemeral ports, or has reserved
    /// ports.
    pub fn new(start: u16) -> Option<Self> {
        let reserved = sysctl::get("net.ipv4.ip_local_reserved_ports").ok()?;
        let range = ephemeral_ports()?;
        reserved.is_empty().then(|| Self::within(range, start))
    }

    pub(super) fn within(range: RangeInclusive<u16>, start: u16) -> Self {
        let mut ports = Self { next: start, range };
        ports.take();
        ports
    }

    /// The next port. Another socket may be using it.
    pub fn take(&mut self) -> u16 {
        let is_inside = |port: &u16| self.range.contains(port) && port != self.range.end();
        let following = Some(self.next).filter(is_inside).map_or(*self.range.start(), |port| port + 1);
        std::mem::replace(&mut self.next, following)
    }
}

/// The kernel's ephemeral ports (ip_local_port_range), if it reports them.
pub(super) fn ephemeral_ports() -> Option<RangeInclusive<u16>> {
    parsed(&sysctl::get("net.ipv4.ip_local_port_range").ok()?)
}

fn parsed(text: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = text.trim().split_once(char::is_whitespace)?;
    let range = first.parse().ok()?..=last.trim().parse().ok()?;
    (!range.is_empty()).then_some(range)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_taken_in_turn() {
        let taken = |start| {
            let mut ports = SourcePorts::within(10..=12, start);
            [(); 5].map(|()| ports.take())
        };
        assert_eq!(taken(10), [11, 12, 10, 11, 12]);
        assert_eq!(taken(12), [10, 11, 12, 10, 11]);
        // A start outside the range, and a range of only the last port.
        assert_eq!(taken(5060), [10, 11, 12, 10, 11]);
        let mut last = SourcePorts::within(u16::MAX..=u16::MAX, 1);
        assert_eq!([last.take(), last.take()], [u16::MAX; 2]);
    }

    #[test]
    fn the_kernel_s_range_is_read() {
        assert_eq!(parsed("32768\t60999\n"), Some(32_768..=60_999));
        assert_eq!([parsed("32768"), parsed("60999\t32768\n"), parsed("a b")], [None, None, None]);
        assert!(ephemeral_ports().is_some());
    }
}
