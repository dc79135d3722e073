//! TLS as Tor uses it. Any certificate is accepted, because the link handshake proves the peer's identity.

use penstock_link::certs::{Credentials, EXPORTER_LABEL};
use rand::RngExt;
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::server::NoServerSessionStorage;
use rustls::{
    ClientConfig, ClientConnection, Connection, DigitallySignedStruct, Error, ServerConfig, ServerConnection,
    SignatureScheme,
};
use sha2::{Digest, Sha256};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Accepts any certificate. The peer must still prove that it has the certificate's key.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end: &CertificateDer<'_>,
        _chain: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// TLS settings of a node, for both sides of a connection.
#[derive(Clone, Debug)]
pub struct TlsConfigs {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
}

impl TlsConfigs {
    /// Settings with the certificate of `credentials`.
    pub fn new(credentials: &Credentials) -> Self {
        TlsConfigs::with(credentials, Arc::new(ring::default_provider()))
    }

    /// Settings with the cipher suites of `provider`, for benchmarks.
    pub fn with(credentials: &Credentials, provider: Arc<CryptoProvider>) -> Self {
        const FITS: &str = "ring has the versions and the key that Tor's certificates have";
        let mut client = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .expect(FITS)
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider.clone())))
            .with_no_client_auth();
        let certificate = CertificateDer::from(credentials.tls_certificate().to_vec());
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(credentials.tls_key().to_vec()));
        let mut server = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect(FITS)
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .expect(FITS);
        // TLS sessions are never resumed (tor-spec, "Negotiating and initializing channels").
        client.resumption = Resumption::disabled();
        server.send_tls13_tickets = 0;
        server.session_storage = Arc::new(NoServerSessionStorage {});
        TlsConfigs { client: Arc::new(client), server: Arc::new(server) }
    }

    /// The client side of a new connection. The server name is random, so that it does not identify Penstock.
    ///
    /// Source: C tor `tor_tls_new()`.
    pub fn connect(&self) -> Connection {
        let name = ServerName::try_from(random_host_name(4..=25, ".com")).expect("base32 letters are a name");
        let connection = ClientConnection::new(self.client.clone(), name);
        connection.expect("these settings were taken once").into()
    }

    /// The server side of a new connection.
    pub fn accept(&self) -> Connection {
        ServerConnection::new(self.server.clone()).expect("these settings were taken once").into()
    }
}

/// A random host name for a TLS certificate or a TLS handshake: `www.`, a random label, and `suffix`. The label has
/// base32 characters, and `lengths` limits their number.
///
/// Source: C tor `crypto_random_hostname()`.
pub fn random_host_name(lengths: RangeInclusive<usize>, suffix: &str) -> String {
    const BASE32: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let mut rng = rand::rng();
    let length = rng.random_range(lengths);
    let label: String = (0..length).map(|_| char::from(BASE32[rng.random_range(0..32)])).collect();
    format!("www.{label}{suffix}")
}

/// The secret that TLS exports for AUTHENTICATE; `None` if TLS cannot export.
pub fn export(connection: &Connection, context: &[u8; 32]) -> Option<[u8; 32]> {
    connection.export_keying_material([0; 32], EXPORTER_LABEL, Some(context)).ok()
}

/// SHA-256 of the peer's certificate; `None` before the end of the TLS handshake.
pub fn certificate_sha256(connection: &Connection) -> Option<[u8; 32]> {
    Some(Sha256::digest(connection.peer_certificates()?.first()?).into())
}
