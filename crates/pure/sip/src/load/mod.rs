//! Users and calls by the million, without I/O: messages found in bytes and written by copying, state of few bytes.
//!
//! Start from [`Caller`], [`Callee`] and [`Registrant`]: those who call, who are called, and who register. Each has all
//! that one shard does of its kind, shares nothing with others, and is driven in the same way: the driver reads
//! datagrams by the dozen, gives each to [`Scan::of`] and, as [`Recipient::of`] says, to a machine with the time at
//! which it came; sleeps no longer than the earliest `next_deadline`, and then calls `handle_timeout`. What is to be
//! sent and what has come to its end stands in an [`LoadOutput`], which the driver empties when it likes.
//!
//! A whole load is a [`Plan`]: what its users do, and at which [`Arrivals`]. A [`Part`] of it has the machines of its users and
//! lets them begin; as many parts as there are threads, or one in virtual time, make the same load.
//!
//! * What comes in is found by [`scan`], what goes out is made by [`template`]: no strict [`Message`](crate::Message)
//!   is built on the way. Only a challenge is read and answered by the strict types.
//! * An answer finds its call by its branch, a request within a dialog by its tag: both are [`Token`]s of a [`slab`],
//!   whose places have generations. Calls that others begin are found by their Call-ID, in a table hashed with a
//!   secret.
//! * All deadlines of a machine are in a [`wheel`]: each object has one at a time, the next of those that RFC 3261's
//!   timers and the scenario give it.
//!
//! It never sends to anybody but the server and the peers that its [`Setup`] names (and, as an answer, to who has
//! asked), has at most as many calls as that says, and counts what belongs to no call instead of answering for it.

mod arrivals;
mod authorize;
mod call;
mod callee;
mod caller;
mod course;
mod glare;
mod lookup;
mod message_change;
mod messages;
mod moment;
mod output;
mod own_message;
mod part;
mod plan;
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
pub use arrivals::{Arrivals, Gaps, RateStage, Schedule, TraceError, moments_of};
pub use callee::Callee;
pub use caller::{CallLimitReached, Caller};
pub use course::PlanClock;
pub use lookup::Located;
pub use moment::Moment;
pub use output::{ConnectionScope, DepartingMessage, LoadOutput, MessageConnection, Outbox, is_over_tcp};
pub use own_message::{MessageStep, OwnBody, OwnMessage, OwnMessageError};
pub use part::{AttemptStart, Part};
pub use plan::{CalleeOrder, PACE, Pace, Plan, PlanError, Portion};
pub use recipient::Recipient;
pub use registrant::{Registrant, UserBusy};
pub use scan::Scan;
pub use scenario::{Scenario, Work};
pub use setup::{Directory, Setup, in_messages};
pub use template::{Hole, HoleValues, Template, TemplateError};
pub use text::InlineText;
pub use user::Registration;

pub use crate::record::{
    AttemptCounts, Broken, CalleeBehavior, Departure, Failure, LONGEST_MESSAGE, Owner, Record, Side, SlabKey,
    Stamps, TlsFault, Token, Unlocated, What,
};
