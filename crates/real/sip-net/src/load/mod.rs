//! A load of SIP users over UDP, TCP or TLS, and its measurements.
//!
//! [`run`] carries a [`LoadOrder`] out. Threads that share nothing ([`LoadOrder::shards`]), each with sockets of its own and a
//! part of the users, drive a [`Part`](netrig_sip::load::Part) each. Open-loop arrivals follow a schedule that is fixed before
//! the first of them and is the same for any number of threads. In a closed loop each user starts again some time after its
//! last attempt.
//!
//! * Sent messages have the program's time stamp, taken right before sending; received messages have the kernel's. The time
//!   from the kernel's stamp to the answer is the tester's own: it is in no delay of the server's, and is reported separately.
//! * The schedule decides who starts when, however late the start is. The lateness is reported for each second.
//! * The tester records its own limits: lateness, messages without room in its sockets, messages that the kernel refused,
//!   stolen processor time. A second with such a fault is invalid, and so is the load.
//! * A person may change the rate, pause and end it ([`Control`]); the report lists these interventions.
//! * Messages go only to the address of the order. A public address needs the user's confirmation of permission to test it
//!   ([`LoadOrder::may_test`]).

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
pub use order::{Carrier, LoadError, LoadOrder, LoadTls, Reconnecting, Span};
pub use report::{
    DelayRow, FailureRow, LoadReport, LocationRow, OutcomeRow, Ratios, SecondRow, SoFar, TesterReport,
    ThresholdRow,
};
pub use run::OpenLoad;
pub use run::{LoadStage, Next, Readiness, run};
pub use tester::{TesterSecond, TesterUse};
