//! Attempts that wait until their server is found.

use std::net::SocketAddr;

use netrig_core::{Duration, Instant};

use super::output::{Counts, Record, Side, Stamps};
use super::plan::Work;
use super::slab::Key;
use super::token::{Owner, Token};

/// What names an attempt that was never begun: no call has this place.
const NOWHERE: Key = Key { index: u32::MAX, generation: u32::MAX };

/// Where an attempt's requests go, as a lookup of its own has said (RFC 3263).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// The servers in the order in which they are tried, one at least; of more than eight the first eight are.
    pub servers: Vec<SocketAddr>,
    /// From the first question to the last answer.
    pub took: Duration,
}

/// Why an attempt has found no server to ask. None of it is any SIP server's doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum Unlocated {
    /// The name does not exist, or nothing of what SIP asks for is there.
    #[error("the DNS knows no such name")]
    NoSuchName,
    /// The name is there, and leads only where this load does not go: by other transports or versions of IP.
    #[error("the name leads only where the load does not go")]
    Elsewhere,
    /// It leads only to public addresses, which nobody said may be tested.
    #[error("the name leads to public addresses that nobody said may be tested")]
    Forbidden,
    /// The DNS server said that it failed, or does not answer such questions.
    #[error("the DNS server refused or failed")]
    Refused,
    /// The answer is none, or has aliases without an end.
    #[error("the answer of the DNS server was malformed")]
    Malformed,
    /// Asked as often as may be, nobody has answered.
    #[error("no answer of the DNS server in time")]
    NoAnswer,
    /// The tester had no room for it: its own limit.
    #[error("the tester had no room for the lookup")]
    NoRoom,
}

/// An attempt whose server is looked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Looking {
    pub(super) work: Work,
    /// Its place in the part.
    pub(super) user: u32,
    pub(super) due: Instant,
}

impl Looking {
    /// Its record, as it has found none. `user` is the user's number among all.
    pub(super) fn unlocated(&self, why: Unlocated, (run, shard): (u32, u16), user: u32) -> Record {
        let (owner, side, user) = match self.work {
            Work::Call(scenario) => (Owner::Caller(scenario.wish()), Side::Caller, user),
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
            counts: Counts::default(),
            lookup: None,
        }
    }
}
