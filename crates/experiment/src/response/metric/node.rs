//! A node as a host that receives packets, and what its programs take and count.

use netrig_core::Quantity;
use netrig_core::quantity::{
    COUNTER_GROWTH, HOST_BUSY, HOST_DROPPED, PROGRAM_CPU, PROGRAM_MEMORY, PROGRAM_UDP_DROPS,
    PROGRAM_UDP_QUEUE,
};

use super::super::{Per, SubjectKind::Counter, SubjectKind::Node};
use super::{About, Measured, Metric, Need, Over, Rate, Statistic, Total, View};

pub(super) const ALL: &[&dyn Metric] = &[
    &BUSY,
    &DROPPED,
    &CPU,
    &CPU_MAX,
    &MEMORY,
    &MEMORY_MAX,
    &UDP_QUEUE,
    &UDP_QUEUE_MAX,
    &UDP_DROPS,
    &GROWTH,
    &GROWTH_RATE,
];

static BUSY: Rate = Rate {
    about: About::new(
        "receive_utilisation",
        "1",
        Node,
        "Share of the measuring window that the host spent on packets that it received (`receive` of the node).",
    )
    .per(Per::Mean),
    quantity: &HOST_BUSY,
    times: 1.0,
    over: Over::Window,
};

static DROPPED: Total = Total {
    about: About::new(
        "receive_drops",
        "packets",
        Node,
        "Packets that arrived in the measuring window and that the host had no room for.",
    ),
    quantity: &HOST_DROPPED,
};

/// A level of a node's programs, averaged over the measuring window, or the largest of its samples.
struct ProgramLevel {
    about: About,
    quantity: &'static Quantity,
    largest: bool,
}

impl Metric for ProgramLevel {
    fn about(&self) -> &About {
        &self.about
    }

    fn needs(&self, _: Statistic) -> Vec<Need> {
        vec![Need::Average(self.quantity)]
    }

    fn signal(&self) -> Option<&'static Quantity> {
        (!self.largest).then_some(self.quantity)
    }

    fn reduce(&self, view: &View<'_>) -> Measured {
        match view.average(self.quantity) {
            Some(level) if self.largest => level.max.into(),
            Some(level) => level.mean.into(),
            None => Measured::not("the node ran no program that was watched"),
        }
    }
}

const fn mean(
    name: &'static str,
    unit: &'static str,
    quantity: &'static Quantity,
    definition: &'static str,
) -> ProgramLevel {
    let about = About::new(name, unit, Node, definition).per(Per::Mean);
    ProgramLevel { about, quantity, largest: false }
}

const fn largest(
    name: &'static str,
    unit: &'static str,
    quantity: &'static Quantity,
    definition: &'static str,
) -> ProgramLevel {
    let about = About::new(name, unit, Node, definition).per(Per::Max);
    ProgramLevel { about, quantity, largest: true }
}

static CPU: ProgramLevel = mean(
    "program_cpu",
    "1",
    &PROGRAM_CPU,
    "Processors that the node's programs kept busy, averaged over the measuring window: 1 is all of one.",
);

static CPU_MAX: ProgramLevel = largest(
    "program_cpu_max",
    "1",
    &PROGRAM_CPU,
    "Processors that the node's programs kept busy in the sampling interval of the measuring window in which they were most.",
);

static MEMORY: ProgramLevel = mean(
    "program_memory",
    "B",
    &PROGRAM_MEMORY,
    "Memory that the node's programs held, averaged over the measuring window; what their processes share counts once.",
);

static MEMORY_MAX: ProgramLevel = largest(
    "program_memory_max",
    "B",
    &PROGRAM_MEMORY,
    "Memory that the node's programs held at most at a sample in the measuring window; what their processes share counts once.",
);

static UDP_QUEUE: ProgramLevel = mean(
    "program_udp_queue",
    "B",
    &PROGRAM_UDP_QUEUE,
    "Bytes, with the kernel's own beside them, that waited in the UDP sockets of the node's programs, averaged over the samples \
     in the measuring window.",
);

static UDP_QUEUE_MAX: ProgramLevel = largest(
    "program_udp_queue_max",
    "B",
    &PROGRAM_UDP_QUEUE,
    "Bytes, with the kernel's own beside them, that waited in the UDP sockets of the node's programs at the sample in the \
     measuring window at which they were most.",
);

