//! Counters that the kernel reports as text (proc(5)).

use std::path::Path;

/// The unit of times in `/proc/stat` and `/proc/PID/stat`, s (`USER_HZ`, which is 100 on every Linux).
pub const TICK_S: f64 = 0.01;

/// The text of a file of the kernel; empty if the file cannot be read.
pub fn text(path: impl AsRef<Path>) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// The value after a name, in a text whose lines each have a name and a value, such as `/proc/PID/status` (`name:
/// value`), `/proc/net/snmp6` and `cpu.stat` (`name value`).
pub fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let after = |line: &'a str| line.strip_prefix(name)?.strip_prefix([':', ' ', '\t']);
    text.lines().find_map(after).map(str::trim)
}

/// The number of a [`field`], without its unit.
pub fn number(text: &str, name: &str) -> Option<u64> {
    field(text, name)?.split_ascii_whitespace().next()?.parse().ok()
}

/// A counter of `/proc/net/snmp` or `/proc/net/netstat`. In these files, each table has a line of names and then a line
/// of values, and both lines start with the name of the table. `None` if the kernel has no such counter, or it is
/// negative.
pub fn counter(text: &str, table: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(table)?.strip_prefix(": "));
    let (names, values) = (lines.next()?, lines.next()?);
    let place = names.split_whitespace().position(|own| own == name)?;
    values.split_whitespace().nth(place)?.parse().ok()
}

/// The times in `/proc/stat`, ticks: user, nice, system, idle, iowait, irq, softirq, steal. The first item, without a
/// number, is the sum over all processors. Each further item is one processor with its number. Guest time is already
/// part of user and nice.
pub fn processor_ticks(stat: &str) -> impl Iterator<Item = (Option<u32>, [u64; 8])> {
    stat.lines().filter_map(|line| {
        let (name, ticks) = line.strip_prefix("cpu")?.split_once(' ')?;
        let processor = if name.is_empty() { None } else { Some(name.parse().ok()?) };
        let mut ticks = ticks.split_whitespace().map(|word| word.parse().unwrap_or(0));
        Some((processor, [(); 8].map(|()| ticks.next().unwrap_or(0))))
    })
}

/// The fields of `/proc/PID/stat` from the third field (the state) on. The second field (the name) is skipped with its
/// parentheses, because it may contain any character, including parentheses.
pub fn stat_fields(stat: &str) -> impl Iterator<Item = &str> {
    stat.rsplit_once(')').map_or("", |(_, fields)| fields).split_ascii_whitespace()
}

/// How long a thread has run, and how long it was runnable without a processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ThreadTimes {
    /// Time on a processor, ns.
    pub ran: u64,
    /// Time for which the thread was runnable but had no processor (`run_delay`), ns.
    pub waited: u64,
}

impl ThreadTimes {
    /// Parses `schedstat`: the time for which a thread ran, the time for which it waited, and how often it ran
    /// (Documentation/scheduler/sched-stats).
    pub fn read(schedstat: &str) -> Option<Self> {
        let mut words = schedstat.split_ascii_whitespace().map_while(|word| word.parse().ok());
        Some(Self { ran: words.next()?, waited: words.next()? })
    }

    /// The times of the calling thread. Zero if the kernel does not report them.
    pub fn of_this_thread() -> Self {
        Self::read(&text("/proc/thread-self/schedstat")).unwrap_or_default()
    }
}

/// A line of `/proc/net/udp`, `/proc/net/tcp` and their siblings for IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketLine {
    /// The local port.
    pub port: u16,
    /// The state, as the number of the corresponding TCP state (`include/net/tcp_states.h`).
    pub state: u8,
    /// Bytes in the receive buffer.
    pub waiting: u64,
    /// The inode of the socket; zero if the line has none.
    pub inode: u64,
    /// Datagrams dropped since a UDP socket was opened.
    pub dropped: u64,
}

impl SocketLine {
    /// The sockets in the text of such a list.
    pub fn all(list: &str) -> impl Iterator<Item = Self> {
        list.lines().skip(1).filter_map(Self::read)
    }

