//! The receiving end of voice and video: records the number and delay of each datagram.

use netrig_core::{Instant, quantity};

use crate::{AppAction, AppEvent, Application};

/// Records the number and the delay of each datagram. The quality of media depends on which datagrams are missing at
/// their play-out time.
pub(crate) struct MediaSink;

impl Application for MediaSink {
    fn handle(&mut self, now: Instant, event: AppEvent, act: &mut dyn FnMut(AppAction)) {
        let AppEvent::Datagram { number, sent, .. } = event else { return };
        let delay = now.since(sent).as_secs_f64();
        for (at, quantity, value) in [
            (now, &quantity::ONE_WAY_DELAY, delay),
            (sent, &quantity::DATAGRAMS_RECEIVED, 1.0),
            (now, &quantity::MEDIA_NUMBER, number as f64),
            (now, &quantity::MEDIA_DELAY, delay),
        ] {
            act(AppAction::record(at, quantity, value));
        }
    }
}
