//! Digest access authentication (RFC 7616, and RFC 2617 for servers without `qop`; RFC 8760 for its use in SIP).
//!
//! A client answers a [`DigestChallenge`] with a [`DigestSession`], which counts the uses of the server's nonce. A server reads
//! [`DigestCredentials`] and checks them with [`DigestCredentials::proves`] and the [`Secret`] of the user.

use std::fmt;

use md5::Md5;
use netrig_core::named;
use netrig_core::text::hex;
use sha2::{Digest as _, Sha256, Sha512_256};

use crate::Method;
use crate::grammar::Cursor;
use crate::header::{self, AuthScheme};

mod client;

pub use client::{ChallengeError, DigestClient, NonceCounts, ServerProof};

/// A hash function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hash {
    /// MD5, which every server supports (RFC 3261 section 22.4).
    Md5,
    /// SHA-256 (RFC 8760).
    Sha256,
    /// SHA-512/256 (RFC 8760).
    Sha512Of256,
}

/// `algorithm`: a hash function, and whether the user's secret is bound to the first nonces of the session (`-sess`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Algorithm {
    /// The hash function.
    pub hash: Hash,
    /// `-sess`.
    pub session: bool,
}

named! {
    /// `qop`, the quality of protection.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Quality {
        /// `auth`: protects the method and the URI.
        Auth = "auth",
        /// `auth-int`: protects the body too.
        AuthInt = "auth-int",
    }
}

/// A challenge of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DigestChallenge {
    /// The realm of the password.
    pub realm: String,
    /// The server's nonce, which the credentials contain.
    pub nonce: String,
    /// A value that the credentials repeat.
    pub opaque: Option<String>,
    /// The algorithm; MD5 if the server names none.
    pub algorithm: Algorithm,
    /// The values of `qop` that the server offers; empty for RFC 2069.
    pub qualities: Vec<Quality>,
    /// The password was right, but the nonce was too old.
    pub stale: bool,
    /// The server accepts a hash of name and realm as the user name, which hides the name (RFC 7616 section 3.4.4).
    pub userhash: bool,
}

/// The credentials that a client sends for a challenge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DigestCredentials {
    /// The user name; with `userhash` the hash of name and realm.
    pub username: String,
    /// Realm of the challenge.
    pub realm: String,
    /// Nonce of the challenge.
    pub nonce: String,
    /// The Request-URI as the client sent it.
    pub uri: String,
    /// The proof, hexadecimal digits.
    pub response: String,
    /// Algorithm of the challenge.
    pub algorithm: Algorithm,
    /// `opaque` of the challenge.
    pub opaque: Option<String>,
    /// The parameters of `qop`, if the server offers it.
    pub protection: Option<Protection>,
    /// `username` is a hash (RFC 7616 section 3.4.4).
    pub userhash: bool,
}

/// The parameters of credentials with `qop`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Protection {
    /// The quality of protection.
    pub quality: Quality,
    /// The client's nonce.
    pub cnonce: String,
    /// Number of requests with the server's nonce, from 1.
    pub count: u32,
}

/// A header field has no valid challenge or credentials of digest authentication.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DigestError {
    /// The scheme is not `Digest`.
    #[error("the scheme is `{0}`, not `Digest`")]
    Scheme(String),
    /// A required parameter is missing.
    #[error("there is no `{0}` (RFC 7616 section 3.3 and 3.4)")]
    Missing(&'static str),
    /// The value of a parameter is unknown.
    #[error("`{value}` is not a known `{parameter}`")]
    Unknown {
        /// Name of the parameter.
        parameter: &'static str,
        /// Value of the parameter.
        value: String,
    },
}

impl Hash {
    fn hex(self, parts: &[&str]) -> String {
        self.hex_of(parts.join(":").as_bytes())
    }

    fn hex_of(self, bytes: &[u8]) -> String {
        match self {
            Self::Md5 => hex(&Md5::digest(bytes)),
            Self::Sha256 => hex(&Sha256::digest(bytes)),
            Self::Sha512Of256 => hex(&Sha512_256::digest(bytes)),
        }
    }
}

impl Algorithm {
    /// MD5, the algorithm of RFC 3261.
    pub const MD5: Self = Self { hash: Hash::Md5, session: false };
    /// SHA-256 (RFC 8760).
    pub const SHA_256: Self = Self { hash: Hash::Sha256, session: false };

