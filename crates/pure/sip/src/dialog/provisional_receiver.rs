//! The caller's side of reliable provisional responses (RFC 3262): the peer of the sender in tests.

use super::RELIABLE;
use crate::header::RAck;
use crate::{Method, Name, Request, Response, Status};

/// The receiver of reliable provisional responses in one early dialog.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProvisionalReceiver {
    last: Option<u32>,
}

/// The kind of a provisional response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProvisionalKind {
    /// Needs no PRACK.
    Unreliable,
    /// Must be processed and acknowledged by a PRACK with this `RAck`.
    Reliable(RAck),
    /// The same response was acknowledged before: must be dropped.
    Repeated,
    /// An earlier response is missing. This response must be dropped: it will be retransmitted.
    TooEarly,
}

impl ProvisionalReceiver {
    /// Handles a provisional response to an INVITE in this dialog.
    pub fn handle_response(&mut self, response: &Response) -> ProvisionalKind {
        let headers = &response.headers;
        let needs = headers.has_token(&Name::Require, RELIABLE);
        let (Ok(Some(number)), Ok(Some(request))) = (headers.number(&Name::RSeq), headers.cseq()) else {
            return ProvisionalKind::Unreliable;
        };
        if !needs || response.status.is_final() || response.status == Status::TRYING {
            return ProvisionalKind::Unreliable;
        }
        match self.last {
            Some(last) if number <= last => ProvisionalKind::Repeated,
            // "its RSeq value is not one higher than the value of the sequence number, that response MUST NOT be acknowledged with
            // a PRACK, and MUST NOT be processed further by the UAC" (RFC 3262 section 4).
            Some(last) if number != last.wrapping_add(1) => ProvisionalKind::TooEarly,
            _ => {
                self.last = Some(number);
                ProvisionalKind::Reliable(RAck { response: number, request })
            }
        }
    }

    /// Adds `rack` to `request`, the next PRACK of the dialog.
    #[must_use]
    pub fn acknowledgement(mut request: Request, rack: &RAck) -> Request {
        debug_assert_eq!(request.method, Method::Prack);
        request.headers.push(Name::RAck, rack);
        request
    }
}