    /// Parses a line. Its fields are: number, local address, remote address, state, queues, timer, retransmissions,
    /// user, time-out, inode, references, pointer, drops (proc_net_tcp.rst; udp4_format_sock of Linux's `udp.c`).
    fn read(line: &str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        let port = u16::from_str_radix(words.nth(1)?.rsplit_once(':')?.1, 16).ok()?;
        let state = u8::from_str_radix(words.nth(1)?, 16).ok()?;
        let waiting = u64::from_str_radix(words.next()?.split_once(':')?.1, 16).ok()?;
        let mut number = |skipped| words.nth(skipped).and_then(|word| word.parse().ok()).unwrap_or(0);
        Some(Self { port, state, waiting, inode: number(4), dropped: number(2) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_numbers_are_found_by_their_whole_names() {
        let status = "Name:\tx y\nVmHWM:\t  1234 kB\nCapEff:\t00ff\n";
        assert_eq!(field(status, "Name"), Some("x y"));
        assert_eq!(
            [number(status, "VmHWM"), number(status, "Vm"), number(status, "Name")],
            [Some(1234), None, None]
        );
        let table = "Ip6InReceives                   \t12\nIp6InHdrErrors                  \t3\n";
        assert_eq!([number(table, "Ip6InHdrErrors"), number(table, "Ip6OutRequests")], [Some(3), None]);
        let stat = "nr_periods 10\nnr_throttled 4\nthrottled_usec 1234\n";
        assert_eq!([number(stat, "nr_throttled"), number(stat, "nr")], [Some(4), None]);
    }

    #[test]
    fn counters_of_the_kernel_are_found_by_their_names() {
        let table = "Ip: Forwarding DefaultTTL InReceives InHdrErrors\nIp: 1 64 1000 17\n\
                     Tcp: RtoAlgorithm MaxConn RetransSegs\nTcp: 1 -1 5\n";
        assert_eq!(counter(table, "Ip", "InHdrErrors"), Some(17));
        assert_eq!(counter(table, "Tcp", "RetransSegs"), Some(5));
        assert_eq!([counter(table, "Ip", "OutRequests"), counter(table, "Tcp", "MaxConn")], [None; 2]);
        let own = text("/proc/self/net/snmp");
        assert!(counter(&own, "Ip", "InHdrErrors").is_some(), "{own}");
    }

    #[test]
    fn processors_have_their_ticks_and_all_together_theirs() {
        let stat = "cpu  30 3 30 1000 0 9 9 9 0 0\ncpu10 1 2 x\nintr 1 2\n";
        let all: Vec<_> = processor_ticks(stat).collect();
        assert_eq!(all, [(None, [30, 3, 30, 1000, 0, 9, 9, 9]), (Some(10), [1, 2, 0, 0, 0, 0, 0, 0])]);
        assert_eq!(stat_fields("7 (a) b) S 1").collect::<Vec<_>>(), ["S", "1"]);
        assert_eq!(ThreadTimes::read("900 150 9\n"), Some(ThreadTimes { ran: 900, waited: 150 }));
        assert_eq!([ThreadTimes::read(""), ThreadTimes::read("7")], [None; 2]);
    }

    /// The first line is the example in Linux's Documentation/networking/proc_net_tcp.rst: ssh listens on port 22.
    #[test]
    fn sockets_are_read_from_the_lists_of_the_kernel() {
        let tcp = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt\n\
             0: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000\n";
        let listens = SocketLine { port: 22, state: 10, waiting: 0, inode: 0, dropped: 0 };
        assert_eq!(SocketLine::all(tcp).collect::<Vec<_>>(), [listens]);
        // A socket with 768 waiting bytes and 17 dropped datagrams.
        let line = "  123: 0200000A:13C4 00000000:0000 07 00000000:00000300 00:00000000 00000000     0        0 4711 2 0000000000000000 17";
        let udp = SocketLine { port: 5060, state: 7, waiting: 0x300, inode: 4711, dropped: 17 };
        assert_eq!(SocketLine::read(line), Some(udp));
        assert_eq!(SocketLine::read("sl local"), None);
    }
}
