//! The server descriptor that a relay uploads to the directory authorities.

mod policy;

#[cfg(all(test, feature = "oracles"))]
mod tests;

use crate::keys::Keys;
use crate::pem;
use data_encoding::{BASE64, BASE64_NOPAD};
use digest::Digest;
use std::net::{Ipv4Addr, SocketAddrV6};
use std::time::{Duration, SystemTime};
use tor_cert::{CertType, Ed25519Cert, EncodedCert};
use tor_llcrypto::d::{Sha1, Sha256};
use tor_llcrypto::pk::ed25519::Ed25519Identity;
use tor_llcrypto::pk::keymanip::convert_curve25519_to_ed25519_private;

pub use policy::{Addresses, BadRule, ExitPolicy, Private, Rule, is_private, private_networks};

/// Content of a descriptor, except the keys.
#[derive(Clone, Debug)]
pub struct Description {
    /// Nickname: 1 to 19 letters and digits.
    pub nickname: String,
    /// IPv4 address of the ORPort.
    pub address: Ipv4Addr,
    /// Port number of the ORPort.
    pub or_port: u16,
    /// Address and port of the IPv6 ORPort, if there is one.
    pub ipv6: Option<SocketAddrV6>,
    /// Name and version of the software.
    pub platform: Option<String>,
    /// Supported protocol versions, such as `Link=4-5 Relay=2-4`.
    pub protocols: String,
    /// Time at which the relay started.
    pub started: SystemTime,
    /// Bandwidth rate [B/s], burst [B] and observed bandwidth [B/s].
    pub bandwidth: [u64; 3],
    /// Contact address of the operator.
    pub contact: Option<String>,
    /// Other relays of the operator: `$` and a fingerprint, or a nickname.
    pub family: Vec<String>,
    /// Whether the relay serves directory documents over circuits (BEGIN_DIR).
    pub directory: bool,
    /// Exit policy.
    pub policy: ExitPolicy,
}

/// An invalid content of a descriptor. The message names the allowed values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadDescription {
    /// The nickname has wrong characters or a wrong length.
    #[error("{0:?} is no nickname; a nickname has 1 to 19 letters and digits")]
    Nickname(String),
    /// A text has a control character, which could start a new line in the descriptor.
    #[error("the {0} must be one line of printable characters")]
    Text(&'static str),
    /// The bandwidth is out of range.
    #[error("the burst must be at least the rate")]
    Bandwidth,
}

/// Lifetime of the onion keys' cross-certificates. No onion key lives longer.
const CROSSCERT_LIFETIME: Duration = Duration::from_secs(120 * 86_400);

impl Description {
    fn check(&self) -> Result<(), BadDescription> {
        let name = &self.nickname;
        if !(1..=19).contains(&name.len()) || !name.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err(BadDescription::Nickname(name.clone()));
        }
        let texts = [
            ("platform", self.platform.as_deref()),
            ("protocols", Some(&self.protocols[..])),
            ("contact", self.contact.as_deref()),
        ];
        let family = self.family.iter().map(|relay| ("family", Some(&relay[..])));
        for (what, text) in texts.into_iter().chain(family) {
            if text.is_some_and(|text| text.is_empty() || text.chars().any(char::is_control)) {
                return Err(BadDescription::Text(what));
            }
        }
        if self.family.iter().any(|relay| relay.contains(char::is_whitespace)) {
            return Err(BadDescription::Text("family"));
        }
        if self.bandwidth[1] < self.bandwidth[0] { Err(BadDescription::Bandwidth) } else { Ok(()) }
    }

    /// Writes the descriptor with the time `now`, and signs it with `keys`.
    pub fn write(&self, keys: &Keys, now: SystemTime) -> Result<String, BadDescription> {
        self.check()?;
        let mut text = self.head(keys, now);
        onion_keys(&mut text, keys, now);
        if !self.family.is_empty() {
            line(&mut text, "family", &self.family.join(" "));
        }
        if let Some(contact) = &self.contact {
            line(&mut text, "contact", contact);
        }
        if self.directory {
            text.push_str("tunnelled-dir-server\n");
        }
        text.push_str(&self.policy.lines());
        if let Some(summary) = self.policy.v6_summary() {
            line(&mut text, "ipv6-policy", &summary);
        }
        sign(&mut text, keys);
        Ok(text)
    }

    fn head(&self, keys: &Keys, now: SystemTime) -> String {
        let mut text = format!("router {} {} {} 0 0\n", self.nickname, self.address, self.or_port);
        text.push_str(&format!("identity-ed25519\n{}", pem::write("ED25519 CERT", &keys.signing.cert)));
        line(&mut text, "master-key-ed25519", &BASE64_NOPAD.encode(&keys.ed25519_identity()));
        if let Some(ipv6) = self.ipv6 {
            line(&mut text, "or-address", &format!("[{}]:{}", ipv6.ip(), ipv6.port()));
        }
        if let Some(platform) = &self.platform {
            line(&mut text, "platform", platform);
        }
        line(&mut text, "proto", &self.protocols);
        line(&mut text, "published", &date(now));
        let fingerprint = keys.fingerprint();
        let groups: Vec<_> = (0..fingerprint.len()).step_by(4).map(|at| &fingerprint[at..at + 4]).collect();
        line(&mut text, "fingerprint", &groups.join(" "));
        let uptime = now.duration_since(self.started).unwrap_or_default().as_secs();
        line(&mut text, "uptime", &uptime.to_string());
        line(&mut text, "bandwidth", &self.bandwidth.map(|rate| rate.to_string()).join(" "));
        text
    }
}

