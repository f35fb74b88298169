//! Calls through the server or to it, and requests within their dialogs.

use netrig_core::Duration;
use netrig_sip::{Message, Method, Name, Request, Response};

use super::super::dialog::TestDialog;
use super::super::messages::{AnsweredRequest, Forwarded, ensure_success, status};
use super::super::outcome::{PurposeOutcome, failure};
use super::super::target::{FIRST, SECOND, TestAgent};
use super::TestCase;

/// A call through a proxy.
#[derive(Clone, Debug)]
pub struct TestCall {
    /// The INVITE as sent and as it arrived.
    pub forwarded: Forwarded,
    /// The 2xx as received by the caller.
    pub response: Response,
    /// The first user agent's side.
    pub caller: TestDialog,
    /// The second user agent's side.
    pub callee: TestDialog,
    /// The ACK as sent.
    pub ack: Request,
    /// The ACK as it arrived.
    pub arrived_ack: Request,
}

impl TestCase<'_> {
    /// A call of the first user agent to the second through the server, answered and acknowledged. It ends with the case, or by
    /// [`hang_up`](Self::hang_up).
    ///
    /// # Errors
    /// If the call is not established.
    pub fn call(&mut self) -> PurposeOutcome<TestCall> {
        let request = self.request_to(SECOND, Method::Invite)?;

        self.call_with(&request)
    }

    /// [`call`](Self::call) with this INVITE.
    ///
    /// # Errors
    /// If the call is not established.
    pub fn call_with(&mut self, request: &Request) -> PurposeOutcome<TestCall> {
        let forwarded = self.forward(request, SECOND)?;
        let response = self.succeed(&forwarded, "the 200 of a call")?;

        let mut caller = TestDialog::of_caller(FIRST, &forwarded.sent, &response)?;
        let callee = TestDialog::of_callee(SECOND, &forwarded.arrived, &response)?;
        let ack = self.acknowledge(&mut caller)?;
        let arrived = self.arriving(SECOND, &Method::Ack, self.target.patience)?;
        let Some((arrived_ack, _)) = arrived else {
            return Err(failure!("the ACK of the 200 did not arrive at the callee"));
        };
        self.open.push(caller.clone());
        Ok(TestCall { forwarded, response, caller, callee, ack, arrived_ack })
    }

    /// A call of the first user agent to the server itself, for the role `uas`, answered and acknowledged.
    ///
    /// # Errors
    /// If the call is not established.
    pub fn call_server(&mut self) -> PurposeOutcome<(AnsweredRequest, TestDialog)> {
        let uri = self.callee_uri();
        let request = self.invite_request(uri)?;
        self.call_server_with(&request)
    }

    /// [`call_server`](Self::call_server) with this INVITE.
    ///
    /// # Errors
    /// If the call is not established.
    pub fn call_server_with(&mut self, request: &Request) -> PurposeOutcome<(AnsweredRequest, TestDialog)> {
        let answered = self.ask(request)?;
        ensure_success(&answered.response, "the INVITE")?;
        let mut dialog = TestDialog::of_caller(FIRST, &answered.request, &answered.response)?;
        self.acknowledge(&mut dialog)?;
        self.open.push(dialog.clone());
        Ok((answered, dialog))
    }

    /// Sends the ACK of a 2xx (RFC 3261 section 13.2.2.4), and returns it.
    ///
    /// # Errors
    /// If the server cannot be reached.
    pub fn acknowledge(&mut self, dialog: &mut TestDialog) -> PurposeOutcome<Request> {
        let ack = self.within(dialog, Method::Ack)?;
        self.send_bytes(dialog.agent, &Message::Request(ack.clone()).to_bytes())?;
        Ok(ack)
    }

    /// A request within a dialog, with the next CSeq number of the dialog. An ACK has the number of the INVITE.
    ///
    /// # Errors
    /// If the system refuses a socket.
    pub fn within(&mut self, dialog: &mut TestDialog, method: Method) -> PurposeOutcome<Request> {
        let via = self.via(dialog.agent)?;
        let contact = self.contact(dialog.agent)?;
        let mut request = dialog.request(method, via, contact);
        if dialog.has_credentials {
            self.authorize(dialog.agent, &mut request);
        }
        Ok(request)
    }

    /// Ends a call by a BYE, and returns the final response to the BYE. The case does not end the call again.
    ///
    /// # Errors
    /// If the BYE is not answered.
    pub fn hang_up(&mut self, dialog: &mut TestDialog) -> PurposeOutcome<AnsweredRequest> {
        self.is_over(dialog);
        let bye = self.within(dialog, Method::Bye)?;
        self.ask_of(dialog.agent, &bye)
    }

    /// Registers a dialog that the case has to end.
    pub fn open_dialog(&mut self, dialog: &TestDialog) {
        self.open.push(dialog.clone());
    }

    /// Marks a dialog as ended by the purpose, so that the case does not end it.
    pub fn is_over(&mut self, dialog: &TestDialog) {
        self.open.retain(|open| open.call_id != dialog.call_id);
    }

    /// The next request of the server within a dialog at a user agent. It is answered with 200, unless it is an ACK.
    ///
    /// # Errors
    /// If the case has too many messages.
    pub fn request_within(
        &mut self,
        dialog: &TestDialog,
        agent: TestAgent,
        within: Duration,
    ) -> PurposeOutcome<Option<Request>> {
        let arrived = self.wait(agent, within, |arrival| {
            let is_within = |request: &&Request| request.headers.get(&Name::CallId) == Some(&*dialog.call_id);
            let request = arrival.request().filter(is_within)?;
            Some((request.clone(), arrival.path))
        })?;
        let Some((request, path)) = arrived else { return Ok(None) };
        if request.method != Method::Ack {
            self.reply(agent, path, &request.response(status(200)))?;
        }
        Ok(Some(request))
    }
}