    const ALL: [(&'static str, Self); 6] = [
        ("MD5", Self::MD5),
        ("MD5-sess", Self { hash: Hash::Md5, session: true }),
        ("SHA-256", Self::SHA_256),
        ("SHA-256-sess", Self { hash: Hash::Sha256, session: true }),
        ("SHA-512-256", Self { hash: Hash::Sha512Of256, session: false }),
        ("SHA-512-256-sess", Self { hash: Hash::Sha512Of256, session: true }),
    ];

    /// The value of `algorithm`.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, known)| *known == self).map_or("MD5", |(name, _)| name)
    }

    /// "If this is not present, it is assumed to be "MD5"." (RFC 7616 section 3.3)
    fn of(scheme: &AuthScheme) -> Result<Self, DigestError> {
        let Some(value) = scheme.parameters.text("algorithm") else { return Ok(Self::MD5) };
        let known = Self::ALL.iter().find(|(name, _)| name.eq_ignore_ascii_case(&value));
        known.map(|(_, known)| *known).ok_or(DigestError::Unknown { parameter: "algorithm", value })
    }
}

impl Quality {
    fn known(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.name().eq_ignore_ascii_case(text))
    }
}

fn digest(scheme: &AuthScheme) -> Result<&AuthScheme, DigestError> {
    if scheme.name.eq_ignore_ascii_case("Digest") {
        Ok(scheme)
    } else {
        Err(DigestError::Scheme(scheme.name.clone()))
    }
}

fn needed(scheme: &AuthScheme, name: &'static str) -> Result<String, DigestError> {
    scheme.parameters.text(name).ok_or(DigestError::Missing(name))
}

fn is_true(scheme: &AuthScheme, name: &str) -> bool {
    scheme.parameters.text(name).is_some_and(|value| value.eq_ignore_ascii_case("true"))
}

impl DigestChallenge {
    /// Reads a header field.
    ///
    /// # Errors
    /// The scheme is not `Digest`, the realm or the nonce is missing, or the algorithm is unknown.
    pub fn read(challenge: &header::Challenge) -> Result<Self, DigestError> {
        let scheme = digest(&challenge.0)?;
        let qop = scheme.parameters.text("qop").unwrap_or_default();
        Ok(Self {
            realm: needed(scheme, "realm")?,
            nonce: needed(scheme, "nonce")?,
            opaque: scheme.parameters.text("opaque"),
            algorithm: Algorithm::of(scheme)?,
            // "unrecognized options MUST be ignored" (RFC 7616 section 3.3)
            qualities: qop.split(',').filter_map(|option| Quality::known(option.trim())).collect(),
            stale: is_true(scheme, "stale"),
            userhash: is_true(scheme, "userhash"),
        })
    }

    /// Reads the value of a `WWW-Authenticate` or `Proxy-Authenticate`, one challenge (RFC 3261 section 7.3.1). Returns `None` if
    /// it cannot be answered.
    pub fn of_value(value: &str) -> Option<Self> {
        let mut cursor = Cursor::new(value, "RFC 3261 section 20.44");
        Self::read(&header::Challenge::read(&mut cursor).ok()?).ok()
    }

    /// The challenge as a header field.
    pub fn write(&self) -> header::Challenge {
        let mut scheme = AuthScheme::new("Digest");
        let parameters = &mut scheme.parameters;
        parameters.set_quoted("realm", &self.realm);
        parameters.set_quoted("nonce", &self.nonce);
        if let Some(opaque) = &self.opaque {
            parameters.set_quoted("opaque", opaque);
        }
        if self.stale {
            parameters.set("stale", Some("TRUE"));
        }
        if self.userhash {
            parameters.set("userhash", Some("true"));
        }
        parameters.set("algorithm", Some(self.algorithm.name()));
        if !self.qualities.is_empty() {
            let names: Vec<&str> = self.qualities.iter().map(|quality| quality.name()).collect();
            parameters.set_quoted("qop", &names.join(","));
        }
        header::Challenge(scheme)
    }
}

/// The secret of a user: the hash of name, realm and password, in hexadecimal digits (RFC 7616 section 3.4.2).
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    hash: Hash,
    digits: String,
}

/// Hides the digits.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret").field("hash", &self.hash).finish_non_exhaustive()
    }
}

impl Secret {
    /// The secret of a password.
    pub fn new(hash: Hash, username: &str, realm: &str, password: &str) -> Self {
        Self { hash, digits: hash.hex(&[username, realm, password]) }
    }

    /// `H(A1)`.
    fn first(&self, algorithm: Algorithm, nonce: &str, cnonce: &str) -> String {
        if algorithm.session { self.hash.hex(&[&self.digits, nonce, cnonce]) } else { self.digits.clone() }
    }
}

