//! A load of SIP users over UDP, TCP or TLS, and its measurements.
//!
//! [`run`] carries a [`LoadOrder`] out. It has several threads ([`LoadOrder::shards`]). Each has its own sockets and a
//! part of the users, and drives one [`Part`](netrig_sip::load::Part). Open-loop arrivals follow a schedule that is
//! fixed before the load starts, and is the same for any number of threads. In a closed loop each user starts again
//! some time after its last attempt.
//!
//! * Sent messages have the program's time stamp, taken right before sending; received messages have the kernel's. The
//!   time from the kernel's time stamp to the tester's answer is not part of any measured delay of the server. It is
//!   reported separately.
//! * The schedule determines which user starts when. If a start is late, later starts are not moved. The lateness is
//!   reported for each second.
//! * The tester records its own limits: lateness, messages dropped because a buffer was full, messages that the kernel
//!   refused, and stolen processor time. A second with such a fault is invalid, and makes the load invalid.
//! * A person may change the rate, pause the load and end it ([`Control`]). The report lists these interventions.
//! * Messages go only to the address of the order. To test a public address, the user must confirm that this is
//!   permitted ([`LoadOrder::may_test`]).

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
pub use kind::{FailureKind, TimeLimit};
pub use offered::{Offered, pace_words};
pub use order::{Carrier, LoadError, LoadOrder, LoadTls, Reconnecting, Span};
pub use report::{
    DelayRow, FailureRow, LoadReport, LocationRow, OutcomeRow, SecondRow, SoFar, TesterReport, ThresholdRow,
};
pub use run::OpenLoad;
pub use run::{LoadStage, Next, Readiness, run};
pub use tester::{TesterSecond, TesterUse};
