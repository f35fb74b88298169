//! The client side of digest authentication for one user agent (RFC 3261 section 22).

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::{DigestChallenge, DigestCredentials, DigestSession, Quality, preferred};
use crate::header::AuthenticationInfo;
use crate::{Method, Name};

/// Most challenges of one request that are answered. A path has fewer realms, and the limit ends a loop of challenges.
const MOST_CHALLENGES: u8 = 8;

/// [`NonceCounts`] remembers at least this number of nonces, and at most twice as many.
const REMEMBERED: usize = 1 << 16;

/// Uses of each nonce by each account, over all servers and requests (RFC 7616 section 3.4: `nc`). A nonce that was not used
/// for a long time is forgotten.
#[derive(Clone, Debug, Default)]
pub struct NonceCounts {
    young: BTreeMap<u64, u32>,
    old: BTreeMap<u64, u32>,
}

impl NonceCounts {
    /// The nonce count of the next request of `account`, 1 for the first.
    pub fn next(&mut self, account: u32, realm: &str, nonce: &str) -> u32 {
        let mut hasher = DefaultHasher::new();
        (account, realm, nonce).hash(&mut hasher);
        let name = hasher.finish();
        if self.young.len() >= REMEMBERED && !self.young.contains_key(&name) {
            self.old = std::mem::take(&mut self.young);
        }
        let before = self.young.get(&name).or_else(|| self.old.get(&name)).copied().unwrap_or(0);
        let count = before.saturating_add(1);
        self.young.insert(name, count);
        count
    }
}

/// The digest authentication of one client, with a session for each realm.
#[derive(Clone, Debug, Default)]
pub struct DigestClient {
    realms: Vec<RealmSession>,
    /// Number of challenges of the present request that were answered.
    answered: u8,
}

/// The session with one realm.
#[derive(Clone, Debug)]
struct RealmSession {
    /// `Authorization` or `Proxy-Authorization`.
    field: Name,
    session: DigestSession,
    /// The credentials were accepted.
    is_accepted: bool,
    /// A stale nonce was replaced, and the new one has not been accepted yet.
    was_stale: bool,
    last: Option<DigestCredentials>,
}

/// A challenged request cannot be sent again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChallengeError {
    /// No challenge has a known scheme and algorithm.
    #[error("the response has no digest challenge that can be answered")]
    Unanswerable,
    /// The request had credentials for the realm already.
    #[error("the credentials for the realm `{0}` were refused")]
    Refused(String),
    /// The servers sent too many challenges.
    #[error("more than {MOST_CHALLENGES} challenges of one request")]
    TooMany,
}

/// The meaning of an `Authentication-Info`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerProof {
    /// The field has no wrong proof and no new nonce.
    Nothing,
    /// The next request uses a new nonce.
    NextNonce,
    /// `rspauth` is wrong: the server does not know the password.
    Wrong,
}

impl DigestClient {
    /// Handles the challenges of a 401 or 407 in their order, each with the name of its header field. If a realm has several,
    /// the topmost is used (RFC 8760 section 2.4). If credentials for a realm were sent before, a new challenge of this
    /// realm is answered only if the nonce was stale, or if the credentials had been accepted in the meantime.
    ///
    /// # Errors
    /// The request must not be sent again with the credentials of this user.
    pub fn challenged(
        &mut self,
        challenges: impl IntoIterator<Item = (Name, DigestChallenge)>,
        username: &str,
        password: &str,
    ) -> Result<(), ChallengeError> {
        let mut selected: Vec<(Name, DigestChallenge)> = Vec::new();
        for (name, challenge) in challenges {
            let field = match name {
                Name::ProxyAuthenticate => Name::ProxyAuthorization,
                _ => Name::Authorization,
            };
            if !selected.iter().any(|(own, other)| *own == field && other.realm == challenge.realm) {
                selected.push((field, challenge));
            }
        }
        if selected.is_empty() {
            return Err(ChallengeError::Unanswerable);
        }
        if self.answered >= MOST_CHALLENGES {
            return Err(ChallengeError::TooMany);
        }
        for known in &mut self.realms {
            let is_challenged =
                selected.iter().any(|(field, challenge)| known.is_of(field, &challenge.realm));
            if !is_challenged {
                known.accept();
            }
        }
        for (field, challenge) in selected {
            let known = self.realms.iter().position(|known| known.is_of(&field, &challenge.realm));
            let was_stale = match known.map(|at| &self.realms[at]) {
                Some(known) if !known.is_accepted && (known.was_stale || !challenge.stale) => {
                    return Err(ChallengeError::Refused(challenge.realm));
                }
                known => known.is_some_and(|known| !known.is_accepted),
            };
            let session = DigestSession::new(challenge, username, password);
            let fresh = RealmSession { field, session, is_accepted: false, was_stale, last: None };
            match known {
                Some(at) => self.realms[at] = fresh,
                None => self.realms.push(fresh),
            }
        }
        self.answered += 1;
        Ok(())
    }

