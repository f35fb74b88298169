//! Base of all crates that run on a real machine: clocks, precise sending, sockets with the kernel's time stamps, netlink, TLS,
//! HTTP/1.1, frames on a byte stream, thread scheduling, and system calls.
//!
//! This crate does not decide which data is sent. Only [`sys`] has unsafe code.
//!
//! Start from [`Clock`], [`Pacer`], [`Outbox`] and [`socket`].
#![deny(unsafe_code)]
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "this crate is where netrig meets the kernel: clocks, sockets, threads and the kernel's settings"
)]

mod arrivals;
mod checkup;
mod clock;
mod connection_slots;
pub mod control_group;
mod cpu_latency_limit;
mod cpu_load;
mod datagram;
mod datagram_format;
mod descriptors;
mod entropy;
pub mod frames;
mod host_address;
pub mod http;
mod interruptible_stream;
mod interruptions;
mod memory;
mod mptcp;
pub mod netlink;
mod outbox;
mod pacer;
mod precedence;
pub mod proc;
pub mod quantity;
mod reasons;
mod server_watch;
mod settings;
mod shown;
mod signals;
pub mod socket;
mod source_report;
mod stalls;
mod stoppable_thread;
pub mod sys;
pub mod sysctl;
mod target;
mod tcp_info;
mod thread_slots;
pub mod tls;
mod transient_error;
pub mod usage;
pub mod user_file;

pub use arrivals::{ArrivalCounts, ArrivalKind, ArrivalLog};
pub use checkup::{HostFinding, facility_findings, machine_findings};
pub use clock::{Clock, RealtimeOffset, monotonic_nanos, realtime_nanos, wall_clock_is_synchronised};
pub use connection_slots::{ConnectionLimits, ConnectionSlots, EnteredSlot, SlotId, SlotLimits, SlotRefusal};
pub use cpu_latency_limit::CpuLatencyLimit;
pub use cpu_load::{LOAD_PERIOD, load_processors};
pub use datagram::{DatagramStamp, PayloadKind, SHORT_LEN, STAMP_LEN, answered};
pub use datagram_format::DatagramFormat;
pub use descriptors::{DescriptorShortage, allowed_descriptors, connections_within};
pub use entropy::random;
pub use host_address::{HostAddress, HostAddressError, is_public};
pub use interruptible_stream::{InterruptibleStream, dismiss, is_readable, readable};
pub use interruptions::{InterruptionCounts, Interruptions};
pub use memory::{MemoryBudget, MemoryExhausted, MemoryReservation};
pub use mptcp::{MptcpInfo, Subflow, SubflowCounts};
pub use outbox::Outbox;
pub use pacer::{Pacer, SPIN, Watch};
pub use precedence::{Precedence, become_real_time};
pub use reasons::Reasons;
pub use server_watch::{ServerReading, ServerWatch};
pub use settings::{EgressInterface, HostSettings};
pub use shown::{shown, shown_up_to};
pub use signals::RunSignals;
pub use source_report::{Lateness, RequestedGaps, SourceMeter, SourceReport};
pub use stalls::{MachineStalls, StallWatch};
pub use stoppable_thread::{StoppableThread, is_stopped_within};
pub use target::{IpFamily, TargetError, host_of_target, loopback_addresses, resolve_target};
pub use tcp_info::{TcpCounts, TcpInfo};
pub use thread_slots::{ThreadSlot, ThreadSlotError, ThreadSlots};
pub use transient_error::{is_connection_error, is_transient};
