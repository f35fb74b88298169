//! Attempts that wait for the lookup of their server.

use std::net::SocketAddr;

use netrig_core::{Duration, Instant};

use super::scenario::Work;
use crate::record::{AttemptCounts, Key, Owner, Record, Side, Stamps, Token, Unlocated};

/// Key of an attempt that has sent no request. No call has this index.
const NOWHERE: Key = Key { index: u32::MAX, generation: u32::MAX };

/// Result of the lookup of an attempt (RFC 3263).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// The servers in the order of use, at least one. Only the first eight are used.
    pub servers: Vec<SocketAddr>,
    /// Time from the first DNS query to the last answer.
    pub took: Duration,
}

/// An attempt that waits for its lookup.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingLookup {
    pub(super) work: Work,
    /// Index of the user in the part.
    pub(super) user: u32,
    pub(super) due: Instant,
}

impl PendingLookup {
    /// The record of an attempt whose lookup has failed. `user` is the number of the user among all users of the
    /// load.
    pub(super) fn unlocated(&self, why: Unlocated, (run, shard): (u32, u16), user: u32) -> Record {
        let (owner, side, user) = match self.work {
            Work::Call(scenario) => (Owner::Caller(scenario.callee_action()), Side::Caller, user),
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