    /// Handles a response other than a challenge and 100: the credentials were accepted. A final response ends the request.
    pub fn accepted(&mut self, is_final: bool) {
        if is_final {
            self.answered = 0;
        }
        self.realms.iter_mut().for_each(RealmSession::accept);
    }

    /// Handles the `Authentication-Info` of the response to the last request. `body` is the body of the response.
    pub fn informed(&mut self, info: &AuthenticationInfo, body: &[u8]) -> ServerProof {
        let AuthenticationInfo(parameters) = info;
        let mut own = self.realms.iter_mut().filter(|known| known.field == Name::Authorization);
        let found = match parameters.text("rspauth") {
            Some(proof) => own.find(|known| known.is_proof(&proof, body)).ok_or(ServerProof::Wrong),
            None => own.next().ok_or(ServerProof::Nothing),
        };
        match (found, parameters.text("nextnonce")) {
            (Err(why), _) => why,
            (Ok(_), None) => ServerProof::Nothing,
            (Ok(known), Some(nonce)) => {
                known.session.challenge.nonce = nonce;
                known.session.cnonce = None;
                ServerProof::NextNonce
            }
        }
    }

    /// Whether the credentials depend on the body of the request, because a server offers only `auth-int`.
    pub fn needs_body(&self) -> bool {
        let quality = |known: &RealmSession| preferred(&known.session.challenge.qualities);
        self.realms.iter().any(|known| quality(known) == Some(Quality::AuthInt))
    }

    /// The credentials for a new request, with the names of their header fields. `account` is the user's number in `counts`.
    /// `cnonce` is a random text, new for each request.
    pub fn answers<'a>(
        &'a mut self,
        method: &'a Method,
        uri: &'a str,
        body: &'a [u8],
        cnonce: &'a str,
        (account, counts): (u32, &'a mut NonceCounts),
    ) -> impl Iterator<Item = (&'a Name, DigestCredentials)> {
        self.realms.iter_mut().map(move |known| {
            let DigestChallenge { realm, nonce, .. } = &known.session.challenge;
            let count = counts.next(account, realm, nonce);
            let answer = known.session.answer_counted(method, uri, body, cnonce, count);
            known.last = Some(answer.clone());
            (&known.field, answer)
        })
    }
}

impl RealmSession {
    fn is_of(&self, field: &Name, realm: &str) -> bool {
        self.field == *field && self.session.challenge.realm == realm
    }

    fn accept(&mut self) {
        (self.is_accepted, self.was_stale) = (true, false);
    }

