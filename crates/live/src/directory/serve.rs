//! Answers requests for directory documents.
//!
//! Source: dir-spec, "Serving documents"; C tor's `dircache.c` for statuses and reasons.

use super::between;
use super::consensus::{Consensus, Flavour};
use super::documents::Documents;
use super::http::{Asked, Request, Response};
use penstock_network::document::{base64, hex, to_hex};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Time for which the relay still serves an expired consensus (C tor: `REASONABLY_LIVE_TIME`).
const STALE: Duration = Duration::from_secs(86_400);
/// Maximum number of documents per request [1]. Clients of C tor ask for fewer than a hundred.
const MOST: usize = 1024;

/// A complete or malformed request.
#[derive(Debug)]
pub struct Question(Asked);

impl Question {
    /// Parses a request; `None` if the request is incomplete.
    pub fn read(bytes: &[u8]) -> Option<Question> {
        match Request::read(bytes) {
            Asked::Partial => None,
            asked => Some(Question(asked)),
        }
    }
}

impl Documents {
    /// The response to a request: the header, then the documents.
    pub fn answer(&self, question: &Question, now: SystemTime) -> Vec<Arc<str>> {
        let response = match &question.0 {
            Asked::Whole(request) => self.respond(request, now),
            Asked::Partial | Asked::Malformed => Response::of(400),
        };
        response.write(now)
    }

    fn respond(&self, request: &Request, now: SystemTime) -> Response {
        // Clients that ask for a compressed document also accept a plain one.
        let path = request.path.as_deref().map(|path| path.strip_suffix(".z").unwrap_or(path));
        let Some(what) = path.and_then(|path| path.strip_prefix("/tor/")) else { return Response::of(404) };
        let (room, rest) = what.split_once('/').unwrap_or((what, ""));
        match room {
            "status-vote" => self.consensus_response(rest, request.since, now),
            "keys" => self.keys(rest),
            "micro" => self.micro(rest),
            "server" => self.server(rest),
            _ => Response::of(404),
        }
    }

    /// Answers a request for `current/consensus[-microdesc][/FP+FP..]`. If the path has fingerprints, more than half of
    /// these authorities must have signed the consensus.
    fn consensus_response(&self, rest: &str, since: Option<SystemTime>, now: SystemTime) -> Response {
        let Some(rest) = rest.strip_prefix("current/consensus") else { return Response::of(404) };
        let (flavour, rest) = match rest.strip_prefix("-microdesc") {
            Some(rest) => (Flavour::Microdescriptors, rest),
            None => (Flavour::Plain, rest),
        };
        let Some(consensus) = self.consensus(flavour) else { return Response::of(404) };
        let fits = match rest.strip_prefix('/') {
            Some(fingerprints) => is_signed_by(consensus, fingerprints),
            None => rest.is_empty(),
        };
        if !fits || between(consensus.valid_until, now) >= STALE {
            return Response::of(404);
        }
        if since.is_some_and(|since| since >= consensus.valid_after) {
            return Response::of(304);
        }
        Response::documents(vec![consensus.text.clone()], Some(consensus.fresh_until))
    }

    /// Answers a request for authorities' certificates: all, or those of certain identity or signing keys.
    fn keys(&self, rest: &str) -> Response {
        let certs = |is_it: &dyn Fn(&super::authorities::AuthorityCert) -> bool| {
            self.certs.iter().filter(|cert| is_it(cert)).map(|cert| cert.text.clone()).collect()
        };
        let pieces = match rest.split_once('/') {
            None if rest == "all" => certs(&|_| true),
            Some(("fp", list)) => {
                let wanted = named(list);
                certs(&|cert| wanted.contains(&cert.identity))
            }
            Some(("sk", list)) => {
                let wanted = named(list);
                certs(&|cert| wanted.contains(&cert.signing))
            }
            Some(("fp-sk", list)) => {
                let pair = |pair: &str| {
                    let (identity, signing) = pair.split_once('-')?;
                    Some((hex(identity).ok()?, hex(signing).ok()?))
                };
                let wanted: Vec<([u8; 20], [u8; 20])> = list.split('+').take(MOST).filter_map(pair).collect();
                certs(&|cert| wanted.contains(&(cert.identity, cert.signing)))
            }
            _ => Vec::new(),
        };
        Response::documents(pieces, None)
    }

