//! Loads of millions of users and calls, without I/O.
//!
//! Start from the state machines [`Caller`], [`Callee`] and [`Registrant`]. Each has all calls or users of its kind in
//! one shard and shares nothing with other machines. The driver reads datagrams in batches. It gives each to
//! [`Scan::of`] and then, with the time of its arrival, to the machine that [`Recipient::of`] returns. It sleeps until
//! the earliest `next_deadline` and then calls `handle_timeout`. Messages to be sent and records of ended attempts are
//! in a [`LoadOutput`], which the driver empties.
//!
//! A [`Plan`] describes a whole load: what its users do, with which [`Arrivals`]. A [`Part`] of it has the machines
//! of its users and starts their attempts. One part per thread and one part in virtual time generate the same load.
//!
//! * [`scan`] finds the fields of received messages and [`template`] writes messages to be sent, without a strict
//!   [`Message`](crate::Message). Only challenges are parsed and answered by the strict types.
//! * A response finds its call by its branch, a request within a dialog by its tag. Both are [`Token`]s of a
//!   [`Slab`], whose slots have generations. Calls of other user agents are found by their Call-ID, in a table hashed
//!   with a secret.
//! * All deadlines of a machine are in a [`Wheel`]. Each object has one deadline at a time: the earliest of the
//!   timers of RFC 3261 and of the scenario.
//!
//! A load sends requests only to the servers and peers that its [`Setup`] names, and responses to the sender of a
//! request. [`Setup::calls`] bounds the number of calls. A message that belongs to no call is counted.

mod arrivals;
mod authorize;
mod call;
mod callee;
mod caller;
mod glare;
mod lookup;
mod message_change;
mod messages;
mod moment;
mod output;
mod own_message;
mod part;
mod plan;
mod plan_clock;
mod recipient;
mod refresh;
mod registrant;
mod routes;
pub mod scan;
mod scenario;
mod session;
mod setup;
pub mod template;
mod text;
mod timed;
mod user;
mod users;

pub use crate::slab::Slab;
pub use crate::wheel::Wheel;
pub use arrivals::{ArrivalRate, Arrivals, Gaps, PerSecond, RateStage, Schedule, TraceError, moments_of};
pub use callee::Callee;
pub use caller::{CallLimitReached, Caller};
pub use lookup::Located;
pub use message_change::with_line_ends;
pub use moment::Moment;
pub use output::{ConnectionScope, DepartingMessage, LoadOutput, MessageConnection, Outbox, is_over_tcp};
pub use own_message::{MessageStep, OwnBody, OwnMessage, OwnMessageError};
pub use part::{AttemptStart, Part};
pub use plan::{CalleeOrder, PACE, Pace, Plan, PlanError, Portion};
pub use plan_clock::PlanClock;
pub use recipient::Recipient;
pub use registrant::{Registrant, UserBusy};
pub use scan::Scan;
pub use scenario::{Scenario, Work};
pub use setup::{Directory, Setup, in_messages};
pub use template::{Hole, HoleValues, Template, TemplateError};
pub use text::InlineText;
pub use user::Registration;

pub use crate::record::{
    AttemptCounts, Broken, CalleeAction, Departure, Failure, Key, LONGEST_MESSAGE, Owner, Record, Side,
    Stamps, TlsFault, Token, Unlocated, What,
};