    /// Whether the server's proof for the last request is right (RFC 7616 section 3.5).
    fn is_proof(&self, proof: &str, body: &[u8]) -> bool {
        let expected = |last: &DigestCredentials| last.proof("", body, &self.session.secret);
        self.last.as_ref().is_some_and(|last| expected(last).eq_ignore_ascii_case(proof))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Headers;
    use crate::digest::{DigestError, Hash, Secret};

    fn challenge(text: &str) -> Result<DigestChallenge, DigestError> {
        let mut headers = Headers::default();
        headers.push(Name::WwwAuthenticate, text);
        DigestChallenge::read(&headers.challenges(&Name::WwwAuthenticate).unwrap()[0])
    }

    /// The credentials of the second request with one nonce.
    fn second(text: &str) -> DigestCredentials {
        let (mut client, mut counts) = (DigestClient::default(), NonceCounts::default());
        let challenge = challenge(text).unwrap();
        client.challenged([(Name::WwwAuthenticate, challenge)], "bob", "zan:zi").unwrap();
        let mut ask = || {
            let request = (&Method::Invite, "sip:carol@chicago.com", b"v=0\r\n");
            let answers = client.answers(request.0, request.1, request.2, "c1", (7, &mut counts));
            answers.map(|(_, answer)| answer).next().unwrap()
        };
        ask();
        ask()
    }

    /// The values are from Python's hashlib, by the formula of RFC 7616 section 3.4.1 (RFC 2069 without `qop`):
    /// `H(A1:n/0=:00000002:c1:qop:H(INVITE:sip:carol@chicago.com[:H(v=0 CR LF)]))`, A1 being `H(bob:biloxi "x":zan:zi)`, and with
    /// `-sess` `H(H(bob:biloxi "x":zan:zi):n/0=:c1)`.
    #[test]
    fn every_form_of_a_challenge_is_answered() {
        for (algorithm, qop, response) in [
            ("MD5", "", "d7f2bc6ce8943a36d358e8fc05da4cd5"),
            ("MD5", "auth", "36a8e533f3ac154529a36cb485d62742"),
            ("MD5", "auth-int", "f787ec1fb788f03f332d62293f7062d3"),
            ("MD5-sess", "auth", "30d5ca5cd964839a47452bfec9365fb3"),
            ("MD5-sess", "auth-int", "9df12f5886b240803b70c2460046902f"),
            ("SHA-256", "", "251f133c270d488a678ff2b883c285f2c140264c6982e79de025f83586310ba9"),
            ("SHA-256", "auth", "0d2ef00841f2f475f4796c593837c87fa26a9858d91fa984c4b365c3b9e36f6f"),
            ("SHA-256", "auth-int", "b9ae1225d220d643469f4acdbd69cdec81cb915ca3fc5c28b4d3dec23ac175f0"),
            ("SHA-256-sess", "auth", "cf1781fd8465d773e573953a1f97873109306d49a3b2e661e1e776626a19b475"),
            ("SHA-256-sess", "auth-int", "bc6f39383bef2245169e3fb724c1524ba0a4d0edd907545db695a45d5915f4af"),
            ("SHA-512-256", "", "f39f4a757584ff38e71a2a129cbd3437d30c252a05c033e5ef277752fbc747bc"),
            ("SHA-512-256", "auth", "3854ede0ab34a45075e15f4b5402caaf376b39a1d467ccc13eb6b9cc32585910"),
            ("SHA-512-256", "auth-int", "6c39157cb3144ddd2ea7928eb5a43b320c00e1b16c135784e6ec2c68f45cc5d0"),
            ("SHA-512-256-sess", "auth", "e1c2d5fffc8eb6e7de0715a290b139f7b9d5c7560e16a2579b1a3d9a2e65fa5c"),
            (
                "SHA-512-256-sess",
                "auth-int",
                "6ff64eb789aeebae49767e9fd2e608fcbf24a3cbfb9ac8705b2bc4debf11fdc9",
            ),
        ] {
            let offered = if qop.is_empty() { String::new() } else { format!(", qop=\"{qop},unknown\"") };
            let text =
                format!("digest Realm=\"biloxi \\\"x\\\"\", nonce=\"n/0=\", algorithm={algorithm}{offered}");
            let answer = second(&text);
            assert_eq!(answer.response, response, "{text}");
            let written = answer.write().to_string();
            assert!(written.contains("realm=\"biloxi \\\"x\\\"\""), "{written}");
            assert_eq!(written.contains("nc=00000002"), !qop.is_empty(), "{written}");
        }
        // Without `algorithm` it is MD5. If both values of `qop` are offered, `auth` is used.
        for (text, response) in [
            ("qop=\"auth-int, auth\"", "36a8e533f3ac154529a36cb485d62742"),
            ("qop=auth-int", "f787ec1fb788f03f332d62293f7062d3"),
        ] {
            let text = format!("Digest realm=\"biloxi \\\"x\\\"\",nonce=\"n/0=\",{text}");
            assert_eq!(second(&text).response, response, "{text}");
        }
        assert!(challenge("Digest realm=\"r\", nonce=\"n\", algorithm=SHA-999").is_err());
    }

    fn of(text: &str) -> (Name, DigestChallenge) {
        (Name::WwwAuthenticate, challenge(&format!("Digest {text}, qop=\"auth\"")).unwrap())
    }

    #[test]
    fn a_nonce_that_is_too_old_is_replaced_once_and_a_refused_password_is_not_sent_again() {
        let mut client = DigestClient::default();
        let mut ask = |text: &str| client.challenged([of(text)], "bob", "zanzibar");
        let refused = Err(ChallengeError::Refused("r".into()));
        assert_eq!(ask("realm=\"r\", nonce=\"1\""), Ok(()));
        assert_eq!(ask("realm=\"r\", nonce=\"2\", stale=\"TRUE\""), Ok(()));
        assert_eq!(ask("realm=\"r\", nonce=\"3\", stale=true"), refused);
        client.accepted(true);
        let mut ask = |text: &str| client.challenged([of(text)], "bob", "zanzibar");
        assert_eq!(ask("realm=\"r\", nonce=\"4\", stale=false"), Ok(()));
        assert_eq!(ask("realm=\"r\", nonce=\"5\""), refused);
        assert_eq!(client.challenged([], "bob", "zanzibar"), Err(ChallengeError::Unanswerable));
    }

    /// The topmost challenge of a realm is used (RFC 8760 section 2.4), and too many challenges are an error.
    #[test]
    fn one_challenge_of_each_realm_is_answered() {
        let mut client = DigestClient::default();
        let two = ["SHA-256", "MD5"].map(|name| of(&format!("realm=\"r\", nonce=\"1\", algorithm={name}")));
        client.challenged(two, "bob", "zanzibar").unwrap();
        let mut counts = NonceCounts::default();
        let answers: Vec<_> = client.answers(&Method::Options, "sip:a", b"", "c", (0, &mut counts)).collect();
        assert_eq!(
            answers.iter().map(|(_, answer)| answer.algorithm.name()).collect::<Vec<_>>(),
            ["SHA-256"]
        );
        let mut results = (0..9).map(|realm| {
            client.challenged([of(&format!("realm=\"{realm}\", nonce=\"1\""))], "bob", "zanzibar")
        });
        assert_eq!(results.find(Result::is_err), Some(Err(ChallengeError::TooMany)));
    }

    /// The values are from Python's hashlib: `H(H(bob:r:secret):n:00000001:c:qop:H(:sip:biloxi.com[:H(hello)]))`.
    #[test]
    fn a_server_proves_that_it_knows_the_password() {
        for (qop, proof) in
            [("auth", "706fcf5503c9f329a77c6c80fec01dfd"), ("auth-int", "7d4c3f52daa0c69d3c0e03f23e8a5900")]
        {
            let (mut client, mut counts) = (DigestClient::default(), NonceCounts::default());
            let selected = challenge(&format!("Digest realm=\"r\", nonce=\"n\", qop=\"{qop}\"")).unwrap();
            client.challenged([(Name::WwwAuthenticate, selected)], "bob", "secret").unwrap();
            let mut ask = |client: &mut DigestClient| {
                let answers = client.answers(&Method::Register, "sip:biloxi.com", b"", "c", (0, &mut counts));
                answers.map(|(_, answer)| answer).next().unwrap()
            };
            ask(&mut client);
            client.accepted(true);
            let inform = |client: &mut DigestClient, text: &str| {
                let mut headers = Headers::default();
                headers.push(Name::AuthenticationInfo, text);
                client.informed(&headers.authentication_info().unwrap().unwrap(), b"hello")
            };
            assert_eq!(inform(&mut client, &format!("rspauth=\"{proof}\", qop={qop}")), ServerProof::Nothing);
            assert_eq!(inform(&mut client, "rspauth=\"0\", nextnonce=\"m\""), ServerProof::Wrong);
            assert_eq!(
                inform(&mut client, &format!("nextnonce=\"m\", rspauth=\"{proof}\"")),
                ServerProof::NextNonce
            );
            let next = ask(&mut client);
            assert_eq!((next.nonce.as_str(), next.protection.as_ref().map(|own| own.count)), ("m", Some(1)));
            assert!(next.proves(&Method::Register, b"", &Secret::new(Hash::Md5, "bob", "r", "secret")));
        }
    }

    #[test]
    fn a_nonce_is_counted_for_each_account_and_forgotten_only_after_many_others() {
        let mut counts = NonceCounts::default();
        assert_eq!([1, 1, 2].map(|account| counts.next(account, "r", "n")), [1, 2, 1]);
        for other in 0..REMEMBERED {
            counts.next(3, "r", &other.to_string());
        }
        assert_eq!(counts.next(1, "r", "n"), 3);
        for other in 0..3 * REMEMBERED {
            counts.next(4, "r", &other.to_string());
        }
        assert_eq!(counts.next(1, "r", "n"), 1);
    }
}
