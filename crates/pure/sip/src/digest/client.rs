//! The client side of digest authentication for one user agent (RFC 3261 section 22).

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::{DigestChallenge, DigestCredentials, DigestSession, Quality, preferred};
use crate::header::AuthenticationInfo;
use crate::{Method, Name};

/// So many challenges of one request are answered: more than servers on its way can have realms, and few enough for it to
/// end.
const MOST_CHALLENGES: u8 = 8;

/// [`NonceCounts`] remembers at least so many nonces, and at most twice as many.
const REMEMBERED: usize = 1 << 16;

/// How often each nonce was used by each account, whichever server, response or request has brought it (RFC 7616 section
/// 3.4: `nc`). A nonce that was not used for a long time is forgotten.
#[derive(Clone, Debug, Default)]
pub struct NonceCounts {
    young: BTreeMap<u64, u32>,
    old: BTreeMap<u64, u32>,
}

impl NonceCounts {
    /// The count of the next request of `account` with this nonce, 1 for the first.
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

/// Answers the challenges of servers and proxies, each realm for itself.
#[derive(Clone, Debug, Default)]
pub struct DigestClient {
    realms: Vec<RealmSession>,
    /// Challenges that were answered of the present request.
    answered: u8,
}

/// What is known of one realm.
#[derive(Clone, Debug)]
struct RealmSession {
    /// `Authorization` or `Proxy-Authorization`.
    field: Name,
    session: DigestSession,
    /// The credentials were accepted.
    is_accepted: bool,
    /// The nonce was replaced because it was too old, and the new one has not been accepted.
    was_stale: bool,
    last: Option<DigestCredentials>,
}

/// Why a request that was challenged is not sent again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChallengeError {
    /// No challenge has a scheme and an algorithm that are known here.
    #[error("the response has no digest challenge that can be answered")]
    Unanswerable,
    /// The request had credentials for the realm.
    #[error("the credentials for the realm `{0}` were refused")]
    Refused(String),
    /// The servers go on asking.
    #[error("more than {MOST_CHALLENGES} challenges of one request")]
    TooMany,
}

/// What `Authentication-Info` has said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerProof {
    /// Nothing that is wrong, or of use.
    Nothing,
    /// The next request is to use another nonce.
    NextNonce,
    /// `rspauth` is not that of a server that knows the password.
    Wrong,
}

impl DigestClient {
    /// Takes the challenges of a 401 or 407 in their order, each with the name of its header field. Of several for one realm
    /// the topmost counts (RFC 8760 section 2.4). A realm that asks again after credentials for it were sent is answered only
    /// if the nonce was too old, or if the credentials had been accepted in the meantime.
    ///
    /// # Errors
    /// The request is not to be sent again with the credentials of this user.
    pub fn challenged(
        &mut self,
        challenges: impl IntoIterator<Item = (Name, DigestChallenge)>,
        username: &str,
        password: &str,
    ) -> Result<(), ChallengeError> {
        let mut asked: Vec<(Name, DigestChallenge)> = Vec::new();
        for (name, challenge) in challenges {
            let field = match name {
                Name::ProxyAuthenticate => Name::ProxyAuthorization,
                _ => Name::Authorization,
            };
            if !asked.iter().any(|(own, other)| *own == field && other.realm == challenge.realm) {
                asked.push((field, challenge));
            }
        }
        if asked.is_empty() {
            return Err(ChallengeError::Unanswerable);
        }
        if self.answered >= MOST_CHALLENGES {
            return Err(ChallengeError::TooMany);
        }
        for known in &mut self.realms {
            let is_asked = asked.iter().any(|(field, challenge)| known.is_of(field, &challenge.realm));
            if !is_asked {
                known.accept();
            }
        }
        for (field, challenge) in asked {
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

    /// A response other than a challenge and 100 has come: the credentials were accepted. A final one ends the request.
    pub fn accepted(&mut self, is_final: bool) {
        if is_final {
            self.answered = 0;
        }
        self.realms.iter_mut().for_each(RealmSession::accept);
    }

    /// Takes the `Authentication-Info` of a response to the last request, which has this body.
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

    /// Whether the credentials depend on the body of the request: a server offers `auth-int` alone.
    pub fn needs_body(&self) -> bool {
        let quality = |known: &RealmSession| preferred(&known.session.challenge.qualities);
        self.realms.iter().any(|known| quality(known) == Some(Quality::AuthInt))
    }

    /// The credentials for a request that is sent for the first time, with their header fields. `account` is the user's
    /// number in `counts`, and `cnonce` is to be drawn at random for each request.
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

    /// Whether a server that knows the password has answered the last request so (RFC 7616 section 3.5).
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

    /// What `DigestClient` answers to the second request that it is asked for, after one that has used the same nonce.
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

    /// The values are those of Python's hashlib, of the formula of RFC 7616 section 3.4.1 (RFC 2069 without `qop`):
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
        // Without a name it is MD5, and `auth` is enough where both are offered.
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

    /// The topmost challenge of a realm counts (RFC 8760 section 2.4), and servers that go on asking are given up.
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

    /// The values are those of Python's hashlib: `H(H(bob:r:secret):n:00000001:c:qop:H(:sip:biloxi.com[:H(hello)]))`.
    #[test]
    fn a_server_proves_that_it_knows_the_password() {
        for (qop, proof) in
            [("auth", "706fcf5503c9f329a77c6c80fec01dfd"), ("auth-int", "7d4c3f52daa0c69d3c0e03f23e8a5900")]
        {
            let (mut client, mut counts) = (DigestClient::default(), NonceCounts::default());
            let asked = challenge(&format!("Digest realm=\"r\", nonce=\"n\", qop=\"{qop}\"")).unwrap();
            client.challenged([(Name::WwwAuthenticate, asked)], "bob", "secret").unwrap();
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
