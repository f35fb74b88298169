//! Subscriptions at the subscriber (RFC 6665).

use netrig_core::{Duration, Instant};

use super::super::output::LoadOutput;
use super::super::scan::{Field, Scan};
use super::sending::CallRequest;
use super::{CallTimers, Caller, CallerPhase, Key, Scenario};
use crate::deadline::Deadline;
use crate::record::{Failure, stamp};

/// A subscription is renewed after this share of the granted time, in thousandths.
const RENEWAL: u64 = 900;

impl Caller {
    /// Handles a 2xx to SUBSCRIBE.
    pub(super) fn subscribed(
        &mut self,
        now: Instant,
        scan: &Scan<'_>,
        status: u16,
        key: Key,
        out: &mut LoadOutput,
    ) {
        let is_first = self.calls.get(key).is_some_and(|call| call.phase == CallerPhase::Asking);
        if is_first {
            self.take_dialog(scan, key);
        }
        let Some(call) = self.calls.get_mut(key) else { return };
        let Scenario::Subscribe { hold, expires } = call.scenario else { return };
        let asked = if call.phase == CallerPhase::Ending { 0 } else { expires };
        // A 2xx has the duration, and "The period of time in the response MAY be shorter but MUST NOT be longer than
        // specified in the request." (RFC 6665 section 3.1.1)
        if scan.expires.is_none_or(|granted| granted > asked) {
            call.failure = call.failure.or(Some(Failure::Rule("RFC 6665 section 3.1.1")));
        }
        if is_first {
            call.status = status;
            stamp(&mut call.stamps.answered, self.arrived);
            stamp(&mut call.stamps.acknowledged, now);
            if scan.contact.is_none() || scan.to_tag.is_none() {
                call.failure = Some(Failure::Rule("RFC 3261 section 12.1.1"));
                return self.finish(key, out);
            }
        }
        call.timers = CallTimers::default();
        if !call.is_met {
            // Timer N.
            call.timers.end = Deadline::after(now, self.setup.timing.patience());
        }
        if call.phase == CallerPhase::Ending {
            stamp(&mut call.stamps.ended, self.arrived);
            if call.is_met {
                self.finish(key, out);
            }
            return;
        }
        call.phase = CallerPhase::Holding;
        let granted = scan.expires.unwrap_or(expires).min(expires);
        let renewal = Duration::from_millis(u64::from(granted) * RENEWAL);
        let end = call.stamps.acknowledged + hold;
        call.timers.act = Deadline::after(now, renewal.min(end.max(now) - now));
    }

    /// Renews the subscription, or terminates it at the end of its hold time. If the NOTIFY of the last SUBSCRIBE has
    /// not arrived, the caller first waits for it until timer N expires (RFC 6665 section 4.1.2.4).
    pub(super) fn resubscribe(&mut self, now: Instant, key: Key, out: &mut LoadOutput) {
        let Some(call) = self.calls.get_mut(key) else { return };
        let Scenario::Subscribe { hold, .. } = call.scenario else { return };
        if !call.is_met {
            return;
        }
        call.is_met = false;
        if now >= call.stamps.acknowledged + hold {
            stamp(&mut call.stamps.ending, now);
            call.phase = CallerPhase::Ending;
        } else {
            call.phase = CallerPhase::Changing;
            call.step = call.step.saturating_add(1);
        }
        self.send_next(now, key, CallRequest::Subscribe, out);
    }

    /// Handles a NOTIFY. The first may arrive before the 2xx of its SUBSCRIBE (RFC 6665 section 4.1.2.4).
    pub(super) fn notified(&mut self, scan: &Scan<'_>, key: Key, out: &mut LoadOutput) {
        let Some(call) = self.calls.get_mut(key) else { return };
        stamp(&mut call.stamps.changed, self.arrived);
        let value = |field| scan.all(field).next().map(|value| value.split(|byte| *byte == b';').next());
        let (event, state) = (value(Field::Event).flatten(), value(Field::SubscriptionState).flatten());
        // A NOTIFY names the event package of its SUBSCRIBE (RFC 6665 section 3.2.1) and the state (section 4.2.2).
        let broken = if event.map(<[u8]>::trim_ascii) != Some(b"presence") {
            Some("RFC 6665 section 3.2.1")
        } else {
            state.is_none().then_some("RFC 6665 section 4.2.2")
        };
        call.failure = call.failure.or(broken.map(Failure::Rule));
        let is_over = state.is_some_and(|state| state.trim_ascii().eq_ignore_ascii_case(b"terminated"));
        match call.phase {
            // The notifier sent this NOTIFY before it terminated the subscription.
            CallerPhase::Ending if !is_over => {}
            CallerPhase::Ending => {
                call.is_met = true;
                if call.stamps.ended != Instant::NEVER {
                    self.finish(key, out);
                }
            }
            _ if is_over => {
                call.failure = call.failure.or(Some(Failure::EndedByPeer));
                stamp(&mut call.stamps.ended, self.arrived);
                self.finish(key, out);
            }
            phase => {
                call.is_met = true;
                if phase == CallerPhase::Holding {
                    call.timers.end.stop();
                    if !call.timers.act.is_running() {
                        self.resubscribe(self.arrived, key, out);
                    }
                }
            }
        }
    }
}
