//! What runs inside a node of a real substrate: real sockets, driven by the applications of `netrig-traffic`.
//!
//! An agent is told ends of flows ([`RunOrder`]), opens their sockets, and carries out what each end's
//! [`Application`](netrig_traffic::Application) decides: datagrams by an absolute schedule, connections of TCP and MPTCP,
//! associations of SCTP. TCP is the kernel's; SCTP is netrig's own endpoint, whose packets the kernel carries.
//! It reports the samples that every substrate reports, and how well it kept to what was asked ([`EndReport`]).
//!
//! * **The application decides.** It is told each of its deadlines with the time that it was due, however late the machine
//!   was, so the same seed offers the same traffic as in virtual time.
//! * **What was set is read back.** A socket option or sysctl that did not take is an error before the run begins.
//! * **The tester is measured too.** A source whose gaps are not what was asked, a socket that had no room, a wall clock
//!   that was stepped: each is a fault of the run, in words.
//!
//! It never decides what to send or when, never touches links or namespaces (whoever does has [`netlink`] from here), and never
//! sends to an address that its orders do not name. Beside it, [`probe`] measures paths, and [`sip`] is SIP servers and their tester, outside of any experiment.
//!
//! Start from [`PreparedRun`] (a run in this process) or [`Agent`] (the same over a stream, by the control protocol).
#![deny(unsafe_code)]
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "an agent is where netrig meets the kernel: clocks, sockets, threads and the kernel's settings"
)]

mod agent;
mod arrivals;
pub mod bulk;
mod clock;
mod connection_slots;
pub mod control;
pub mod control_group;
mod cpu_load;
mod datagram;
mod datagram_format;
mod descriptors;
mod end;
mod entropy;
mod error;
mod event_loop;
mod file_transfer;
pub mod frames;
mod host_address;
mod interruptions;
mod lateness;
mod memory;
mod meter;
mod mptcp;
pub mod netlink;
mod order;
mod outbox;
mod pacer;
mod passing;
mod precedence;
pub mod probe;
pub mod quantity;
mod roster;
mod rtp;
mod run;
mod sctp;
mod server_watch;
mod settings;
mod shown;
mod signals;
pub mod sip;
mod socket;
mod source_report;
mod stalls;
mod sys;
mod sysctl;
mod tcp;
mod tcp_info;
mod thread_slots;
pub mod tls;
mod udp;
pub mod usage;
pub mod user_file;
mod wakefulness;

pub use agent::Agent;
pub use arrivals::Arrivals;
pub use clock::{Clock, RealtimeOffset, monotonic_nanos, realtime_nanos, wall_clock_is_kept};
pub use connection_slots::{Busy, ConnectionSlots, Entered, SlotId, SlotLimits};
pub use cpu_load::{LOAD_PERIOD, load_processors};
pub use datagram::{Rest, SHORT_LEN, STAMP_LEN, Stamp};
pub use datagram_format::DatagramFormat;
pub use descriptors::{DescriptorShortage, connections_within};
pub use end::{EndRemark, EndReport};
pub use entropy::random;
pub use error::AgentError;
pub use event_loop::Progress;
pub use file_transfer::SERVED_FILE;
pub use host_address::{HostAddress, HostAddressError};
pub use interruptions::Interruptions;
pub use lateness::Lateness;
pub use meter::Samples;
pub use order::{CarrierOptions, EndOrder, NamesOrder, RunOrder, Side};
pub use pacer::{Pacer, SPIN, Watch};
pub use passing::is_passing;
pub use precedence::{Precedence, become_real_time};
pub use run::{MOST_TRANSFERS, PreparedRun};
pub use sctp::{SctpOptions, SctpPath, SctpReport, TimedControl};
pub use server_watch::{ServerReading, ServerWatch};
pub use settings::{HostSettings, Outlet};
pub use shown::{shown, shown_up_to};
pub use signals::RunSignals;
pub use socket::{Buffers, SocketError, TcpOptions, UdpOptions};
pub use source_report::{Asked, SourceMeter, SourceReport};
pub use stalls::{MachineStalls, StallWatch};
pub use sysctl::{SysctlError, set_and_read_back};
pub use tcp_info::{TcpCounts, TcpInfo};
pub use thread_slots::{NoSlot, ThreadSlot, ThreadSlots};
pub use udp::{SocketPassage, UdpReport};
pub use wakefulness::Wakefulness;
