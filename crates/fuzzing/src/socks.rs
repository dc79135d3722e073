//! Target `socks`: the SOCKS handshake of an application with the onion proxy.

/// Performs a handshake with any bytes. Returns whether it gave a request that an exit could serve.
///
/// # Panics
///
/// If the handshake reads more bytes than there are, or gives a request without reading one.
pub fn socks(input: &[u8]) -> bool {
    let (read, is_request) = penstock_live::proxy::handshake(input);
    assert!(read <= input.len() && (!is_request || read >= 9), "{read} of {} B", input.len());
    is_request
}
