//! What is kept of a user who does nothing.

use std::sync::Arc;

use netrig_core::Instant;

use super::authorize::Proof;
use super::call::CallTimers;
use super::lookup::Located;
use crate::record::{AttemptCounts, Stamps, What};

/// Whether a user is registered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Registration {
    /// Not, or no more.
    #[default]
    None,
    /// REGISTER sent.
    Registering,
    /// Until it is time to do it again.
    Registered,
    /// REGISTER with `Expires: 0` sent.
    Unregistering,
}

/// A user's registration.
#[derive(Clone, Debug)]
pub(super) struct RegistrantUser {
    pub(super) state: Registration,
    /// What the last REGISTER is for.
    pub(super) what: What,
    /// Of the last REGISTER.
    pub(super) cseq: u32,
    /// What is asked for, s.
    pub(super) expires: u32,
    /// The server has wanted that to be longer, since the first request to it.
    pub(super) was_too_brief: bool,
    pub(super) status: u16,
    /// Whether its last REGISTER went over TCP because of its length.
    pub(super) is_over_tcp: bool,
    /// Whether the server took no connection: its requests go in datagrams, whatever their length.
    pub(super) stays_on_udp: bool,
    /// It was refused with `Retry-After`, and is sent again when that time is over.
    pub(super) is_waiting: bool,
    /// Which of the servers is asked.
    pub(super) server: u8,
    /// Until when the registrar keeps it.
    pub(super) until: Instant,
    pub(super) timers: CallTimers,
    pub(super) stamps: Stamps,
    /// The first rule that an answer to the last REGISTER has broken.
    pub(super) broken: Option<&'static str>,
    pub(super) counts: AttemptCounts,
    /// The credentials of the last REGISTER, while it may have to be sent again or the server has given a nonce for the next.
    pub(super) proof: Option<Box<Proof>>,
    /// Where its requests go, if that was looked for.
    pub(super) located: Option<Arc<Located>>,
}

// What a million of them may take: with its place in the wheel and its names, 256 MiB.
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