    /// Microdescriptors: `d/` and digests in base64.
    fn micro(&self, rest: &str) -> Response {
        let list = rest.strip_prefix("d/").unwrap_or_default();
        let digests: BTreeSet<_> =
            list.split('-').take(MOST).filter_map(|digest| base64::<32>(digest).ok()).collect();
        Response::documents(digests.iter().filter_map(|digest| self.microdescriptor(digest)).collect(), None)
    }

    /// Answers a request for server descriptors: this relay's (`authority`), all, or certain identities or digests.
    fn server(&self, rest: &str) -> Response {
        let pieces = match rest.split_once('/') {
            None if rest == "authority" => self.own().into_iter().collect(),
            None if rest == "all" => self.all_descriptors(),
            Some(("fp", list)) => {
                named(list).iter().filter_map(|identity| self.descriptor_of(identity)).collect()
            }
            Some(("d", list)) => named(list).iter().filter_map(|digest| self.descriptor(digest)).collect(),
            _ => Vec::new(),
        };
        Response::documents(pieces, None)
    }
}

/// Parses digests in hexadecimal digits. Skips malformed digests and duplicates.
fn named(list: &str) -> BTreeSet<[u8; 20]> {
    list.split('+').take(MOST).filter_map(|digest| hex(digest).ok()).collect()
}

/// Whether more than half of the listed authorities signed a consensus. `fingerprints` lists them by the first digits.
fn is_signed_by(consensus: &Consensus, fingerprints: &str) -> bool {
    let signers: Vec<String> = consensus.signers().map(|identity| to_hex(&identity)).collect();
    let has = |begin: &str| {
        let begin = begin.to_ascii_uppercase();
        !begin.is_empty() && signers.iter().any(|signer| signer.starts_with(&begin))
    };
    let asked = fingerprints.split('+').count();
    asked <= MOST && 2 * fingerprints.split('+').filter(|begin| has(begin)).count() > asked
}

#[cfg(test)]
mod tests {
    use super::super::documents::tests::full;
    use super::*;
    use crate::directory::samples;
    use proptest::prelude::*;

    /// The status and the body of an answer.
    fn ask(path: &str, headers: &str) -> (u16, String) {
        let request = format!("GET {path} HTTP/1.0\r\n{headers}\r\n");
        let question = Question::read(request.as_bytes()).unwrap();
        let text: String = full().answer(&question, samples::at(5)).concat();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        (head[9..12].parse().unwrap(), body.to_owned())
    }

    fn found(path: &str) -> String {
        let (status, body) = ask(path, "");
        assert_eq!(status, 200, "{path}");
        body
    }

    #[test]
    fn clients_get_the_documents_that_they_request() {
        let consensus = "/tor/status-vote/current/consensus";
        assert_eq!(found(consensus), samples::PLAIN);
        // The request of a C tor client.
        let path = format!("{consensus}-microdesc/0B0981+3b985d+AD8C0D.z");
        assert_eq!(found(&path), samples::MICRO);
        assert_eq!(found("/tor/keys/all.z"), samples::CERTIFICATES);
        let one = found("/tor/keys/fp/0B09811CFD07A5889D56CABF8536096F665D2D76");
        assert!(one.contains("\nfingerprint 0B09811CFD07A5889D56CABF8536096F665D2D76\n"), "{one}");
        let sample = Consensus::read(samples::MICRO).unwrap();
        let signature = samples::MICRO.split("directory-signature sha256 ").nth(1).unwrap();
        let pair = signature.lines().next().unwrap().replace(' ', "-");
        let signing = pair.split_once('-').unwrap().1;
        assert_eq!(found(&format!("/tor/keys/fp-sk/{pair}")), found(&format!("/tor/keys/sk/{signing}")));
        let names: Vec<&str> = samples::MICRO.lines().filter_map(|line| line.strip_prefix("m ")).collect();
        assert_eq!(names.len(), sample.microdescriptors.len());
        let micro = found(&format!("/tor/micro/d/{}.z", names.join("-")));
        let sorted = |text| {
            let mut each = penstock_network::document::split(text, "onion-key");
            each.sort_unstable();
            each.concat()
        };
        assert_eq!(sorted(&micro), sorted(samples::MICRODESCRIPTORS));
        assert_eq!(found("/tor/server/all").len(), samples::DESCRIPTORS.len());
        let by_identity = found("/tor/server/fp/54554C6BD37631CF31FC314BDB6461825E1EC577");
        assert!(by_identity.starts_with("router exit0 "), "{by_identity}");
        let twice = "54554C6BD37631CF31FC314BDB6461825E1EC577+54554C6BD37631CF31FC314BDB6461825E1EC577";
        assert_eq!(
            found(&format!("/tor/server/fp/{twice}")),
            by_identity,
            "the answer has each document once"
        );
    }

