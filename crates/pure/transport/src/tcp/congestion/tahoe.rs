//! Tahoe (V. Jacobson, "Congestion Avoidance and Control", SIGCOMM 1988): no fast recovery.

use super::control::{Acked, CongestionControl, CongestionWindow};
use super::reno;
use crate::tcp::config::Config;

/// Grows like [`reno::Reno`]. After every loss the window is one segment.
#[derive(Clone, Debug)]
pub(crate) struct Tahoe(reno::Reno);

impl Tahoe {
    pub fn new(config: &Config) -> Self {
        Self(reno::Reno::new(config))
    }
}

impl CongestionControl for Tahoe {
    fn on_ack(&mut self, window: &mut CongestionWindow, acked: &Acked) {
        self.0.on_ack(window, acked);
    }

    fn on_congestion(&mut self, window: &CongestionWindow, base: u64) -> u64 {
        self.0.on_congestion(window, base)
    }

    fn recovers(&self) -> bool {
        false
    }
}
