//! Directory authorities and their certificates.
//!
//! Votes and consensuses name an authority by its identity key. For some months, the identity key certifies a signing
//! key. The signing key signs votes and consensuses.
//!
//! Source: dir-spec, "Creating key certificates".

use super::items;
use digest::Digest;
use penstock_network::document::{Item, Malformed, split, to_hex};
use std::net::SocketAddr;
use std::time::SystemTime;
use tor_llcrypto::d::Sha1;
use tor_llcrypto::pk::rsa::PublicKey;

/// The SHA-1 digest of a key.
pub type Fingerprint = [u8; 20];

/// A directory authority, as in a `DirAuthority` line of a torrc.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authority {
    /// Nickname, for logs.
    pub nickname: String,
    /// SHA-1 of the identity key that certifies the signing key (`v3ident`).
    pub v3ident: Fingerprint,
    /// Address of the directory port.
    pub dir_port: SocketAddr,
}

/// A key certificate of an authority.
#[derive(Clone, Debug)]
pub struct AuthorityCert {
    /// Text of the certificate.
    pub text: std::sync::Arc<str>,
    /// SHA-1 of the identity key.
    pub identity: Fingerprint,
    /// SHA-1 of the signing key.
    pub signing: Fingerprint,
    /// Time of publication.
    pub published: SystemTime,
    /// Time of expiry.
    pub expires: SystemTime,
    pub(super) key: PublicKey,
}

impl AuthorityCert {
    /// Reads and verifies a list of certificates. Invalid certificates are left out.
    pub fn read_all(text: &str) -> Vec<AuthorityCert> {
        let each = split(text, "dir-key-certificate-version").into_iter();
        each.filter_map(|text| AuthorityCert::read(text).ok()).collect()
    }

    /// Reads and verifies a certificate. Identity key and signing key must sign each other.
    pub fn read(text: &str) -> Result<AuthorityCert, Malformed> {
        let mut end = items(text);
        let certification = end
            .by_ref()
            .find(|item| item.as_ref().is_ok_and(|item| item.keyword() == b"dir-key-certification"));
        let signature = certification.ok_or(Malformed)??;
        if end.next().is_some() || one(text, "dir-key-certificate-version")?.arguments()? != "3" {
            return Err(Malformed);
        }
        let key = |keyword: &str| {
            PublicKey::from_der(&one(text, keyword)?.object("RSA PUBLIC KEY")?).ok_or(Malformed)
        };
        let (identity, signing) = (key("dir-identity-key")?, key("dir-signing-key")?);
        let (cert, fingerprint) = (digest_of(&signing), digest_of(&identity));
        if one(text, "fingerprint")?.arguments()? != to_hex(&fingerprint) {
            return Err(Malformed);
        }
        // The signature covers the keyword line, including its line end.
        let signed = &text[..signature.at + "dir-key-certification\n".len()];
        identity.verify(&Sha1::digest(signed), &signature.object("SIGNATURE")?).map_err(|_| Malformed)?;
        let cross = one(text, "dir-key-crosscert")?;
        let cross = cross.object("ID SIGNATURE").or_else(|_| cross.object("SIGNATURE"))?;
        signing.verify(&fingerprint, &cross).map_err(|_| Malformed)?;
        Ok(AuthorityCert {
            text: text.into(),
            identity: fingerprint,
            signing: cert,
            published: one(text, "dir-key-published")?.time()?,
            expires: one(text, "dir-key-expires")?.time()?,
            key: signing,
        })
    }
}

fn digest_of(key: &PublicKey) -> Fingerprint {
    Sha1::digest(key.to_der()).into()
}

/// The item with this keyword, which must occur exactly once.
fn one<'a>(text: &'a str, keyword: &str) -> Result<Item<'a>, Malformed> {
    let is_it = |item: &Result<Item<'a>, Malformed>| {
        item.as_ref().is_ok_and(|item| item.keyword() == keyword.as_bytes())
    };
    let mut found = items(text).filter(is_it);
    match (found.next(), found.next()) {
        (Some(item), None) => item,
        _ => Err(Malformed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::samples;

    #[test]
    fn certificates_of_c_tor_authorities_are_parsed() {
        let certs = AuthorityCert::read_all(samples::CERTIFICATES);
        assert_eq!(certs.len(), 3);
        for cert in &certs {
            assert!(cert.published < cert.expires);
            assert!(samples::authorities().iter().any(|known| known.v3ident == cert.identity));
        }
        assert_eq!(certs.iter().map(|cert| &*cert.text).collect::<String>(), samples::CERTIFICATES);
    }

    #[test]
    fn no_byte_of_a_certificate_may_change() {
        let cert = AuthorityCert::read_all(samples::CERTIFICATES).remove(0);
        let text = cert.text.as_bytes();
        // Some bytes of each line.
        for at in (0..text.len()).step_by(7) {
            let mut changed = text.to_vec();
            changed[at] ^= 1;
            let Ok(changed) = String::from_utf8(changed) else { continue };
            let read = AuthorityCert::read(&changed);
            // The line breaks of base64 have no meaning, and the last signature is not signed itself.
            assert!(
                read.as_ref()
                    .is_ok_and(|read| (read.identity, read.signing) == (cert.identity, cert.signing))
                    || read.is_err(),
                "byte {at}"
            );
            if at < cert.text.find("dir-key-certification").unwrap() {
                assert!(read.is_err(), "byte {at}");
            }
        }
    }
}
