//! The recipient of a datagram.

use super::scan::{Scan, Start};
use crate::record::{Owner, Token};

/// The machine of a shard that handles a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recipient {
    /// A response. The owner of the token selects [`Caller::handle_response`](super::Caller::handle_response),
    /// [`Callee::handle_response`](super::Callee::handle_response) or
    /// [`Registrant::handle_response`](super::Registrant::handle_response), which take the token and the number of
    /// the transaction.
    Response(Token, u16),
    /// A request within a dialog of a caller: [`Caller::handle_request`](super::Caller::handle_request) takes the
    /// token.
    Caller(Token),
    /// Any other request: [`Callee::handle_request`](super::Callee::handle_request).
    Callee,
}

impl Recipient {
    /// The recipient of a datagram that a shard of this run has received. `None` for another run or shard, and for a
    /// datagram that is no message.
    pub fn of(scan: &Scan<'_>, run: u32, shard: u16) -> Option<Self> {
        let is_own = |token: &Token| (token.run, token.shard) == (run, shard);
        match scan.start? {
            Start::Status(_) => {
                let (token, transaction) = Token::read_branch(scan.branch?)?;
                is_own(&token).then_some(Self::Response(token, transaction))
            }
            Start::Request { .. } => match scan.to_tag.and_then(Token::read).filter(is_own) {
                Some(token) if matches!(token.owner, Owner::Caller(_)) => Some(Self::Caller(token)),
                _ => Some(Self::Callee),
            },
        }
    }
}
