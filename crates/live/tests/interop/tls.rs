//! TLS as Tor uses it: every certificate is valid, because the link handshake proves the identity.

use penstock_link::certs::{Credentials, EXPORTER_LABEL};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, ServerConfig, ServerConnection,
    SignatureScheme, StreamOwned,
};
use sha2::{Digest, Sha256};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

/// An encrypted connection.
pub(crate) trait Channel: Read + Write {
    /// Exports keying material that both ends share.
    fn export(&self, context: &[u8; 32]) -> [u8; 32];
}

impl Channel for StreamOwned<ClientConnection, TcpStream> {
    fn export(&self, context: &[u8; 32]) -> [u8; 32] {
        self.conn.export_keying_material([0; 32], EXPORTER_LABEL, Some(context)).unwrap()
    }
}

impl Channel for StreamOwned<ServerConnection, TcpStream> {
    fn export(&self, context: &[u8; 32]) -> [u8; 32] {
        self.conn.export_keying_material([0; 32], EXPORTER_LABEL, Some(context)).unwrap()
    }
}

/// Accepts any certificate. The peer only proves that it has the certificate's key.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
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

/// The side that opened the connection.
pub(crate) type Client = StreamOwned<ClientConnection, TcpStream>;

/// The peer's certificate, after the TLS handshake.
pub(crate) trait Shown {
    fn certificate_sha256(&self) -> [u8; 32];
}

impl Shown for Client {
    fn certificate_sha256(&self) -> [u8; 32] {
        Sha256::digest(&self.conn.peer_certificates().expect("TLS is up")[0]).into()
    }
}

pub(crate) fn connect(stream: TcpStream) -> Client {
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let provider = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
        .with_no_client_auth();
    let name = ServerName::try_from("www.example.com").unwrap();
    let mut tls = StreamOwned::new(ClientConnection::new(Arc::new(config), name).unwrap(), stream);
    while tls.conn.is_handshaking() {
        tls.conn.complete_io(&mut tls.sock).unwrap();
    }
    tls
}

pub(crate) fn accept(
    stream: TcpStream,
    credentials: &Credentials,
) -> StreamOwned<ServerConnection, TcpStream> {
    let certificate = CertificateDer::from(credentials.tls_certificate().to_vec());
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(credentials.tls_key().to_vec()));
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let mut tls = StreamOwned::new(ServerConnection::new(Arc::new(config)).unwrap(), stream);
    while tls.conn.is_handshaking() {
        tls.conn.complete_io(&mut tls.sock).unwrap();
    }
    tls
}
