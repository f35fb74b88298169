//! Cables: links that take no time, lose nothing and count nothing.

use std::collections::VecDeque;

use netrig_core::Instant;

use crate::agenda::Appointment;
use crate::parcel::Parcel;

/// The packets on cables. Each comes out at the moment at which it went in, behind all that was to happen before.
#[derive(Default)]
pub(crate) struct Cables {
    /// In the order in which they went in.
    pub underway: VecDeque<(Instant, Parcel)>,
    pub offered: u64,
    pub delivered: u64,
    pub appointment: Appointment,
}

impl Cables {
    /// A packet goes in.
    pub fn take(&mut self, now: Instant, parcel: Parcel) {
        self.offered += 1;
        self.underway.push_back((now, parcel));
    }

    /// The next packet that has come out, and when it did.
    pub fn passed(&mut self) -> Option<(Instant, Parcel)> {
        let first = self.underway.pop_front();
        self.delivered += u64::from(first.is_some());
        first
    }

    /// When to ask what has come out.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.underway.front().map(|(at, _)| *at)
    }
}