/// A client's session with one challenge.
#[derive(Clone, Debug)]
pub struct DigestSession {
    challenge: DigestChallenge,
    username: String,
    secret: Secret,
    used: u32,
    /// The client's first nonce.
    cnonce: Option<String>,
}

impl DigestSession {
    /// A session that answers `challenge` with a password.
    pub fn new(challenge: DigestChallenge, username: &str, password: &str) -> Self {
        let hash = challenge.algorithm.hash;
        let secret = Secret::new(hash, username, &challenge.realm, password);
        // The proof contains the name itself (RFC 7616 section 3.4.2).
        let username = match challenge.userhash {
            true => hash.hex(&[username, &challenge.realm]),
            false => username.to_owned(),
        };
        Self { challenge, username, secret, used: 0, cnonce: None }
    }

    /// The credentials for one more request with the server's nonce. `cnonce` is a random text. `auth-int` is used only if the
    /// server offers nothing else. With a `-sess` algorithm the first `cnonce` is used for all requests: "A1 is calculated only
    /// once - on the first request by the client" (RFC 2617 section 3.2.2.2), and servers differ in the `cnonce` that they use.
    pub fn answer(&mut self, method: &Method, uri: &str, body: &[u8], cnonce: &str) -> DigestCredentials {
        let count = self.used.saturating_add(1);
        self.answer_counted(method, uri, body, cnonce, count)
    }

    /// As [`DigestSession::answer`], with a nonce count that the caller keeps, 1 for the first request with the nonce.
    fn answer_counted(
        &mut self,
        method: &Method,
        uri: &str,
        body: &[u8],
        cnonce: &str,
        count: u32,
    ) -> DigestCredentials {
        self.used = count;
        let first = self.cnonce.get_or_insert_with(|| cnonce.to_owned());
        let cnonce = if self.challenge.algorithm.session { first.as_str() } else { cnonce };
        let DigestChallenge { realm, nonce, opaque, algorithm, qualities, userhash, .. } = &self.challenge;
        let quality = preferred(qualities);
        let protection =
            quality.map(|quality| Protection { quality, cnonce: cnonce.to_owned(), count: self.used });
        let mut answer = DigestCredentials {
            username: self.username.clone(),
            realm: realm.clone(),
            nonce: nonce.clone(),
            uri: uri.to_owned(),
            response: String::new(),
            algorithm: *algorithm,
            opaque: opaque.clone(),
            protection,
            userhash: *userhash,
        };
        answer.response = answer.proof(method.as_str(), body, &self.secret);
        answer
    }
}

/// The value of `qop` to use: `auth-int` only if the server offers nothing else.
fn preferred(offered: &[Quality]) -> Option<Quality> {
    offered.iter().copied().find(|quality| *quality == Quality::Auth).or(offered.first().copied())
}

impl DigestCredentials {
    /// Reads a header field.
    ///
    /// # Errors
    /// The scheme is not `Digest`, a required parameter is missing, or a value is unknown.
    pub fn read(credentials: &header::Credentials) -> Result<Self, DigestError> {
        let scheme = digest(&credentials.0)?;
        let protection = scheme.parameters.text("qop").map(|qop| {
            let quality =
                Quality::known(&qop).ok_or(DigestError::Unknown { parameter: "qop", value: qop })?;
            let count = needed(scheme, "nc")?;
            let count = u32::from_str_radix(&count, 16).ok().filter(|_| count.len() == 8);
            let count = count.ok_or_else(|| DigestError::Unknown {
                parameter: "nc",
                value: scheme.parameters.text("nc").unwrap_or_default(),
            })?;
            Ok(Protection { quality, cnonce: needed(scheme, "cnonce")?, count })
        });
        Ok(Self {
            username: needed(scheme, "username")?,
            realm: needed(scheme, "realm")?,
            nonce: needed(scheme, "nonce")?,
            uri: needed(scheme, "uri")?,
            response: needed(scheme, "response")?,
            algorithm: Algorithm::of(scheme)?,
            opaque: scheme.parameters.text("opaque"),
            protection: protection.transpose()?,
            userhash: is_true(scheme, "userhash"),
        })
    }

