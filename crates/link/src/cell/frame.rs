//! Framing: separates the bytes of a link into cells.

use super::command;
use crate::wire::Reader;

/// Length of a fixed-length cell in link protocol 4 and 5 [B].
pub const CELL_LEN: usize = 514;
/// Length of the body of a fixed-length cell [B].
pub const BODY_LEN: usize = 509;
/// The longest body of a variable-length cell [B].
pub const MAX_VARIABLE: usize = u16::MAX as usize;

/// One cell in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Circuit id; zero for cells that concern the whole link.
    pub circ_id: u32,
    /// Command number.
    pub command: u8,
    /// Body: [`BODY_LEN`] bytes, or as many bytes as the cell's length field says.
    pub body: &'a [u8],
}

/// Size of the circuit id at the start of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdLen {
    /// Two bytes: a VERSIONS cell, before both nodes have agreed on the link protocol.
    Two,
    /// Four bytes, in link protocol 4 and 5.
    Four,
}

/// The first cell in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Front<'a> {
    /// A complete cell, and its size in the buffer [B].
    Cell(Frame<'a>, usize),
    /// An incomplete cell, and the size of the complete cell if known [B].
    Partial(Option<usize>),
}

/// Parses the first cell in `buffer`, without copying bytes. Parsing cannot fail: any bytes are a cell or the start
/// of a cell. A caller needs to buffer at most one cell header and [`MAX_VARIABLE`] bytes.
pub fn front(buffer: &[u8], ids: IdLen) -> Front<'_> {
    parse(buffer, ids).unwrap_or(Front::Partial(None))
}

fn parse(buffer: &[u8], ids: IdLen) -> Option<Front<'_>> {
    let mut reader = Reader::new(buffer);
    let circ_id = match ids {
        IdLen::Two => reader.u16().ok()?.into(),
        IdLen::Four => reader.u32().ok()?,
    };
    let command = reader.u8().ok()?;
    let len = if command::is_variable(command) { reader.u16().ok()?.into() } else { BODY_LEN };
    let all = buffer.len() - reader.len() + len;
    Some(match reader.take(len) {
        Ok(body) => Front::Cell(Frame { circ_id, command, body }, all),
        Err(_) => Front::Partial(Some(all)),
    })
}

/// Appends a variable-length cell to `out`.
///
/// # Panics
///
/// If `body` is longer than [`MAX_VARIABLE`]. Penstock never builds such a cell.
pub fn push_variable(out: &mut Vec<u8>, ids: IdLen, command: u8, body: &[u8]) {
    assert!(command::is_variable(command), "a cell of fixed length has no length");
    let len = u16::try_from(body.len()).expect("what a node says of itself is shorter than 64 KiB");
    out.extend_from_slice(&[0, 0, 0, 0][..if ids == IdLen::Two { 2 } else { 4 }]);
    out.push(command);
    out.extend_from_slice(&len.to_be_bytes());
    out.extend_from_slice(body);
}

/// Appends a fixed-length cell to `out`. The circuit id is 0 and has four bytes.
///
/// # Panics
///
/// If `body` is longer than [`BODY_LEN`]. Penstock never builds such a cell.
pub fn push_fixed(out: &mut Vec<u8>, command: u8, body: &[u8]) {
    assert!(!command::is_variable(command) && body.len() <= BODY_LEN, "it fits into a cell of fixed length");
    let end = out.len() + CELL_LEN;
    out.extend_from_slice(&[0, 0, 0, 0, command]);
    out.extend_from_slice(body);
    out.resize(end, 0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn versions_cells_have_ids_of_two_bytes() {
        let mut out = Vec::new();
        push_variable(&mut out, IdLen::Two, command::VERSIONS, &[0, 4, 0, 5]);
        assert_eq!(out, [0, 0, 7, 0, 4, 0, 4, 0, 5]);
        let Front::Cell(frame, len) = front(&out, IdLen::Two) else { panic!("the cell is complete") };
        assert_eq!((frame.command, frame.body, len), (command::VERSIONS, &[0, 4, 0, 5][..], 9));
    }

    #[test]
    fn each_prefix_of_a_cell_is_incomplete() {
        let mut fixed = Vec::new();
        push_fixed(&mut fixed, command::NETINFO, &[1, 2, 3]);
        let mut variable = Vec::new();
        push_variable(&mut variable, IdLen::Four, command::CERTS, &[7; 300]);
        for (cell, head) in [(fixed, 5), (variable, 7)] {
            for len in 0..cell.len() {
                let expected = Front::Partial((len >= head).then_some(cell.len()));
                assert_eq!(front(&cell[..len], IdLen::Four), expected, "{len} bytes");
            }
            assert!(matches!(front(&cell, IdLen::Four), Front::Cell(_, len) if len == cell.len()));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_cells_or_an_incomplete_cell(bytes in proptest::collection::vec(any::<u8>(), 0..3000), two: bool) {
            let ids = if two { IdLen::Two } else { IdLen::Four };
            let mut rest = &bytes[..];
            loop {
                match front(rest, ids) {
                    Front::Cell(frame, len) => {
                        prop_assert!(frame.body.len() < len && len <= rest.len());
                        rest = &rest[len..];
                    }
                    Front::Partial(whole) => {
                        prop_assert!(whole.is_none_or(|whole| whole > rest.len() && whole <= MAX_VARIABLE + 7));
                        break;
                    }
                }
            }
        }
    }
}
