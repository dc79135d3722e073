//! DTLS 1.3 for the datagrams of links. The peer's certificate is compared with the one that it named over the link's
//! TLS connection.

use dimpl::{Config, Dtls, DtlsCertificate, Output};
use penstock_core::datagram::MAX_DATAGRAM;
use penstock_link::datagram::SIZES;
use penstock_units::Duration;
use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256};
use sha2::{Digest, Sha256};
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

/// The overhead of a datagram [B]: header, content type and tag of DTLS 1.3 (RFC 9147 section 4).
pub const OVERHEAD: usize = 5 + 1 + 16;
/// The largest UDP payload [B]. With the headers of UDP and IPv6, a packet has 1470 B.
pub const MAX_PACKET: usize = MAX_DATAGRAM + OVERHEAD;
/// The largest UDP payload of the handshake [B]. With the headers of UDP and IPv6, a packet has 1280 B.
const HANDSHAKE_PACKET: usize = SIZES[1] + OVERHEAD;
/// Maximum number of handshake packets that wait in a session, in each direction [1]. A flight has at most three.
const MAX_QUEUE: usize = 8;
/// The counted memory of a session in its handshake [B]: keys, and full queues. Hostile packets filled at
/// most 94 kB (`tests/dtls.rs`).
pub const SESSION_MEMORY: u64 = 128 * 1024;
/// The counted memory of a session after its handshake, without stored packets [B]. After data, 200 sessions had 21.7 kB
/// each (`tests/dtls.rs`).
pub const FINISHED_MEMORY: u64 = 32 * 1024;

/// The counted memory of a session after its handshake [B]. `packets`: how many packets have arrived without a datagram
/// [1]. Each of them may wait in the session, up to the limit of the queue.
pub fn finished_memory(packets: u64) -> u64 {
    let most = MAX_QUEUE as u64;
    FINISHED_MEMORY + (SESSION_MEMORY - FINISHED_MEMORY) * packets.min(most) / most
}

/// The first retransmission of a handshake message.
const RETRANSMIT: Duration = Duration::from_millis(300);

/// A DTLS certificate, and the settings of its sessions. A relay has one, which is new at each start, because the relay
/// names it on each link. A client has one for each link, so that its links have nothing in common.
pub struct DtlsIdentity {
    config: Arc<Config>,
    certificate: DtlsCertificate,
    sha256: [u8; 32],
}

impl fmt::Debug for DtlsIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DtlsIdentity").finish_non_exhaustive()
    }
}

impl DtlsIdentity {
    /// A new certificate.
    pub fn new() -> Self {
        const FITS: &str = "the settings are constants, and the system has random numbers";
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).expect(FITS);
        let name = crate::tls::random_host_name(8..=20, ".net");
        let certificate = CertificateParams::new(vec![name]).expect(FITS).self_signed(&key).expect(FITS);
        let config = Config::builder()
            .mtu(HANDSHAKE_PACKET)
            .max_queue_rx(MAX_QUEUE)
            .max_queue_tx(MAX_QUEUE)
            .dtls12_cipher_suites(&[])
            .flight_start_rto(RETRANSMIT)
            .build()
            .expect(FITS);
        DtlsIdentity {
            config: Arc::new(config),
            sha256: sha256(certificate.der()),
            certificate: DtlsCertificate {
                certificate: certificate.der().to_vec(),
                private_key: key.serialize_der(),
            },
        }
    }

    /// SHA-256 of the certificate.
    pub fn sha256(&self) -> [u8; 32] {
        self.sha256
    }

    /// A session. Both sides must show a certificate. The responder answers a first message with a cookie only.
    pub fn session(&self, is_initiator: bool, now: Instant) -> Dtls {
        let mut session = Dtls::new_13(self.config.clone(), self.certificate.clone(), now);
        session.set_active(is_initiator);
        session
    }
}

impl Default for DtlsIdentity {
    fn default() -> Self {
        DtlsIdentity::new()
    }
}

/// Drops the output of a session. Returns whether there was a packet.
pub fn answers(session: &mut Dtls, room: &mut [u8]) -> bool {
    let mut answers = false;
    loop {
        match session.poll_output(room) {
            Output::Packet(_) => answers = true,
            Output::Timeout(_) | Output::BufferTooSmall { .. } => return answers,
            _ => {}
        }
    }
}

/// SHA-256 of a certificate in DER.
pub fn sha256(certificate: &[u8]) -> [u8; 32] {
    Sha256::digest(certificate).into()
}