    /// The credentials as a header field.
    pub fn write(&self) -> header::Credentials {
        let mut scheme = AuthScheme::new("Digest");
        let parameters = &mut scheme.parameters;
        for (name, value) in [
            ("username", &self.username),
            ("realm", &self.realm),
            ("nonce", &self.nonce),
            ("uri", &self.uri),
            ("response", &self.response),
        ] {
            parameters.set_quoted(name, value);
        }
        parameters.set("algorithm", Some(self.algorithm.name()));
        if let Some(opaque) = &self.opaque {
            parameters.set_quoted("opaque", opaque);
        }
        if self.userhash {
            parameters.set("userhash", Some("true"));
        }
        if let Some(Protection { quality, cnonce, count }) = &self.protection {
            parameters.set("qop", Some(quality.name()));
            parameters.set_quoted("cnonce", cnonce);
            parameters.set("nc", Some(&format!("{count:08x}")));
        }
        header::Credentials(scheme)
    }

    /// Whether the proof was made with the password of `secret`. The server must also check that the nonce is its own, and that
    /// the count is new.
    pub fn proves(&self, method: &Method, body: &[u8], secret: &Secret) -> bool {
        self.algorithm.hash == secret.hash
            && is_same_proof(&self.proof(method.as_str(), body, secret), &self.response.to_ascii_lowercase())
    }

    /// The proof of RFC 7616 section 3.4.1, or without `qop` of RFC 2069 section 2.1.2.
    ///
    /// With an empty `method` it is `rspauth`, the server's proof to the client (RFC 7616 section 3.5).
    fn proof(&self, method: &str, body: &[u8], secret: &Secret) -> String {
        let hash = self.algorithm.hash;
        let cnonce = self.protection.as_ref().map_or("", |protection| &protection.cnonce);
        let first = secret.first(self.algorithm, &self.nonce, cnonce);
        let second = match &self.protection {
            Some(Protection { quality: Quality::AuthInt, .. }) => {
                hash.hex(&[method, &self.uri, &hash.hex_of(body)])
            }
            _ => hash.hex(&[method, &self.uri]),
        };
        match &self.protection {
            Some(Protection { quality, cnonce, count }) => {
                hash.hex(&[&first, &self.nonce, &format!("{count:08x}"), cnonce, quality.name(), &second])
            }
            None => hash.hex(&[&first, &self.nonce, &second]),
        }
    }
}

