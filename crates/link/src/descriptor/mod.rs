//! The server descriptor: what a relay tells the directory authorities, and they everybody, of itself.
//!
//! Source: dir-spec, "Server descriptor format"; C tor `router_dump_router_to_string()`.

mod policy;

#[cfg(all(test, feature = "oracles"))]
mod tests;

use crate::keys::Keys;
use crate::pem;
use data_encoding::{BASE64, BASE64_NOPAD};
use digest::Digest;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddrV6};
use std::time::{Duration, SystemTime};
use tor_cert::{CertType, Ed25519Cert, EncodedCert};
use tor_llcrypto::d::{Sha1, Sha256};
use tor_llcrypto::pk::ed25519::Ed25519Identity;
use tor_llcrypto::pk::keymanip::convert_curve25519_to_ed25519_private;

pub use policy::{Addresses, BadRule, ExitPolicy, Private, Rule, is_private, private_networks};

/// What a relay says of itself beside its keys.
#[derive(Clone, Debug)]
pub struct Description {
    /// Its name: 1 to 19 letters and digits.
    pub nickname: String,
    /// Where it listens.
    pub address: Ipv4Addr,
    /// At which port.
    pub or_port: u16,
    /// Where it listens with IPv6, if it does.
    pub ipv6: Option<SocketAddrV6>,
    /// What software it is; nothing is accepted, but an old Tor is not.
    pub platform: Option<String>,
    /// Which parts of the protocol it speaks, such as `Link=4-5 Relay=2-4`.
    pub protocols: String,
    /// Since when it runs.
    pub started: SystemTime,
    /// Rate and burst that its operator allows, and what it was seen to carry [B/s].
    pub bandwidth: [u64; 3],
    /// How to reach its operator.
    pub contact: Option<String>,
    /// Relays of the same operator: `$` and a fingerprint each, or nicknames.
    pub family: Vec<String>,
    /// Whether it serves directories over circuits (BEGIN_DIR).
    pub directory: bool,
    /// Where streams may go.
    pub policy: ExitPolicy,
}

/// Something that cannot be said in a descriptor; a sentence that says what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadDescription {
    /// The nickname.
    Nickname(String),
    /// A text with a control character, which might begin a line of its own.
    Text(&'static str),
    /// The bandwidth.
    Bandwidth,
}

impl fmt::Display for BadDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadDescription::Nickname(name) => {
                write!(f, "{name:?} is no nickname; it has 1 to 19 letters and digits, and nothing else")
            }
            BadDescription::Text(what) => write!(f, "the {what} must be one line of printable characters"),
            BadDescription::Bandwidth => write!(f, "the burst must be at least the rate"),
        }
    }
}

impl std::error::Error for BadDescription {}

/// How long the onion key's word for the identity is good: longer than any key lives.
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

    /// The descriptor that is published at `now`, signed with `keys`.
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

    /// From its name to its bandwidth.
    fn head(&self, keys: &Keys, now: SystemTime) -> String {
        let mut text = format!("router {} {} {} 0 0\n", self.nickname, self.address, self.or_port);
        text.push_str(&format!("identity-ed25519\n{}", pem::write("ED25519 CERT", keys.signing_cert())));
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

/// As directory documents write it: in UTC, to the second.
fn date(time: SystemTime) -> String {
    let date = humantime::format_rfc3339_seconds(time).to_string();
    date.replace('T', " ").trim_end_matches('Z').to_owned()
}

/// The onion keys, and their word for the identity that they belong to.
///
/// Source: dir-spec, "onion-key-crosscert", "ntor-onion-key-crosscert". The RSA key is TAP's, which nobody uses;
/// authorities refuse a descriptor without one.
fn onion_keys(text: &mut String, keys: &Keys, now: SystemTime) {
    let identity = [&keys.rsa_identity()[..], &keys.ed25519_identity()].concat();
    let tap = keys.tap().sign(&identity).expect("52 bytes fit into a signature of 1024 bits");
    let public =
        |key: &tor_llcrypto::pk::rsa::KeyPair| pem::write("RSA PUBLIC KEY", &key.to_public_key().to_der());
    text.push_str(&format!("onion-key\n{}", public(keys.tap())));
    text.push_str(&format!("signing-key\n{}", public(keys.rsa())));
    text.push_str(&format!("onion-key-crosscert\n{}", pem::write("CROSSCERT", &tap)));
    let onion = keys.onion();
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

/// Both signatures; each is over all that is before it, its keyword included.
fn sign(text: &mut String, keys: &Keys) {
    text.push_str("router-sig-ed25519 ");
    let digest =
        Sha256::new().chain_update(b"Tor router descriptor signature v1").chain_update(&text[..]).finalize();
    text.push_str(&BASE64_NOPAD.encode(&keys.signing().sign(&digest).to_bytes()));
    text.push_str("\nrouter-signature\n");
    let signature =
        keys.rsa().sign(&Sha1::digest(&text[..])).expect("a digest fits into a signature of 1024 bits");
    text.push_str(&pem::write("SIGNATURE", &signature));
}
