//! The credentials of an attempt, as header fields of its requests.

use super::scan::{Field, Scan};
use super::text::put_unfolded;
use crate::digest::{ChallengeError, DigestChallenge, DigestClient, NonceCounts, ServerProof};
use crate::grammar::Cursor;
use crate::record::Failure;
use crate::{Method, Name, header};

/// Whether the response is a challenge.
pub(super) const fn is_challenge(status: u16) -> bool {
    matches!(status, 401 | 407)
}

/// The failure of an attempt whose request is not sent again after a response with this status.
pub(super) fn failure_of(status: u16, proof: Option<&Proof>) -> Failure {
    if is_challenge(status) {
        proof.and_then(|proof| proof.unanswered).unwrap_or(Failure::Authentication)
    } else {
        Failure::Status(status)
    }
}

impl From<ChallengeError> for Failure {
    fn from(error: ChallengeError) -> Self {
        match error {
            ChallengeError::Refused(_) => Self::Authentication,
            ChallengeError::Unanswerable => Self::Unanswerable,
            ChallengeError::TooMany => Self::TooManyChallenges,
        }
    }
}

/// Credentials of an attempt for the servers that have challenged it.
#[derive(Clone, Debug, Default)]
pub(super) struct Proof {
    client: DigestClient,
    /// Why the last challenge cannot be answered.
    unanswered: Option<Failure>,
    /// `CSeq` of the request with the last credentials.
    number: u32,
    /// Whether the server has given a nonce for the next request.
    goes_on: bool,
    /// Credentials of the last request, as whole lines.
    pub(super) lines: Box<[u8]>,
    /// Credentials of the last PRACK, which may be pending together with the INVITE.
    pub(super) acknowledging: Box<[u8]>,
}

impl Proof {
    /// Takes the challenges of a response. Returns whether the request may be sent again.
    pub(super) fn challenged(
        proof: &mut Option<Box<Self>>,
        scan: &Scan<'_>,
        name: &[u8],
        password: &[u8],
    ) -> bool {
        let fields = [
            (Field::WwwAuthenticate, Name::WwwAuthenticate),
            (Field::ProxyAuthenticate, Name::ProxyAuthenticate),
        ];
        let challenges = fields.into_iter().flat_map(|(field, name)| {
            scan.all(field).filter_map(challenge).map(move |found| (name.clone(), found))
        });
        let [name, password] = [name, password].map(String::from_utf8_lossy);
        let proof = proof.get_or_insert_default();
        let answered = proof.client.challenged(challenges, &name, &password);
        proof.unanswered = answered.err().map(Failure::from);
        proof.unanswered.is_none()
    }

    /// Takes a response other than a challenge to the request with this number.
    ///
    /// # Errors
    /// The broken rule, if the server does not know the password or `Authentication-Info` cannot be read.
    pub(super) fn accepted(&mut self, scan: &Scan<'_>, number: u32) -> Result<(), &'static str> {
        self.client.accepted(scan.status().is_some_and(|status| status >= 200));
        let Some(value) = scan.all(Field::AuthenticationInfo).next().filter(|_| number == self.number) else {
            return Ok(());
        };
        let rule = "RFC 3261 section 20.6";
        let line = unfolded(value).ok_or(rule)?;
        let info = header::AuthenticationInfo::read(&mut Cursor::new(&line, rule)).map_err(|_| rule)?;
        match self.client.informed(&info, scan.body) {
            ServerProof::Wrong => Err("RFC 7616 section 3.5"),
            ServerProof::NextNonce => {
                self.goes_on = true;
                Ok(())
            }
            ServerProof::Nothing => Ok(()),
        }
    }

    /// Whether the server has given a nonce for the next request.
    pub(super) const fn goes_on(&self) -> bool {
        self.goes_on
    }

    /// Whether the credentials depend on the body of the request.
    pub(super) fn needs_body(&self) -> bool {
        self.client.needs_body()
    }

    /// Computes the credentials of a request and counts the use of each nonce. `cnonce` must be unique.
    pub(super) fn lines_of(
        &mut self,
        (method, number): (&Method, u32),
        uri: &[u8],
        body: &[u8],
        cnonce: &[u8],
        (account, nonces): (u32, &mut NonceCounts),
    ) -> Box<[u8]> {
        self.number = number;
        self.goes_on = false;
        let [uri, cnonce] = [uri, cnonce].map(String::from_utf8_lossy);
        let answers = self.client.answers(method, &uri, body, &cnonce, (account, nonces));
        let lines = answers.map(|(name, answer)| format!("{name}: {}\r\n", answer.write()));
        lines.collect::<String>().into_bytes().into()
    }
}

/// A challenge of a response, if it can be answered.
fn challenge(value: &[u8]) -> Option<DigestChallenge> {
    DigestChallenge::of_value(&unfolded(value)?)
}

/// A value of a header field without line ends.
fn unfolded(value: &[u8]) -> Option<String> {
    let mut line = Vec::with_capacity(value.len());
    put_unfolded(value, &mut line);
    String::from_utf8(line).ok()
}
