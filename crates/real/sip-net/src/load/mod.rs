//! A load of SIP users over UDP, TCP or TLS, and what the server makes of it.
//!
//! [`run`] carries a [`LoadOrder`] out: threads that share nothing ([`LoadOrder::shards`]), each with sockets of its own and its
//! part of the users, drive a [`Part`](netrig_sip::load::Part) each. Arrivals are open loop, at the moments of a schedule
//! that is decided before the first of them and is the same for any number of threads, or closed loop, each user again
//! some time after it was done.
//!
//! * What is sent has the program's stamp, taken right before; what is received has the kernel's. The time between that and the
//!   answer is the tester's own: it is in no delay of the server's, and is told apart.
//! * Whoever was to begin and when is kept, however late it began: how late is told in each second.
//! * The tester watches itself: how late it was, what its sockets had no room for, what the kernel would not take, what
//!   the hypervisor took. A second with such a fault is invalid, and so is the load.
//! * A person may make it faster or slower, let it pause and end it ([`Control`]); what was done stands in the report.
//! * Nothing is sent but to the address of the order; one that is not of a private network needs the word of who may test
//!   it ([`LoadOrder::may_test`]).

mod answering;
mod attention;
mod control;
mod kind;
mod locating;
mod offered;
mod order;
mod replies;
mod report;
mod reporting;
mod run;
mod shard;
mod shard_tap;
mod socket;
mod source_ports;
mod spool;
mod streams;
mod tester;
mod wire;

pub use answering::{AnswerReport, Answering, answer};
pub use control::{Control, Intervention, SPEEDS, Steering};
pub use kind::{FailureKind, TimeLimit, attempt_name};
pub use offered::{Offered, pace_words};
pub use order::{Carrier, Connecting, LoadError, LoadOrder, LoadTls, Reconnecting, Span};
pub use report::{
    DelayRow, FailureRow, LoadReport, LocationRow, OutcomeRow, Ratios, SecondRow, SoFar, TesterReport,
    ThresholdRow,
};
pub use run::OpenLoad;
pub use run::{LoadStage, Next, Readiness, run};
pub use tester::{TesterSecond, TesterUse};
