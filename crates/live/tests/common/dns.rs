//! A name server for tests.

use std::net::{SocketAddr, UdpSocket};

/// A name server that never answers for names that begin with `x`. Every other name has the address 127.0.0.1. Only
/// root may use port 53.
pub(crate) fn name_server(address: &str) -> std::io::Result<SocketAddr> {
    let socket = UdpSocket::bind(address)?;
    let address = socket.local_addr()?;
    std::thread::spawn(move || {
        let mut packet = [0; 512];
        while let Ok((len, from)) = socket.recv_from(&mut packet) {
            let query = &packet[..len];
            if query[13] == b'x' {
                continue;
            }
            let end = 12 + query[12..].iter().position(|byte| *byte == 0).unwrap() + 5;
            let is_a = query[end - 3] == 1;
            let mut answer = query[..2].to_vec();
            answer.extend([0x81, 0x80, 0, 1, 0, u8::from(is_a), 0, 0, 0, 0]);
            answer.extend(&query[12..end]);
            if is_a {
                answer.extend([0xC0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 127, 0, 0, 1]);
            }
            socket.send_to(&answer, from).unwrap();
        }
    });
    Ok(address)
}
