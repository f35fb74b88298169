//! Metrics of a node as a receiving host, and of the resources and counters of its programs.

use netrig_core::quantity::{
    COUNTER_GROWTH, HOP_LIMIT_DROPS, HOST_BUSY, HOST_CPU, HOST_CPU_WAIT, HOST_DROPPED, HOST_LOAD,
    HOST_MEMORY, HOST_THROTTLED, PROGRAM_CPU, PROGRAM_MEMORY, PROGRAM_UDP_DROPS, PROGRAM_UDP_QUEUE,
};

use super::super::Per;
use super::metrics;

metrics! {
    of Node;
    "receive_utilisation" ["1"].share().per(Per::Mean).rate(&HOST_BUSY):
        "Share of the measuring window that the host spent on packets that it received (`receive` of the \
         node).";
    "receive_drops" ["packets"].total(&HOST_DROPPED):
        "Packets that arrived in the measuring window and that the host dropped because it had no room.";
    "hop_limit_drops" ["packets"].total(&HOP_LIMIT_DROPS):
        "Packets that the node should have forwarded in the measuring window, but dropped because their \
         hop limit reached zero there.";
    "program_cpu" ["1"].mean_level(&PROGRAM_CPU, NO_PROGRAM):
        "Processors that the node's programs kept busy, averaged over the measuring window; 1 is one \
         whole processor.";
    "program_cpu_max" ["1"].largest_level(&PROGRAM_CPU, NO_PROGRAM):
        "Processors that the node's programs kept busy, averaged over the busiest sampling interval of \
         the measuring window.";
    "program_memory" ["B"].mean_level(&PROGRAM_MEMORY, NO_PROGRAM):
        "Memory that the node's programs held, averaged over the measuring window. Memory that their \
         processes share counts once.";
    "program_memory_max" ["B"].largest_level(&PROGRAM_MEMORY, NO_PROGRAM):
        "Most memory that the node's programs held at a sample in the measuring window. Memory that their \
         processes share counts once.";
    "program_udp_queue" ["B"].mean_level(&PROGRAM_UDP_QUEUE, NO_PROGRAM):
        "Bytes that waited in the UDP sockets of the node's programs, the kernel's overhead included, \
         averaged over the samples in the measuring window.";
    "program_udp_queue_max" ["B"].largest_level(&PROGRAM_UDP_QUEUE, NO_PROGRAM):
        "Most bytes that waited in the UDP sockets of the node's programs at a sample in the measuring \
         window, the kernel's overhead included.";
    "program_udp_drops" ["packets"].total(&PROGRAM_UDP_DROPS):
        "Datagrams that reached the UDP sockets of the node's programs in the measuring window and were \
         dropped because the sockets were full.";
    "load" ["1"].mean_level(&HOST_LOAD, NO_HOST):
        "Share of the node's processors that its load used, averaged over the measuring window.";
    "cpu" ["1"].mean_level(&HOST_CPU, NO_HOST):
        "Processors that the node's agent and programs kept busy, averaged over the measuring window; 1 \
         is one whole processor.";
    "cpu_wait" ["1"].mean_level(&HOST_CPU_WAIT, NO_HOST):
        "Processors that threads of the node's agent and programs waited for because other threads used \
         them, averaged over the measuring window.";
    "throttled" ["s"].total(&HOST_THROTTLED):
        "Time of the measuring window in which the node's processes were kept from a processor because \
         its quota was used up, summed over the processors.";
    "memory" ["B"].mean_level(&HOST_MEMORY, NO_LIMIT):
        "Memory of the node's processes that counts against its limit, averaged over the samples in the \
         measuring window.";
    "memory_max" ["B"].largest_level(&HOST_MEMORY, NO_LIMIT):
        "Most memory of the node's processes that counted against its limit at a sample in the measuring \
         window.";
    of Counter;
    "counter_growth" ["1"].total(&COUNTER_GROWTH):
        "Increase of the counter of the node's program in the measuring window, between readings.";
    "counter_rate" ["1/s"].rate(&COUNTER_GROWTH):
        "Increase of the counter of the node's program in the measuring window, per second of it.";
}

const NO_PROGRAM: &str = "the node ran no program that was watched";
const NO_HOST: &str = "nothing ran on the node that was watched";
const NO_LIMIT: &str = "the node's memory was not limited, and so not counted";

#[cfg(test)]
mod tests {
    use netrig_core::Subject;

    use super::*;
    use crate::reduce::bench::Bench;

    /// Of 10 s, the host is busy for 0.4 s in the first second and for 0.1 s in each further second. It drops 3 packets
    /// and then 5.
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

    /// The node drops three packets in the first second and five in the sixth. Another node drops others.
    #[test]
    fn a_node_tells_whose_hop_limit_ran_out_there() {
        let mut bench = Bench::new(10);
        let measured = |bench: &mut Bench, more: &str| {
            bench.measure(&format!("of = 'node.server'\nmetric = 'hop_limit_drops'\n{more}")).unwrap()
        };
        assert_eq!(measured(&mut bench, ""), 0.0, "nothing is told where none runs out");
        bench.count(Subject::Node(1), &HOP_LIMIT_DROPS, &[(1.0, 3.0), (6.0, 5.0)]);
        bench.count(Subject::Node(0), &HOP_LIMIT_DROPS, &[(1.0, 9.0)]);
        assert_eq!((measured(&mut bench, ""), measured(&mut bench, "after = '5 s'")), (8.0, 5.0));
    }

    /// The programs use half a processor for 2 s of 10 s, and one processor for the rest. The sockets contain 8 KB and
    /// once 12 KB, and drop 4 datagrams for lack of buffer space.
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

    /// The load uses nine tenths of a processor. The node's programs use the rest, and wait for two tenths more.
    #[test]
    fn a_host_tells_what_its_load_and_its_own_work_had() {
        let mut bench = Bench::new(10);
        let of = Subject::Node(1);
        let each = |value: f64| (1..=10).map(|s| (f64::from(s), value)).collect::<Vec<_>>();
        bench.count(of, &HOST_LOAD, &each(0.9));
        bench.count(of, &HOST_CPU, &each(0.1));
        bench.count(of, &HOST_CPU_WAIT, &each(0.2));
        bench.count(of, &HOST_THROTTLED, &[(2.0, 0.5), (3.0, 0.25)]);
        let mut measured = |metric: &str| bench.measure(&format!("of = 'node.server'\nmetric = '{metric}'"));
        for (metric, value) in [("load", 0.9), ("cpu", 0.1), ("cpu_wait", 0.2), ("throttled", 0.75)] {
            assert!((measured(metric).unwrap() - value).abs() < 1e-12, "{metric}");
        }
        assert_eq!(measured("memory").unwrap_err(), "the node's memory was not limited, and so not counted");
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
