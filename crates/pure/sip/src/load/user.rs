//! The state of a registrant.

use std::sync::Arc;

use netrig_core::Instant;

use super::authorize::Proof;
use super::call::CallTimers;
use super::lookup::Located;
use crate::record::{AttemptCounts, Stamps, What};

/// State of a user's registration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Registration {
    /// Not registered.
    #[default]
    None,
    /// REGISTER sent.
    Registering,
    /// Registered, and not yet renewing.
    Registered,
    /// REGISTER with `Expires: 0` sent.
    Unregistering,
}

/// A user that registers.
#[derive(Clone, Debug)]
pub(super) struct RegistrantUser {
    pub(super) state: Registration,
    /// Purpose of the last REGISTER.
    pub(super) what: What,
    /// `CSeq` of the last REGISTER.
    pub(super) cseq: u32,
    /// Requested duration, s.
    pub(super) expires: u32,
    /// Whether the current server has refused the duration as too brief.
    pub(super) was_too_brief: bool,
    pub(super) status: u16,
    /// Whether its last REGISTER went over TCP because of its length.
    pub(super) is_over_tcp: bool,
    /// Whether the server refused a connection: requests go over UDP, whatever their length.
    pub(super) stays_on_udp: bool,
    /// Whether the REGISTER was refused with `Retry-After` and waits for that time.
    pub(super) is_waiting: bool,
    /// Index of the server that requests go to.
    pub(super) server: u8,
    /// When the registration expires.
    pub(super) until: Instant,
    pub(super) timers: CallTimers,
    pub(super) stamps: Stamps,
    /// The first rule that a response to the last REGISTER has broken.
    pub(super) broken: Option<&'static str>,
    pub(super) counts: AttemptCounts,
    /// Credentials of the last REGISTER. They are kept while it may be retransmitted, and longer if the server has
    /// given a nonce for the next REGISTER.
    pub(super) proof: Option<Box<Proof>>,
    /// The servers of the user, if they were looked up.
    pub(super) located: Option<Arc<Located>>,
}

// Bounds the memory of a million users: with the node in the wheel and the names, 256 MiB.
const _: () = assert!(size_of::<RegistrantUser>() < 256, "an idle user takes less than 256 bytes");

impl RegistrantUser {
    pub(super) fn new() -> Self {
        Self {
            state: Registration::None,
            what: What::Register,
            cseq: 0,
            expires: 0,
            was_too_brief: false,
            status: 0,
            is_over_tcp: false,
            stays_on_udp: false,
            is_waiting: false,
            server: 0,
            until: Instant::ZERO,
            timers: CallTimers::default(),
            stamps: Stamps::new(Instant::NEVER, Instant::NEVER),
            broken: None,
            counts: AttemptCounts::default(),
            proof: None,
            located: None,
        }
    }
}
