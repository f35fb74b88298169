//! Refreshes of sessions by an answering machine (RFC 4028).

use netrig_core::{Duration, Instant};

use super::Destination;
use super::answering::{ALLOWED, AnsweringMachine};
use super::hop::RequestHop;
use super::incoming_call::IncomingCall;
use super::reply::allow;
use crate::dialog::{
    DialogId, LEAST_INTERVAL, RELIABLE, Refresher, SessionExpires, SessionTimer, TIMER, TimerEvent,
};
use crate::header::MAGIC_COOKIE;
use crate::sdp::SDP_TYPE;
use crate::transaction::ClientKey;
use crate::{Method, Name, Request, Response, Status};

/// Delay of a refresh that is impossible now, because another INVITE is in progress.
const RETRY_AFTER: Duration = Duration::from_secs(1);

impl AnsweringMachine {
    /// Handles the session timer of an answered call.
    pub(super) fn refresh_session(&mut self, now: Instant, id: &DialogId, call: &mut IncomingCall) {
        let is_free = call.is_talk() && !call.session.is_refreshing;
        let Some(timer) = &mut call.session.timer else { return };
        match timer.handle_timeout(now) {
            Some(TimerEvent::Expired) => call.hang_up = Some(now),
            Some(TimerEvent::Refresh) if is_free => self.refresh(now, id, call),
            Some(TimerEvent::Refresh) => timer.postpone(now, RETRY_AFTER),
            None => {}
        }
    }

    /// Refreshes the session by UPDATE if the caller supports it, else by an INVITE with the same session description.
    fn refresh(&mut self, now: Instant, id: &DialogId, call: &mut IncomingCall) {
        let Some(timer) = &mut call.session.timer else { return };
        let method = if call.session.takes_update { Method::Update } else { Method::Invite };
        let Ok(mut request) = call.dialog.request(method.clone()) else {
            timer.postpone(now, RETRY_AFTER);
            return;
        };
        request.headers.push(Name::SessionExpires, timer.expires());
        request.headers.push(Name::Supported, format!("{RELIABLE}, {TIMER}"));
        allow(&mut request.headers, &ALLOWED);
        if method == Method::Invite {
            request.headers.push(Name::ContentType, SDP_TYPE);
            request.body = call.description.to_string().into();
        }
        let Some(hop) = self.hop_within(request.clone()) else { return };
        if let Some(key) = self.transactions.send(now, hop) {
            call.session.is_refreshing = true;
            self.refreshes.insert(key, (id.clone(), request));
        }
    }

    /// A request within a dialog to its next hop: the first route, or the Request-URI.
    pub(super) fn hop_within(&mut self, request: Request) -> Option<RequestHop> {
        let route = request.headers.addresses(&Name::Route).ok().and_then(|routes| routes.into_iter().next());
        let next = route.map_or_else(|| request.uri.clone(), |route| route.uri);
        let to = next.as_sip().map(Destination::of_uri)?;
        let branch = format!("{MAGIC_COOKIE}{:016x}", self.random.bits());
        Some(RequestHop::new(&self.domain, request, to, &branch))
    }

    /// Handles a response to a refresh. A failure of the refresh is passed as a response (RFC 3261 section 8.1.3.1).
    pub(super) fn refreshed(&mut self, now: Instant, key: &ClientKey, response: &Response) {
        let Some((id, request)) = self.refreshes.get(key).cloned() else { return };
        let Some(mut call) = self.calls.remove(&id) else { return };
        self.apply_refresh_response(now, (&id, &mut call), &request, response);
        self.calls.insert(id.clone(), call);
        self.attend(now, &id);
    }

    fn apply_refresh_response(
        &mut self,
        now: Instant,
        (id, call): (&DialogId, &mut IncomingCall),
        request: &Request,
        response: &Response,
    ) {
        let status = response.status;
        if !status.is_final() {
            return;
        }
        let is_new = std::mem::take(&mut call.session.is_refreshing);
        if status.is_success() && request.method == Method::Invite {
            let acknowledgement = call.dialog.acknowledgement(request);
            if let Some(hop) = self.hop_within(acknowledgement) {
                self.transactions.send_directly(hop.request, hop.to);
            }
        }
        if !is_new {
            return;
        }
        if matches!(status, Status::REQUEST_TIMEOUT | Status::CALL_DOES_NOT_EXIST) {
            call.hang_up = Some(now);
            return;
        }
        call.dialog.handle_response(response);
        let headers = &response.headers;
        let least = headers.get(&Name::MinSe).and_then(|value| SessionExpires::read(value.as_bytes()));
        let Some(timer) = &mut call.session.timer else { return };
        match status.code() {
            200..300 => {
                let agreed = headers.get(&Name::SessionExpires);
                let agreed = agreed.and_then(|value| SessionExpires::read(value.as_bytes()));
                call.session.timer = agreed
                    .map(|own| SessionTimer::new(now, own.interval, own.refresher != Some(Refresher::Uas)));
            }
            422 if least.is_some_and(|least| least.interval > timer.interval()) => {
                timer.lengthen(least.map_or(LEAST_INTERVAL, |least| least.interval));
                self.refresh(now, id, call);
            }
            405 | 501 if request.method == Method::Update => {
                call.session.takes_update = false;
                self.refresh(now, id, call);
            }
            491 => {
                let pause = call.dialog.pause_after_glare(&mut self.random);
                timer.postpone(now, pause);
            }
            _ => call.hang_up = Some(now),
        }
    }
}