    #[test]
    fn missing_documents_give_status_404() {
        for path in [
            "/",
            "/tor/",
            "/tor/keys/authority",
            "/tor/keys/fp/",
            "/tor/keys/fp/0B09811CFD07A5889D56CABF8536096F665D2D77",
            "/tor/micro/d/",
            "/tor/micro/all",
            "/tor/server/authority",
            "/tor/server/d/00",
            "/tor/extra/all",
            "/tor/status-vote/next/consensus",
            "/tor/status-vote/current/consensus-other",
            // Only one of the three authorities signed.
            "/tor/status-vote/current/consensus/0B0981+000000+111111",
            "/tor/status-vote/current/consensus/",
        ] {
            assert_eq!(ask(path, ""), (404, String::new()), "{path}");
        }
        let question = Question::read(b"POST /tor/ HTTP/1.0\r\n\r\n").unwrap();
        assert!(full().answer(&question, samples::at(5)).concat().starts_with("HTTP/1.0 404 "));
        let question = Question::read(b"\0\r\n\r\n").unwrap();
        assert!(full().answer(&question, samples::at(5)).concat().starts_with("HTTP/1.0 400 "));
    }

    #[test]
    fn a_client_with_the_newest_consensus_gets_status_304() {
        let path = "/tor/status-vote/current/consensus";
        let since =
            |seconds| format!("If-Modified-Since: {}\r\n", httpdate::fmt_http_date(samples::at(seconds)));
        assert_eq!(ask(path, &since(0)).0, 304);
        assert_eq!(ask(path, "If-Modified-Since: Sun, 22 Nov 2026 09:21:19 GMT\r\n").0, 200);
        assert_eq!(ask(path, "If-Modified-Since: yesterday\r\n").0, 200);
    }

    #[test]
    fn an_expired_consensus_is_served_for_a_day() {
        let question = Question::read(b"GET /tor/status-vote/current/consensus HTTP/1.0\r\n\r\n").unwrap();
        for (seconds, status) in [(20 + 86_399, "200"), (20 + 86_400, "404")] {
            assert_eq!(&full().answer(&question, samples::at(seconds))[0][9..12], status);
        }
    }

    #[test]
    fn our_own_descriptor_is_served_under_all_its_paths() {
        let mut documents = full();
        let text: Arc<str> = "router me 127.0.0.1 1 0 0\nrouter-signature\n".into();
        documents.set_own([7; 20], &text);
        let digest = to_hex(&documents.own.as_ref().unwrap().digest);
        for path in ["authority", &format!("fp/{}", to_hex(&[7; 20])), &format!("d/{digest}")] {
            assert_eq!(documents.server(path).pieces, std::slice::from_ref(&text), "{path}");
        }
    }

    proptest! {
        #[test]
        fn nothing_panics(path in "(/tor/|keys/|micro/|server/|status-vote/current/consensus|d/|fp/|fp-sk/|sk/|/|\\+|-|\\.z|all|0B|AAAA|\u{e4}){0,12}") {
            let request = Request { path: Some(path), since: None };
            Documents::new(samples::authorities()).respond(&request, samples::at(0));
        }
    }
}
