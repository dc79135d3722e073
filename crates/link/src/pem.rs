//! PEM objects: RSA keys in files; keys, certificates and signatures in descriptors.

use crate::wire::Malformed;
use pem_rfc7468::LineEnding;
use zeroize::Zeroizing;

/// Writes `bytes` as a PEM object with the label `name`.
///
/// # Panics
///
/// If `name` has characters that PEM does not allow.
pub fn write(name: &str, bytes: &[u8]) -> String {
    pem_rfc7468::encode_string(name, LineEnding::LF, bytes).expect("the name is one of a PEM object")
}

/// Reads `text`, which must be exactly one PEM object with the label `name`.
pub fn read(name: &str, text: &str) -> Result<Zeroizing<Vec<u8>>, Malformed> {
    match pem_rfc7468::decode_vec(text.trim().as_bytes()) {
        Ok((label, bytes)) if label == name => Ok(Zeroizing::new(bytes)),
        Ok(_) | Err(_) => Err(Malformed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_object_can_be_read() {
        for len in [1, 47, 48, 49, 200] {
            let bytes = vec![0xA5; len];
            let text = write("THING", &bytes);
            assert!(text.lines().all(|line| line.len() <= 64));
            assert_eq!(read("THING", &text).as_deref(), Ok(&bytes));
            assert!(read("OTHER", &text).is_err() && read("THING", &text[1..]).is_err());
        }
        assert!(read("THING", &write("THING", &[])).is_err(), "RFC 7468 objects are not empty");
    }
}
