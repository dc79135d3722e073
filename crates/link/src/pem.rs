//! Base64 with a name around it, as RSA keys and signatures are written.
//!
//! Source: RFC 1421 §4.3.2.4 (lines of 64 characters); dir-spec, "Document meta-format".

use crate::wire::Malformed;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

/// An object called `name`.
pub fn write(name: &str, bytes: &[u8]) -> String {
    let mut text = format!("-----BEGIN {name}-----\n");
    let encoded = Zeroizing::new(STANDARD.encode(bytes));
    let mut rest = &encoded[..];
    while !rest.is_empty() {
        let (line, left) = rest.split_at(rest.len().min(64));
        text.push_str(line);
        text.push('\n');
        rest = left;
    }
    text.push_str(&format!("-----END {name}-----\n"));
    text
}

/// The bytes of an object called `name`, which is all that `text` is.
pub fn read(name: &str, text: &str) -> Result<Zeroizing<Vec<u8>>, Malformed> {
    let (begin, end) = (format!("-----BEGIN {name}-----"), format!("-----END {name}-----"));
    let inner = text.trim().strip_prefix(&begin).and_then(|text| text.strip_suffix(&end)).ok_or(Malformed)?;
    let encoded: Zeroizing<String> = Zeroizing::new(inner.split_ascii_whitespace().collect());
    STANDARD.decode(&*encoded).map(Zeroizing::new).map_err(|_| Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for len in [0, 1, 47, 48, 49, 200] {
            let bytes = vec![0xA5; len];
            let text = write("THING", &bytes);
            assert!(text.lines().all(|line| line.len() <= 64));
            assert_eq!(read("THING", &text).as_deref(), Ok(&bytes));
            assert!(read("OTHER", &text).is_err() && read("THING", &text[1..]).is_err());
        }
    }
}
