//! Target `directory`: damaged directory documents, and requests to the directory cache.

mod sampled;

use crate::choices::Choices;
use penstock_live::node::DirectoryStream;
use sampled::{Asked, SampleDirectory};

/// Number of documents that the cache accepted, and number of requests that it answered with a document.
pub type Served = [u32; 2];

const NASTY: [&str; 16] = [
    "\n",
    " ",
    "-1",
    "0",
    "18446744073709551616",
    "2026-11-22 09:21:20",
    "=",
    "\0",
    "\u{e4}",
    "-----BEGIN X-----\n",
    "-----END X-----\n",
    "directory-signature ",
    "directory-footer\n",
    "m ",
    "r ",
    "w Bandwidth=1\n",
];

/// Gives damaged sample documents to a directory cache, and sends requests to the cache.
///
/// # Panics
///
/// If the cache accepts a document that is neither signed nor listed by a consensus, or gives a wrong answer.
pub fn directory(input: &[u8]) -> Served {
    let mut choices = Choices::new(input);
    let mut samples = SampleDirectory::new();
    let mut served = [0; 2];
    for _ in 0..24 {
        if choices.is_over() {
            break;
        }
        let (kind, what) = (choices.byte(), choices.byte());
        if kind & 7 == 7 {
            let bytes = if what & 1 == 0 { request(&mut choices) } else { choices.bytes(255).to_vec() };
            let asked = samples.ask(&bytes);
            served[1] += u32::from(asked == Asked::Found);
            // The same request in pieces, as the cells of a circuit deliver it.
            let mut exchange = DirectoryStream::default();
            bytes.chunks(7).for_each(|piece| exchange.take(piece));
            assert_eq!(
                exchange.question().is_some(),
                asked != Asked::Nothing,
                "the pieces of a request give the same request"
            );
            continue;
        }
        let mut text = samples.text(what).to_owned();
        for _ in 0..kind >> 3 & 3 {
            damage(&mut text, &mut choices);
        }
        if kind & 64 != 0 {
            text = String::from_utf8_lossy(choices.bytes(255)).into_owned();
        }
        served[0] += samples.give(what, &text, choices.byte());
    }
    served
}

fn place(text: &str, choices: &mut Choices<'_>) -> usize {
    text.floor_char_boundary(usize::from(choices.u16()) % (text.len() + 1))
}

fn damage(text: &mut String, choices: &mut Choices<'_>) {
    let at = place(text, choices);
    let end = text.floor_char_boundary(text.len().min(at + usize::from(choices.byte())));
    match choices.below(5) {
        0 => drop(text.drain(at..end)),
        1 => text.insert_str(at, choices.of(&NASTY).copied().unwrap_or_default()),
        2 => text.truncate(at),
        3 => {
            let again = text[at..end].to_owned();
            let to = place(text, choices);
            text.insert_str(to, &again);
        }
        _ => {
            let other = String::from_utf8_lossy(choices.bytes(40)).into_owned();
            text.replace_range(at..end, &other);
        }
    }
}

fn request(choices: &mut Choices<'_>) -> Vec<u8> {
    const PARTS: [&str; 24] = [
        "GET /tor/",
        "GET ",
        "POST /tor/",
        "status-vote/current/consensus",
        "-microdesc",
        "keys/",
        "all",
        "fp/",
        "sk/",
        "fp-sk/",
        "micro/d/",
        "server/",
        "d/",
        "authority",
        "0B09811CFD07A5889D56CABF8536096F665D2D76",
        "/",
        "+",
        "-",
        ".z",
        "AAAA",
        " HTTP/1.0\r\n",
        "If-Modified-Since: Sun, 22 Nov 2026 09:21:19 GMT\r\n",
        "\r\n",
        "\u{e4}",
    ];
    let mut text = String::new();
    for _ in 0..choices.below(16) {
        text.push_str(choices.of(&PARTS).copied().unwrap_or_default());
    }
    if choices.flag() {
        text.push_str(" HTTP/1.0\r\n\r\n");
    }
    text.into_bytes()
}
