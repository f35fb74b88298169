//! Attempts that wait until their server is found.

use std::net::SocketAddr;

use netrig_core::{Duration, Instant};

use super::scenario::Work;
use crate::record::{AttemptCounts, Owner, Record, Side, SlabKey, Stamps, Token, Unlocated};

/// What names an attempt that was never begun: no call has this place.
const NOWHERE: SlabKey = SlabKey { index: u32::MAX, generation: u32::MAX };

/// Where an attempt's requests go, as a lookup of its own has said (RFC 3263).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// The servers in the order in which they are tried, one at least; of more than eight the first eight are.
    pub servers: Vec<SocketAddr>,
    /// From the first question to the last answer.
    pub took: Duration,
}

/// An attempt whose server is looked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingLookup {
    pub(super) work: Work,
    /// Its place in the part.
    pub(super) user: u32,
    pub(super) due: Instant,
}

impl PendingLookup {
    /// Its record, as it has found none. `user` is the user's number among all.
    pub(super) fn unlocated(&self, why: Unlocated, (run, shard): (u32, u16), user: u32) -> Record {
        let (owner, side, user) = match self.work {
            Work::Call(scenario) => (Owner::Caller(scenario.callee_behavior()), Side::Caller, user),
            _ => (Owner::Registration, Side::Registrant, self.user),
        };
        Record {
            token: Token { run, shard, owner, key: NOWHERE },
            side,
            what: self.work.what(),
            user,
            failure: Some(why.into()),
            status: 0,
            stamps: Stamps::new(self.due, Instant::NEVER),
            counts: AttemptCounts::default(),
            lookup: None,
        }
    }
}
