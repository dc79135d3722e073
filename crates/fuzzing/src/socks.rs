//! Target `socks`: the SOCKS handshake of an application with the onion proxy.

/// Performs a handshake with any bytes. Returns whether it gave a request that an exit could serve.
///
/// # Panics
///
/// If the handshake gives a request without reading one, or if its result depends on bytes that it did not read.
pub fn socks(input: &[u8]) -> bool {
    let (read, is_request) = penstock_live::proxy::handshake(input);
    assert!(!is_request || read >= 9, "{read} of {} B", input.len());
    let alone = penstock_live::proxy::handshake(&input[..read]);
    assert_eq!(alone, (read, is_request), "the handshake without the {} B after it", input.len() - read);
    is_request
}