/// Whether two proofs are equal. The time of the comparison does not depend on the position of a difference.
pub(crate) fn is_same_proof(ours: &str, theirs: &str) -> bool {
    let pairs = ours.bytes().zip(theirs.bytes());
    let differ = pairs.fold(0, |differ, (ours, theirs)| std::hint::black_box(differ | (ours ^ theirs)));
    ours.len() == theirs.len() && differ == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get() -> Method {
        Method::Other("GET".into())
    }

    fn challenge(algorithm: Algorithm) -> DigestChallenge {
        DigestChallenge {
            realm: "http-auth@example.org".into(),
            nonce: "7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v".into(),
            opaque: Some("FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS".into()),
            algorithm,
            qualities: vec![Quality::Auth, Quality::AuthInt],
            stale: false,
            userhash: false,
        }
    }

    /// RFC 7616 section 3.9.1.
    #[test]
    fn the_examples_of_rfc_7616() {
        const CNONCE: &str = "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ";
        for (algorithm, response) in [
            (Algorithm::MD5, "8ca523f5e9506fed4657c9700eebdbec"),
            (Algorithm::SHA_256, "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1"),
        ] {
            let mut session = DigestSession::new(challenge(algorithm), "Mufasa", "Circle of Life");
            let answer = session.answer(&get(), "/dir/index.html", b"", CNONCE);
            assert_eq!(answer.response, response, "{algorithm:?}");
        }
    }

    /// The request of RFC 7616 section 3.9.2. The hashes are those of Python's hashlib: the ones in the RFC are not SHA-512/256.
    #[test]
    fn a_user_name_is_told_by_its_hash_where_the_server_takes_it() {
        let challenge = DigestChallenge {
            realm: "api@example.org".into(),
            nonce: "5TsQWLVdgBdmrQ0XsxbDODV+57QdFR34I9HAbC/RVvkK".into(),
            userhash: true,
            ..challenge(Algorithm { hash: Hash::Sha512Of256, session: false })
        };
        let read = DigestChallenge::read(&challenge.write()).unwrap();
        assert_eq!(read, challenge);
        let mut session = DigestSession::new(read, "Jäsøn Doe", "Secret, or not?");
        let answer = session.answer(&get(), "/doe.json", b"", "NTg6RKcb9boFIAS3KrFK9BGeh+niz/sm");
        assert_eq!(answer.username, "793263caabb707a56211940d90411ea4a575adeccb7e360aeb624ed06ece9b0b");
        assert_eq!(answer.response, "7a4e1192babbba02e91182d2895bfdbf7adafc6e48d4e517ca301974843d840c");
        assert!(answer.write().to_string().contains("userhash=true"));
        assert_eq!(DigestCredentials::read(&answer.write()).unwrap(), answer);
    }

    /// RFC 2617 section 3.5.
    #[test]
    fn the_example_of_rfc_2617() {
        let challenge = DigestChallenge {
            realm: "testrealm@host.com".into(),
            nonce: "dcd98b7102dd2f0e8b11d0f600bfb0c093".into(),
            ..challenge(Algorithm::MD5)
        };
        let mut session = DigestSession::new(challenge, "Mufasa", "Circle Of Life");
        let answer = session.answer(&get(), "/dir/index.html", b"", "0a4f113b");
        assert_eq!(answer.response, "6629fae49393a05397450978507c4ef1");
    }

    #[test]
    fn what_a_client_answers_a_server_takes() {
        let algorithms = Algorithm::ALL.map(|(_, algorithm)| algorithm);
        let offers =
            [vec![], vec![Quality::Auth], vec![Quality::AuthInt], vec![Quality::AuthInt, Quality::Auth]];
        for (algorithm, qualities) in algorithms.into_iter().flat_map(|a| offers.clone().map(|q| (a, q))) {
            let challenge = DigestChallenge { qualities, ..challenge(algorithm) };
            let read = DigestChallenge::read(&challenge.write()).unwrap();
            assert_eq!(read, challenge);
            let mut session = DigestSession::new(read, "bob", "zanzi\"bar");
            for count in 1..3 {
                let answer = session.answer(&Method::Register, "sip:biloxi.com", b"body", "abc");
                let answer = DigestCredentials::read(&answer.write()).unwrap();
                assert!(answer.protection.as_ref().is_none_or(|protection| protection.count == count));
                let secret =
                    |password: &str| Secret::new(algorithm.hash, "bob", "http-auth@example.org", password);
                assert!(answer.proves(&Method::Register, b"body", &secret("zanzi\"bar")));
                assert!(!answer.proves(&Method::Register, b"body", &secret("zanzibar")));
                assert!(!answer.proves(&Method::Invite, b"body", &secret("zanzi\"bar")));
                let guards_body = answer.protection.as_ref().is_some_and(|p| p.quality == Quality::AuthInt);
                assert_eq!(answer.proves(&Method::Register, b"", &secret("zanzi\"bar")), !guards_body);
            }
        }
    }

    #[test]
    fn a_session_keeps_its_first_nonce() {
        for (_, algorithm) in Algorithm::ALL {
            let mut session = DigestSession::new(challenge(algorithm), "bob", "zanzibar");
            let [first, second] =
                ["a", "b"].map(|cnonce| session.answer(&get(), "/", b"", cnonce).protection.unwrap());
            assert_eq!(first.cnonce, "a");
            assert_eq!(
                (second.cnonce.as_str(), second.count),
                (if algorithm.session { "a" } else { "b" }, 2)
            );
        }
    }

    #[test]
    fn what_lacks_something_is_refused() {
        let scheme = |text: &str| {
            let mut headers = crate::Headers::default();
            headers.push(crate::Name::Authorization, text);
            DigestCredentials::read(&headers.credentials(&crate::Name::Authorization).unwrap()[0])
        };
        assert_eq!(scheme("Basic a=b"), Err(DigestError::Scheme("Basic".into())));
        assert_eq!(scheme("Digest realm=\"x\""), Err(DigestError::Missing("username")));
        let start = "Digest username=\"a\", realm=\"r\", nonce=\"n\", uri=\"sip:a\", response=\"0\"";
        assert!(scheme(start).is_ok());
        for (more, parameter) in [("algorithm=X", "algorithm"), ("qop=x", "qop"), ("qop=auth, nc=1", "nc")] {
            let found = scheme(&format!("{start}, {more}"));
            assert!(
                matches!(&found, Err(DigestError::Unknown { parameter: p, .. }) if *p == parameter),
                "{found:?}"
            );
        }
        assert_eq!(scheme(&format!("{start}, qop=auth, nc=00000001")), Err(DigestError::Missing("cnonce")));
    }

    #[test]
    fn a_proof_is_the_same_only_as_a_whole() {
        assert!(is_same_proof("00ff", "00ff") && is_same_proof("", ""));
        for theirs in ["00fe", "10ff", "00f", "00fff", ""] {
            assert!(!is_same_proof("00ff", theirs), "{theirs}");
        }
    }
}