fn line(text: &mut String, keyword: &str, arguments: &str) {
    text.push_str(&format!("{keyword} {arguments}\n"));
}

fn date(time: SystemTime) -> String {
    let date = humantime::format_rfc3339_seconds(time).to_string();
    date.replace('T', " ").trim_end_matches('Z').to_owned()
}

/// Onion keys and their cross-certificates. TAP and its RSA onion key are obsolete, but authorities refuse a
/// descriptor without this key.
/// Source: dir-spec, "onion-key-crosscert", "ntor-onion-key-crosscert".
fn onion_keys(text: &mut String, keys: &Keys, now: SystemTime) {
    let identity = [&keys.rsa_identity()[..], &keys.ed25519_identity()].concat();
    let tap = keys.tap.sign(&identity).expect("52 bytes fit into a signature of 1024 bits");
    let public =
        |key: &tor_llcrypto::pk::rsa::KeyPair| pem::write("RSA PUBLIC KEY", &key.to_public_key().to_der());
    text.push_str(&format!("onion-key\n{}", public(&keys.tap)));
    text.push_str(&format!("signing-key\n{}", public(&keys.rsa)));
    text.push_str(&format!("onion-key-crosscert\n{}", pem::write("CROSSCERT", &tap)));
    let onion = &keys.onion;
    line(text, "ntor-onion-key", &BASE64.encode(onion.public.as_bytes()));
    let (key, sign) = convert_curve25519_to_ed25519_private(&onion.secret)
        .expect("every curve25519 key that was generated has its ed25519 counterpart");
    let cert = Ed25519Cert::builder()
        .cert_type(CertType::NTOR_CC_IDENTITY)
        .expiration(now + CROSSCERT_LIFETIME)
        .cert_key(Ed25519Identity::from(keys.ed25519_identity()).into())
        .encode_and_sign(&key)
        .expect("every field of the certificate is set");
    text.push_str(&format!(
        "ntor-onion-key-crosscert {sign}\n{}",
        pem::write("ED25519 CERT", cert.encoded())
    ));
}

/// Appends both signatures. Each signature covers all earlier text and its own keyword.
fn sign(text: &mut String, keys: &Keys) {
    text.push_str("router-sig-ed25519 ");
    let digest =
        Sha256::new().chain_update(b"Tor router descriptor signature v1").chain_update(&text[..]).finalize();
    text.push_str(&BASE64_NOPAD.encode(&keys.signing.key.sign(&digest).to_bytes()));
    text.push_str("\nrouter-signature\n");
    let signature =
        keys.rsa.sign(&Sha1::digest(&text[..])).expect("a digest fits into a signature of 1024 bits");
    text.push_str(&pem::write("SIGNATURE", &signature));
}
