//! Cables: links without delay, loss and counters.

use std::collections::VecDeque;

use netrig_core::Instant;

use crate::agenda::Appointment;
use crate::parcel::Parcel;

/// The packets on all cables. A packet leaves a cable at the time at which it entered, after all events that were
/// entered before.
#[derive(Default)]
pub(crate) struct Cables {
    /// Packets with their times of entry, in this order.
    pub underway: VecDeque<(Instant, Parcel)>,
    pub offered: u64,
    pub delivered: u64,
    pub appointment: Appointment,
}

impl Cables {
    pub fn take(&mut self, now: Instant, parcel: Parcel) {
        self.offered += 1;
        self.underway.push_back((now, parcel));
    }

    /// The next packet, and the time at which it passed the cable.
    pub fn passed(&mut self) -> Option<(Instant, Parcel)> {
        let first = self.underway.pop_front();
        self.delivered += u64::from(first.is_some());
        first
    }

    /// The time at which to call [`Cables::passed`] next.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.underway.front().map(|(at, _)| *at)
    }
}
