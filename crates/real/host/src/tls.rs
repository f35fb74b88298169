//! TLS 1.2 and 1.3 with rustls and ring: identities, and the authorities to trust (for SIP: RFC 3261 section 26.3, RFC
//! 5922).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, ServerConfig, SignatureScheme};

use crate::user_file::{self, UserFileError};

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read the {what} {}: {source}", file.display())]
    Unreadable {
        /// `certificate` or `private key`.
        what: &'static str,
        /// The path of the file.
        file: PathBuf,
        /// The reason.
        source: UserFileError,
    },
    /// A file does not contain the expected item.
    #[error("{} has no {what}: expected {expected}", file.display())]
    NoPem {
        /// `certificate` or `private key`.
        what: &'static str,
        /// The path of the file.
        file: PathBuf,
        /// The beginning of the expected item, or a command that creates one.
        expected: &'static str,
    },
    /// The TLS library refuses a certificate with its key, or an authority.
    #[error("{what} cannot be used: {why}")]
    Unusable {
        /// The refused item.
        what: String,
        /// The library's message.
        why: String,
    },
}

/// A certificate chain and its private key.
#[derive(Debug)]
pub struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl Clone for Identity {
    fn clone(&self) -> Self {
        Self { chain: self.chain.clone(), key: self.key.clone_key() }
    }
}

/// Which certificates of a peer are accepted.
#[derive(Clone, Debug)]
pub enum Trust {
    /// A certificate for the peer's name that one of these authorities has signed.
    Authorities(Arc<RootCertStore>),
    /// Any certificate. The connection is encrypted, but the peer is not authenticated.
    Anyone,
}

impl Identity {
    /// Reads PEM files. The file `certificate` contains the certificate first and then the certificates that sign it.
    ///
    /// # Errors
    /// If a file cannot be read or has other contents.
    pub fn read(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let chain = certificates(certificate)?;
        let what = "private key";
        let key = PrivateKeyDer::from_pem_slice(&user_file::read_secret(key).map_err(unreadable(what, key))?).map_err(|_| TlsError::NoPem {
            what,
            file: key.to_owned(),
            expected: "one in PEM, as `openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=localhost \
                       -keyout key.pem -out certificate.pem` writes it",
        })?;
        Ok(Self { chain, key })
    }

    /// Creates a self-signed identity for these names and addresses.
    ///
    /// # Errors
    /// If a name is invalid.
    pub fn self_signed(names: Vec<String>) -> Result<Self, TlsError> {
        let what = names.join(", ");
        let made = rcgen::generate_simple_self_signed(names)
            .map_err(|error| TlsError::Unusable { what, why: error.to_string() })?;
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        Ok(Self { chain: vec![made.cert.der().clone()], key: key.into() })
    }

    /// The certificate in DER, without the certificates that sign it.
    pub fn certificate(&self) -> &[u8] {
        self.chain.first().map_or(&[], |certificate| certificate)
    }
}

impl Trust {
    /// Trusts the authorities of a PEM file. Without a file, accepts any certificate.
    ///
    /// # Errors
    /// If the file cannot be read or has no certificate.
    pub fn of(file: Option<&Path>) -> Result<Self, TlsError> {
        file.map_or(Ok(Self::Anyone), |file| authorities(file).map(Self::Authorities))
    }
}

/// Reads the authorities of a PEM file.
///
/// # Errors
/// If the file cannot be read or has no certificate.
pub fn authorities(file: &Path) -> Result<Arc<RootCertStore>, TlsError> {
    let mut store = RootCertStore::empty();
    for certificate in certificates(file)? {
        store.add(certificate).map_err(|error| TlsError::Unusable {
            what: format!("an authority of {}", file.display()),
            why: error.to_string(),
        })?;
    }
    Ok(Arc::new(store))
}

/// The configuration of a server with `identity`. If `clients` is given, only clients with a certificate of these authorities are
/// accepted.
///
/// # Errors
/// If the key does not belong to the certificate.
pub fn server(
    identity: &Identity,
    clients: Option<Arc<RootCertStore>>,
) -> Result<Arc<ServerConfig>, TlsError> {
    let builder = ServerConfig::builder_with_provider(provider());
    let builder = builder.with_safe_default_protocol_versions().map_err(unusable("TLS"))?;
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(roots) => {
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider()).build();
            builder.with_client_cert_verifier(verifier.map_err(unusable("the authority of clients"))?)
        }
    };
    let config = builder.with_single_cert(identity.chain.clone(), identity.key.clone_key());
    config.map(Arc::new).map_err(unusable("the certificate with its key"))
}

/// The configuration of a client. `trust` defines which servers it accepts, and `identity` is what it presents on
/// request.
///
/// # Errors
/// If the key does not belong to the certificate.
pub fn client(trust: &Trust, identity: Option<&Identity>) -> Result<Arc<ClientConfig>, TlsError> {
    let builder = ClientConfig::builder_with_provider(provider());
    let builder = builder.with_safe_default_protocol_versions().map_err(unusable("TLS"))?;
    let builder = match trust {
        Trust::Authorities(roots) => builder.with_root_certificates(Arc::clone(roots)),
        Trust::Anyone => {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(AcceptAnyCertificate(provider())))
        }
    };
    let config = match identity {
        None => Ok(builder.with_no_client_auth()),
        Some(own) => builder.with_client_auth_cert(own.chain.clone(), own.key.clone_key()),
    };
    config.map(Arc::new).map_err(unusable("the certificate with its key"))
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn unusable<E: ToString>(what: &str) -> impl FnOnce(E) -> TlsError {
    move |why| TlsError::Unusable { what: what.to_owned(), why: why.to_string() }
}

fn unreadable(what: &'static str, file: &Path) -> impl FnOnce(UserFileError) -> TlsError {
    move |source| TlsError::Unreadable { what, file: file.to_owned(), source }
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let what = "certificate";
    let contents = user_file::read(file, user_file::LONGEST_SETTINGS).map_err(unreadable(what, file))?;
    let read: Result<Vec<_>, pem::Error> = CertificateDer::pem_slice_iter(&contents).collect();
    read.ok().filter(|found| !found.is_empty()).ok_or_else(|| TlsError::NoPem {
        what,
        file: file.to_owned(),
        expected: "PEM, which begins with `-----BEGIN CERTIFICATE-----`",
    })
}

/// Verifies the handshake signatures with the presented certificate, but does not verify the certificate itself.
#[derive(Debug)]
struct AcceptAnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_has_something_else_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x.pem");
        std::fs::write(&file, "hello").unwrap();
        let error = Identity::read(&file, &file).unwrap_err().to_string();
        assert!(error.contains("x.pem has no certificate: expected PEM"), "{error}");
        let error = authorities(&folder.path().join("none.pem")).unwrap_err().to_string();
        assert!(error.starts_with("cannot read the certificate") && error.contains("none.pem"), "{error}");
    }

    #[test]
    fn a_key_of_another_certificate_is_refused() {
        let one = || Identity::self_signed(vec!["localhost".into(), "127.0.0.1".into()]).unwrap();
        let (own, other) = (one(), one());
        assert!(server(&own, None).is_ok());
        let mixed = Identity { chain: own.chain, key: other.key };
        let error = server(&mixed, None).unwrap_err().to_string();
        assert!(error.starts_with("the certificate with its key cannot be used"), "{error}");
    }
}