static UDP_DROPS: Total = Total {
    about: About::new(
        "program_udp_drops",
        "packets",
        Node,
        "Datagrams that reached the UDP sockets of the node's programs in the measuring window and found no room there.",
    ),
    quantity: &PROGRAM_UDP_DROPS,
};

static GROWTH: Total = Total {
    about: About::new(
        "counter_growth",
        "1",
        Counter,
        "By how much the counter of the node's program grew in the measuring window, as far as it was read then.",
    ),
    quantity: &COUNTER_GROWTH,
};

static GROWTH_RATE: Rate = Rate {
    about: About::new(
        "counter_rate",
        "1/s",
        Counter,
        "By how much the counter of the node's program grew in the measuring window, per second of it.",
    ),
    quantity: &COUNTER_GROWTH,
    times: 1.0,
    over: Over::Window,
};

#[cfg(test)]
mod tests {
    use netrig_core::Subject;

    use super::*;
    use crate::reduce::bench::Bench;

    /// Of 10 s the host spends 0.4 s in the first second and 0.1 s in each that follows, and drops 3 packets and 5.
    #[test]
    fn a_host_tells_what_receiving_takes_and_what_it_had_no_room_for() {
        let mut bench = Bench::new(10);
        let busy: Vec<(f64, f64)> =
            (1..=10).map(|s| (f64::from(s), if s == 1 { 0.4 } else { 0.1 })).collect();
        bench.count(Subject::Node(1), &HOST_BUSY, &busy);
        bench.count(Subject::Node(0), &HOST_BUSY, &[(1.0, 0.9)]);
        bench.count(Subject::Node(1), &HOST_DROPPED, &[(1.0, 3.0), (6.0, 5.0)]);
        let mut measured = |metric: &str, more: &str| {
            bench.measure(&format!("of = 'node.server'\nmetric = '{metric}'\n{more}")).unwrap()
        };
        assert!((measured("receive_utilisation", "") - 0.13).abs() < 1e-12);
        assert!((measured("receive_utilisation", "after = '5 s'") - 0.1).abs() < 1e-12);
        assert_eq!(measured("receive_drops", ""), 8.0);
        assert_eq!(measured("receive_drops", "after = '5 s'"), 5.0);
    }

    /// Half a processor for 2 s of 10 and one for the rest; 8 KB and 12 KB in sockets, and 4 datagrams that found no room.
    #[test]
    fn programs_tell_what_they_take() {
        let mut bench = Bench::new(10);
        let of = Subject::Node(1);
        let cpu: Vec<_> = (1..=10).map(|s| (f64::from(s), if s <= 2 { 0.5 } else { 1.0 })).collect();
        let queue: Vec<_> = (1..=10).map(|s| (f64::from(s), if s == 4 { 12e3 } else { 8e3 })).collect();
        bench.count(of, &PROGRAM_CPU, &cpu);
        bench.count(of, &PROGRAM_UDP_QUEUE, &queue);
        bench.count(of, &PROGRAM_UDP_DROPS, &[(4.0, 3.0), (5.0, 1.0)]);
        let mut measured = |metric: &str| bench.measure(&format!("of = 'node.server'\nmetric = '{metric}'"));
        assert!((measured("program_cpu").unwrap() - 0.9).abs() < 1e-12);
        assert_eq!(measured("program_cpu_max"), Ok(1.0));
        assert!((measured("program_udp_queue").unwrap() - 8.4e3).abs() < 1e-9);
        assert_eq!(measured("program_udp_queue_max"), Ok(12e3));
        assert_eq!(measured("program_udp_drops"), Ok(4.0));
        assert_eq!(measured("program_memory").unwrap_err(), "the node ran no program that was watched");
    }

    #[test]
    fn counters_are_told_apart() {
        let mut bench = Bench::new(10);
        bench.count(Subject::Counter(1, 0), &COUNTER_GROWTH, &[(5.0, 30.0), (10.0, 10.0)]);
        bench.count(Subject::Counter(1, 1), &COUNTER_GROWTH, &[(10.0, 7.0)]);
        let mut measured = |counter: &str, metric: &str, more: &str| {
            bench.measure(&format!("of = 'node.server.counter.{counter}'\nmetric = '{metric}'\n{more}"))
        };
        assert_eq!(measured("requests", "counter_growth", ""), Ok(40.0));
        assert_eq!(measured("requests", "counter_growth", "after = '5 s'"), Ok(10.0));
        assert_eq!(measured("requests", "counter_rate", ""), Ok(4.0));
        assert_eq!(measured("core.replies", "counter_growth", ""), Ok(7.0));
    }
}
