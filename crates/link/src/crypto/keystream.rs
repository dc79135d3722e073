//! A keystream that is generated some cells in advance.

use cipher::{KeyIvInit, StreamCipher};
use tor_llcrypto::cipher::aes::Aes128Ctr;

/// Length of the keystream that one call generates [B], for two cells. The widest AES instructions process many blocks
/// at once and need more blocks than one cell has.
const AHEAD: usize = 1024;

/// A keystream of AES-128 in counter mode. The counter starts at zero.
pub struct KeyStream {
    cipher: Aes128Ctr,
    /// The generated keystream. It uses no memory before the first cell, because many circuits never carry one.
    ahead: Option<Box<[u8; AHEAD]>>,
    used: usize,
}

impl KeyStream {
    /// The keystream of `key`.
    pub fn new(key: &[u8; 16]) -> Self {
        let cipher = Aes128Ctr::new(key.into(), &Default::default());
        KeyStream { cipher, ahead: None, used: AHEAD }
    }

    /// XORs `bytes` with the next bytes of the keystream.
    pub fn apply(&mut self, mut bytes: &mut [u8]) {
        let ahead = self.ahead.get_or_insert_with(|| Box::new([0; AHEAD]));
        while !bytes.is_empty() {
            if self.used == AHEAD {
                self.cipher.write_keystream(&mut ahead[..]);
                self.used = 0;
            }
            let count = bytes.len().min(AHEAD - self.used);
            let (now, later) = bytes.split_at_mut(count);
            let stream = &ahead[self.used..self.used + count];
            now.iter_mut().zip(stream).for_each(|(byte, key)| *byte ^= key);
            self.used += count;
            bytes = later;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn no_keystream_is_computed_before_the_first_byte() {
        let mut stream = KeyStream::new(&[1; 16]);
        assert!(stream.ahead.is_none());
        stream.apply(&mut [0]);
        assert!(stream.ahead.is_some());
    }

    proptest! {
        /// Any split of the bytes gives the same result.
        #[test]
        fn the_keystream_is_aes_in_counter_mode(key in any::<[u8; 16]>(), cuts in proptest::collection::vec(0usize..1500, 1..12)) {
            let mut cipher = Aes128Ctr::new(&key.into(), &Default::default());
            let mut stream = KeyStream::new(&key);
            for cut in cuts {
                let (mut ours, mut theirs) = (vec![7; cut], vec![7; cut]);
                stream.apply(&mut ours);
                cipher.apply_keystream(&mut theirs);
                prop_assert_eq!(ours, theirs);
            }
        }
    }
}
